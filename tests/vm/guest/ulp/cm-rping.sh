#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# rping in the kernel on queues of the module, with the program rping at the other end and with itself: connections by
# rdma_cm, messages, READs and WRITEs, and the data that comes back compared. A client that comes while one is served is
# refused; one that is killed leaves nothing behind.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 180
# Memory keys of the program stay with mlx5_ib for a minute or two and then go, when another test counts them.
# boot: own
# What a client that is killed has in memory goes before its connection: a READ of ours may come in between.
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|transport retry counter exceeded) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/cm.sh

rping=/src/build/modules/$KERNEL_SERIES/tests/rping/mlx5_ulp_rping.ko

# served PINGS REASON: what the server says of its last client.
served() {
	dmesg -t | grep -q "^mlx5_ulp_rping: server: $1 pings ($2)"
}

listening() {
	rdma resource show cm_id | grep -q LISTEN
}

# program ARGUMENT...: runs rping against the server in the kernel.
program() {
	timeout 60 rping -c -a "$address" "$@" > "$RESULTS/client.txt" 2>&1 ||
		fail "rping -c: $(tail -1 "$RESULTS/client.txt")"
}

# queues: those that are there. mlx5_ib keeps the memory keys of programs for the next one, so they are not counted.
queues() {
	objects | grep -E ' (qp|cq) '
}

unchanged() {
	[ "$(queues)" = "$before" ]
}

# What a program had is freed some time after it has ended.
nothing_more() {
	until_true 20 unchanged || fail "queues: $(queues | tr '\n' ' '), before: $(echo "$before" | tr '\n' ' ')"
}

cm_up
modprobe rdma_ucm

# Our server. The end of a connection flushes the receive for the next message (-ECANCELED), or the last request of ours.
insmod "$rping" server=1 address="$address"
for size in 64 4000 65535; do
	dmesg -C
	program -V -C 10 -S $size
	until_true 20 served '\(9\|10\)' '-[0-9]*' || fail "the server says: $(dmesg -t | tail -1)"
done
# From here on, as the first program of user space has mlx5_ib make queues of its own, which stay.
before=$(queues)

# A client that does not end by itself, a second one beside it, and the end of the first by force.
dmesg -C
rping -c -a "$address" -V -S 1000 > /dev/null 2>&1 &
client=$!
until_true 20 sh -c 'rdma resource show cm_id | grep -q CONNECT' || fail "the client does not connect"
! timeout 60 rping -c -a "$address" -C 1 > /dev/null 2>&1 || fail "two clients at a time were served"
kill -9 $client
until_true 20 served '[0-9]*' '-[0-9]*' || fail "the death of the client is not noticed"
# The server leaves while a client is there; what that makes of it is its own affair, but it ends.
timeout 60 rping -c -a "$address" -V -S 1000 > /dev/null 2>&1 &
client=$!
until_true 20 sh -c 'rdma resource show cm_id | grep -q CONNECT' || fail "the client does not connect"
rmmod mlx5_ulp_rping
status=0
wait $client || status=$?
[ $status != 124 ] || fail "the client does not notice that the server has left"
nothing_more

# Our client.
rping -s -a "$address" -V -C 20 -S 5000 > "$RESULTS/server.txt" 2>&1 &
server=$!
until_true 20 listening || fail "rping -s does not listen"
insmod "$rping" address="$address" size=5000 count=20 || fail "our client: $(dmesg -t | tail -1)"
wait $server || fail "rping -s: $(tail -1 "$RESULTS/server.txt")"
rmmod mlx5_ulp_rping
nothing_more
rmmod rdma_ucm
cm_down
