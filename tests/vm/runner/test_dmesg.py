# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of dmesg.py."""

import re
import unittest

from . import dmesg

LOG = """\
6,100,1000000,-;Linux version 7.3.4
13,101,2000000,-;vm-runner: begin ulp-first
4,102,2500000,-;mlx5_core 0000:01:00.0: something is odd
 SUBSYSTEM=pci
 DEVICE=+pci:0000:01:00.0
6,103,2600000,-;mlx5_core 0000:01:00.0: all is well
13,104,3000000,-;vm-runner: end ulp-first
13,105,4000000,-;vm-runner: begin ulp-second
4,106,4100000,-;------------[ cut here ]------------
4,107,4100001,-;WARNING: CPU: 1 PID: 77 at lib/refcount.c:28 refcount_warn+0x1
4,108,4200000,-;unfinis"""


class Parse(unittest.TestCase):
    """Records, markers, and lines that belong to a record."""

    def test_records(self) -> None:
        lines = dmesg.parse(LOG)
        self.assertEqual(len(lines), 8)
        self.assertEqual(lines[0], dmesg.Line(6, 1.0, "Linux version 7.3.4"))
        self.assertEqual(lines[1].level, 5)

    def test_slices(self) -> None:
        lines = dmesg.parse(LOG)
        self.assertEqual([line.level for line in dmesg.before_tests(lines)], [6])
        first, complete = dmesg.of_test(lines, "ulp-first")
        self.assertTrue(complete)
        self.assertEqual([line.level for line in first], [4, 6])
        second, complete = dmesg.of_test(lines, "ulp-second")
        self.assertFalse(complete)
        self.assertEqual(len(second), 2)
        self.assertEqual(dmesg.of_test(lines, "ulp"), ([], False))

    def test_outside(self) -> None:
        late = "4,105,3500000,-;mlx5_core 0000:01:00.0: late\n"
        begin = "13,105,4000000,-;vm-runner: begin ulp-second\n"
        self.assertEqual(dmesg.outside_tests(dmesg.parse(LOG)), [])
        for text in (LOG.replace(begin, late + begin), LOG[: LOG.index(begin)] + late):
            self.assertEqual([line.level for line in dmesg.outside_tests(dmesg.parse(text))], [4])


class Faults(unittest.TestCase):
    """What fails a test."""

    def faults(self, level: int, text: str, *allowed: str) -> int:
        patterns = [re.compile(pattern) for pattern in allowed]
        return len(dmesg.faults([dmesg.Line(level, 0, text)], patterns))

    def test_whoever_says_it(self) -> None:
        for text in (
            "WARNING: CPU: 0 PID: 5 at kernel/workqueue.c:1 x+0x1",
            "WARNING: possible circular locking dependency detected",
            "WARNING: kernel/workqueue.c:1 at x+0x1, CPU#0: kworker/5",
            "BUG: KASAN: slab-use-after-free in x+0x1",
            "BUG: sleeping function called from invalid context at mm/slab.h:1",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "kernel BUG at rust/helpers/bug.c:1!",
            "Oops: Oops: 0000 [#1] SMP NOPTI",
            "INFO: task insmod:1 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "DMA-API: mlx5_core 0000:01:00.0: device driver frees DMA memory with wrong function",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "UBSAN: array-index-out-of-bounds in x.c:1:2",
            "rust_kernel: panicked at main.rs:1:2:",
        ):
            with self.subTest(text):
                self.assertEqual(self.faults(6, text), 1)

    def test_drivers_by_level(self) -> None:
        text = "mlx5_core 0000:01:00.0: mlx5_cmd_out_err:838:(pid 1): CREATE_CQ failed"
        self.assertEqual(self.faults(4, text), 1)
        self.assertEqual(self.faults(6, text), 0)
        self.assertEqual(self.faults(4, "nvme nvme0: long keepalive RTT (3256 ms)"), 1)
        self.assertEqual(self.faults(3, "nvmet: ctrl 1 fatal error occurred!"), 1)
        self.assertEqual(self.faults(4, "ACPI: IRQ 4 override to edge(!), high(!)"), 0)

    def test_taint(self) -> None:
        self.assertEqual(self.faults(4, "mlx5_ulp: loading out-of-tree module taints kernel."), 0)

    def test_announced(self) -> None:
        text = "mlx5_core 0000:01:00.0: CREATE_CQ failed"
        self.assertEqual(self.faults(3, text, r"mlx5_core [0-9a-f:.]+: CREATE_CQ failed"), 0)
        self.assertEqual(self.faults(3, text, r"mlx5_core [0-9a-f:.]+: CREATE_QP failed"), 1)
        self.assertEqual(self.faults(3, text, r"mlx5_core [0-9a-f:.]+: CREATE_CQ", "CREATE_CQ failed"), 1)

    def test_announced_report(self) -> None:
        report = [
            (6, "------------[ cut here ]------------"),
            (4, "DMA-API: mlx5_core 0000:01:00.0: device driver frees DMA memory with different direction"),
            (4, "WARNING: kernel/dma/debug.c:1060 at check_unmap+0x11e3/0x2c10, CPU#1: kworker/1:2H/156"),
            (4, "Modules linked in: nvme_rdma nvmet mlx5_ib mlx5_core"),
            (4, "Call Trace:"),
            (4, " <TASK>"),
            (4, " rdma_rw_ctx_destroy+0x2b9/0x320 [ib_core]"),
            (4, " ? nvmet_rdma_send_done+0x8f/0x120 [nvmet_rdma]"),
            (4, " </TASK>"),
            (4, "---[ end trace 0000000000000000 ]---"),
            (4, "DMA-API: Mapped at:"),
            (4, " nvmet_rdma_map_sgl_keyed+0x747/0xca0 [nvmet_rdma]"),
        ]
        allowed = [re.compile(p) for p in ("DMA-API: .* with different direction", "WARNING: kernel/dma/debug.c:.*")]

        def count(said: list[tuple[int, str]], patterns: list[re.Pattern[str]]) -> int:
            return len(dmesg.faults([dmesg.Line(level, 0, text) for level, text in said], patterns))

        self.assertEqual(count(report, allowed), 0)
        # The first four, and the stack entries.
        self.assertEqual(count(report, []), 7)
        self.assertEqual(count(report, allowed[1:]), 2)
        self.assertEqual(count(report, allowed[:1]), 5)
        self.assertEqual(count(report + [(4, "nvme nvme0: I/O timeout")], allowed), 1)
        self.assertEqual(count(report[:5] + [(3, "mlx5_core 0000:01:00.0: it failed")] + report[5:], allowed), 1)
        self.assertEqual(count(report[:5] + [(4, "BUG: KASAN: slab-out-of-bounds in x+0x1")] + report[5:], allowed), 4)


if __name__ == "__main__":
    unittest.main()
