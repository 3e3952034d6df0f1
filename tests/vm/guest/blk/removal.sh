#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The card is pulled out under I/O: all of it ends, the disk fails what comes later, and all can be unloaded.
#
# functions: pf,vf
# when: long on 7.2
# boot: own
# timeout: 180
# dmesg-allow-of: card-pulled-out card-silent

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
