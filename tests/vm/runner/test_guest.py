# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Tests of guest.py."""

import unittest

from . import guest

OOPS = """\
[    4.717923] Oops: int3: 0000 [#1] SMP NOPTI
[    4.719261] CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted 7.3.4+deb13-amd64 #1 PREEMPT(lazy)
[    4.719261] RIP: 0010:{place}
[    4.719261] Code: 44 8b 7c 24 0c {byte} <b0> 01 00 00 44 89 e8
[    4.719261] Call Trace:
[    4.719261] RIP: 0010:{place}
[    4.719261] Code: 44 8b 7c 24 0c {byte} <b0> 01 00 00 44 89 e8
[    4.719261] Kernel panic - not syncing: Fatal exception in interrupt
"""


class EmulatorFaults(unittest.TestCase):
    """What a guest may die of without a fault of ours."""

    def test_stale_breakpoint(self) -> None:
        for place in ("set_next_task_fair+0x609/0x780", "ring+0x12/0x80 [mlx5_ulp]"):
            for byte in ("e9", "0f"):
                self.assertTrue(guest.is_emulator_fault(OOPS.format(place=place, byte=byte)), place)

    def test_breakpoint_that_is_there(self) -> None:
        for place in ("set_next_task_fair+0x609/0x780", "ring+0x12/0x80 [mlx5_ulp]"):
            self.assertFalse(guest.is_emulator_fault(OOPS.format(place=place, byte="cc")), place)

    def test_other_deaths(self) -> None:
        console = OOPS.format(place="set_next_task_fair+0x609/0x780", byte="e9").replace("int3", "0000")
        self.assertFalse(guest.is_emulator_fault(console))


if __name__ == "__main__":
    unittest.main()
