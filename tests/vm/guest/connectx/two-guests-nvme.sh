#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Two guests, one the stock NVMe over Fabrics target, the other the host: addresses resolved and packets routed by the
# stock network stack, data verified by fio; the port goes down under load and comes back.
#
# functions: pf,vf
# when: long on 7.2
# guests: 2
# boot: own
# timeout: 1000
# dmesg-allow: nvme nvme0: long keepalive RTT \([0-9]+ ms\)

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/nvme.sh
. /src/tests/vm/guest/lib/two-guests.sh

modprobe mlx5_ib
until_true 20 test -e /sys/class/infiniband/mlx5_0 || fail "no RDMA device"
ip link set "$(netdev 0)" up
ip address add "10.0.0.$GUEST/24" dev "$(netdev 0)"
until_true 30 usable 0 "10.0.0.$GUEST" || fail "the port has no usable GID"

if [ "$GUEST" = 2 ]; then
	export_ram 10.0.0.2 32
	say exported
	hear 900 over
	unexport_ram
	exit
fi

hear 120 exported
ping -c 3 -W 10 10.0.0.2 > "$RESULTS/ping.txt" || fail "ping: $(tail -1 "$RESULTS/ping.txt")"
attach 10.0.0.2 --nr-io-queues=2 --queue-size=32 --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=120
verified --rw=randwrite --bs=4k --iodepth=32 --size=8M
verified --rw=write --bs=1M --iodepth=32 --size=32M

verified --rw=randwrite --bs=4k --iodepth=32 --size=8M --loops=8 &
traffic=$!
sleep 1
inject pf0 '"kind":"port","up":false'
sleep 2
inject pf0 '"kind":"port","up":true'
wait $traffic || fail "the load has not survived a port that was down for two seconds"
until_true 60 live || fail "the controller does not come back"
verified --rw=read --bs=4k --iodepth=32 --size=8M --verify=0
detach
say over
