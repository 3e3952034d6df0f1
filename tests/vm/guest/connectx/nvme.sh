#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock NVMe over Fabrics target and host over one function: a namespace in memory, written and read back by
# fio with checksums, through several I/O queues; the host comes back after a disconnect, and the controller after a
# reset under load.
#
# functions: pf
# when: long on 7.2
# timeout: 400
# boot: own
# dmesg-allow-of: nvmet-reports
# dmesg-allow: nvme nvme0: (resetting controller|long keepalive RTT \([0-9]+ ms\))
# dmesg-allow: block nvme0n1: no usable path - requeuing I/O

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/nvme.sh

up 0
export_ram 10.0.0.1 32
attach 10.0.0.1 --nr-io-queues=2 --queue-size=32
queues=$(cat "/sys/class/nvme/$(controller)/queue_count")
[ "$queues" = 3 ] || fail "the controller has $queues queues, should have 3"
verified --rw=randwrite --bs=4k --iodepth=32 --size=8M
verified --rw=randwrite --bs=64k --iodepth=32 --numjobs=2 --size=8M --offset_increment=8M
verified --rw=write --bs=1M --iodepth=32 --size=32M

# What was written is still there.
detach
attach 10.0.0.1 --nr-io-queues=2 --queue-size=32 --ctrl-loss-tmo=60 --reconnect-delay=1
verified --rw=read --bs=1M --iodepth=4 --size=32M

# A reset under load: what is in flight is sent again.
load_on verified --rw=randwrite --bs=4k --iodepth=32 --size=8M
load_in_flight
nvme reset "/dev/$(controller)"
until_true 60 live || fail "the controller does not come back after a reset"
load_in_flight
load_off

detach
unexport_ram
rmmod nvme_rdma
down
nothing_left
