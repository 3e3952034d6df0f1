#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card is pulled out under load from four CPUs: every request ends exactly once, no memory is given up, and all
# can be unloaded.
#
# functions: pf:command-timeout=20,vf
# cpus: 4
# boot: own
# kernels: 7.3, debug
# timeout: 240
# dmesg-allow: mlx5_core [0-9a-f:.]+: poll_health:[0-9]+:\(pid [0-9]+\): Fatal error 1 detected
# dmesg-allow: mlx5_core [0-9a-f:.]+: print_health_info:[0-9]+:\(pid [0-9]+\): PCI slot is unavailable
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_wait_for_pages:[0-9]+:\(pid [0-9]+\): Skipping wait for vf pages stage
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_health_try_recover:[0-9]+:\(pid [0-9]+\): (handling bad device here|health recovery flow aborted, PCI reads still not working)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_health_wait_pci_up:[0-9]+:\(pid [0-9]+\): device is being removed, stop waiting for PCI
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_error_sw_reset:[0-9]+:\(pid [0-9]+\): (start|end)
# dmesg-allow: mlx5_core [0-9a-f:.]+: NIC IFC still 7 after 2000ms\.
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_uninit_one:[0-9]+:\(pid [0-9]+\): mlx5_uninit_one: interface is down, NOP
# dmesg-allow: mlx5_core [0-9a-f:.]+: wait_func_handle_exec_timeout:[0-9]+:\(pid [0-9]+\): cmd\[[0-9]+\]: DESTROY_QP\(0x501\) No done completion
# dmesg-allow: mlx5_core [0-9a-f:.]+: wait_func:[0-9]+:\(pid [0-9]+\): DESTROY_QP\(0x501\) timeout\. Will cause a leak of a command resource
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth0: NETDEV WATCHDOG: CPU: [0-9]+: transmit queue [0-9]+ timed out [0-9]+ ms
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth0: TX timeout detected
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth0: TX timeout on queue: [0-9]+, SQ: 0x[0-9a-f]+, CQ: 0x[0-9a-f]+, SQ Cons: 0x[0-9a-f]+ SQ Prod: 0x[0-9a-f]+, usecs since last trans: [0-9]+
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth0: EQ 0x[0-9a-f]+: Cons = 0x[0-9a-f]+, irqn = 0x[0-9a-f]+
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth0: mlx5e_safe_reopen_channels failed recovering from a tx_timeout, err\(-[0-9]+\)\.

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")

pull() {
	inject pf0 '"kind":"remove"'
	echo 1 > "/sys/bus/pci/devices/$pci/remove"
}
mortal pull
dmesg -t | grep -q 'mortal: .*refused -19' || fail "the queue is not gone"
expect "what is left" "$(attached)" "mlx5_1 "
rmmod mlx5_ulp
rmmod mlx5_ib
