#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The pingpong programs of rdma-core move data between the two functions and find it unharmed: reliable and unreliable
# connections, datagrams, shared receive queues; also by events instead of polling.
#
# functions: pf,vf
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

# pingpong PROGRAM OPTION...
pingpong() {
	between 18515 "$1 -d mlx5_0 -g $(gid_index 0) ${*:2}" "$1 -d mlx5_1 -g $(gid_index 1) ${*:2} 127.0.0.1"
	grep -q 'bytes in' "$RESULTS/client.txt" || fail "$1: no result: $(tail -1 "$RESULTS/client.txt")"
	echo "$*: $(tail -1 "$RESULTS/client.txt")"
}

up_between
pingpong ibv_rc_pingpong -c -n 200
pingpong ibv_rc_pingpong -c -n 50 -s 100000
pingpong ibv_rc_pingpong -c -n 200 -e
pingpong ibv_uc_pingpong -c -n 200
pingpong ibv_ud_pingpong -c -n 200 -s 1000
pingpong ibv_srq_pingpong -c -n 200 -q 4
# Memory of user space was registered by the driver's own queue pair.
for function in pf0 vf1; do
	registered=$(ask '"cmd":"counters"' "[.functions.$function.qps[] | select(.service == \"RegUmr\") | .stats.wqes] | add // 0")
	[ "$registered" -gt 0 ] || fail "$function has registered no memory by UMR"
done
down
nothing_left
