#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Peers vanish without a word, connected, while they connect and while they leave: requests fail, connections end by
# themselves, after a minute and no later. The address of a peer moves to another machine.
#
# functions: pf,vf
# when: long
# cpus: 2
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/cm.sh

# cut: of connection management, number 1, the next message arrives; of the connected queue nothing.
cut() {
	rule pf0 '"kind":"frame-loss"' '"queue":1,"after":1,"every":1,"count":0'
	silence pf0 "$(dmesg -t | sed -n 's/^mlx5_ulp_cm_test: vanish: connected to queue //p')"
}

cm_up
before=$(objects)
cm_mortal vanish cut
# Three messages were sent 16 times: the request, which got through once, the answer to it, and that somebody leaves.
lost=$(ask '"cmd":"faults"' '.functions.pf0[0].hits')
echo "lost: $lost"
[ "$lost" -ge 47 ] || fail "$lost messages were lost"
no_more_faults

netdev=$(netdev mlx5_0)
cm_mortal moved \
	ip neighbour replace "$address" lladdr 02:00:00:00:00:99 dev "$netdev" nud permanent
ip neighbour del "$address" dev "$netdev"

cm_run connect
same_objects "$before"
cm_down
