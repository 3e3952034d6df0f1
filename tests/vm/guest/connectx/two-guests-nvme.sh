#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Two guests, one the stock NVMe over Fabrics target, the other the host: addresses resolved and packets routed by the
# stock network stack, data verified by fio; the port goes down under load and comes back, and the controller is reset under
# load; the host comes back after a disconnect.
#
# functions: pf,vf
# when: long on 7.2
# guests: 2
# boot: own
# timeout: 1000
# dmesg-allow-of: nvmet-reports
# dmesg-allow: nvme nvme0: (resetting controller|long keepalive RTT \([0-9]+ ms\))
# dmesg-allow: block nvme0n1: no usable path - requeuing I/O

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/nvme.sh
. /src/tests/vm/guest/lib/two-guests.sh

modprobe mlx5_ib
until_true 20 test -e /sys/class/infiniband/mlx5_0 || fail "no RDMA device"
ip link set "$(netdev 0)" up
ip address add "10.0.0.$GUEST/24" dev "$(netdev 0)"
ip address add "fd00::$GUEST/64" dev "$(netdev 0)" nodad
until_true 30 usable 0 "10.0.0.$GUEST" || fail "the port has no usable GID"

if [ "$GUEST" = 2 ]; then
	export_ram 10.0.0.2 32
	say exported
	hear 900 over
	unexport_ram
	exit
fi

hear 120 exported
for address in 10.0.0.2 fd00::2; do
	ping -c 3 -W 10 $address > "$RESULTS/ping.txt" || fail "ping $address: $(tail -1 "$RESULTS/ping.txt")"
done

host() {
	attach 10.0.0.2 --nr-io-queues=2 --queue-size=32 --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=120
}

# back: the controller works again, with what was written before all that, and with the load.
back() {
	until_true 60 live || fail "the controller does not come back"
	load_in_flight
	kept
}

# kept: the part of the disk that the load leaves alone is what it was.
kept() {
	verified --rw=read --bs=1M --iodepth=4 --offset=8M --size=24M
}

host
verified --rw=randwrite --bs=4k --iodepth=32 --size=8M
verified --rw=write --bs=1M --iodepth=32 --offset=8M --size=24M

load_on verified --rw=randwrite --bs=4k --iodepth=32 --size=8M
load_in_flight
inject pf0 '"kind":"port","up":false'
sleep 2
load_runs
inject pf0 '"kind":"port","up":true'
back
load_in_flight
nvme reset "/dev/$(controller)"
back
load_off

detach
host
kept
detach
say over
