#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# perftest between the two functions, messages from 2 bytes to 8 MiB. The numbers mean nothing under emulation.
#
# functions: pf,vf
# timeout: 600

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

# perftest PROGRAM OPTION...
perftest() {
	between 18515 "$1 -F -d mlx5_0 -x $(gid_index 0) ${*:2}" "$1 -F -d mlx5_1 -x $(gid_index 1) ${*:2} 127.0.0.1"
	grep -qE '^ *[0-9]+ +[0-9]+ ' "$RESULTS/client.txt" || fail "$1: no result: $(tail -1 "$RESULTS/client.txt")"
	echo "$*: ok"
}

up_between
perftest ib_write_bw -a -n 10
perftest ib_send_bw -a -n 10
perftest ib_read_bw -a -n 10
perftest ib_atomic_bw -n 100
perftest ib_write_bw -s 4096 -n 100 -q 4
perftest ib_send_bw -s 1024 -n 100 -c UD
perftest ib_write_bw -s 4096 -n 100 -c UC
perftest ib_write_lat -s 64 -n 100
perftest ib_send_bw -s 64 -n 100 -e
perftest ib_send_lat -s 64 -n 100
perftest ib_read_lat -s 64 -n 100
perftest ib_atomic_lat -n 100
down
nothing_left
