#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Multicast groups over rdma_cm: mckey joins one on two functions, the second in a network namespace of its own, and
# what is sent to the group arrives at every queue pair on both of them, the sender's function included.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

group=239.1.2.3

# members FUNCTION COUNT: whether so many queue pairs are attached to groups there.
members() {
	[ "$(ask '"cmd":"objects"' ".functions.$1.live.multicast_member")" = "$2" ]
}

up_apart
# Two queue pairs here and one there. Each program ends when each of its queue pairs has got ten datagrams.
mckey -m $group -b 10.0.0.1 -c 2 -C 10 > "$RESULTS/here.txt" 2>&1 &
here=$!
ip netns exec peer mckey -m $group -b 10.0.0.2 -C 10 > "$RESULTS/there.txt" 2>&1 &
there=$!
until_true 20 members pf0 2 && until_true 20 members vf1 1 || fail "they do not join: $(tail -1 "$RESULTS/here.txt")"
# The vport's list of addresses follows the group, but nobody says when.
while kill -0 $here 2> /dev/null || kill -0 $there 2> /dev/null; do
	mckey -m $group -b 10.0.0.1 -s -C 10 > "$RESULTS/sender.txt" 2>&1 || fail "sender: $(tail -1 "$RESULTS/sender.txt")"
done
wait $here || fail "receivers here: $(tail -1 "$RESULTS/here.txt")"
wait $there || fail "receiver there: $(tail -1 "$RESULTS/there.txt")"
members pf0 0 && members vf1 0 || fail "not all have left the group"
down_apart
nothing_left
