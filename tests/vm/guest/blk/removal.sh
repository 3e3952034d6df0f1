#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card is pulled out under I/O: all of it ends, the disk fails what comes later, and all can be unloaded.
#
# functions: pf,vf
# when: long on 7.2
# boot: own
# timeout: 180
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
. /src/tests/vm/guest/lib/blk.sh

drivers mlx5_0 mlx5_1
network
blk_load
export_on 16
disk_on reconnect_s=3600
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")

fio --name=load --filename=$disk --direct=1 --ioengine=libaio --bs=16k --rw=randrw --iodepth=32 --numjobs=2 \
	--time_based --runtime=120 --minimal > "$RESULTS/fio.txt" 2>&1 &
fio=$!
under_load() {
	[ "$(disk_stat posted)" -ge 200 ]
}
until_true 60 under_load || fail "there is no load"
inject pf0 '"kind":"remove"'
echo 1 > "/sys/bus/pci/devices/$pci/remove"
! wait $fio || fail "I/O without a card went well"
disk_is dead

disk_off
export_off
blk_unload
rmmod mlx5_ib
