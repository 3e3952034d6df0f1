#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# perftest between the two functions, messages from 2 bytes to 8 MiB. The numbers mean nothing under emulation.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 600

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

up_between
perftest ib_write_bw -a -n 10
perftest ib_send_bw -a -n 10
perftest ib_read_bw -s 65536 -n 10
perftest ib_atomic_bw -n 100
perftest ib_send_bw -s 1024 -n 100 -c UD
perftest ib_write_bw -s 4096 -n 320 -q 2 -l 16
perftest ib_send_bw -s 64 -n 100 -e
# One event for each completion, or these go out of step.
perftest ib_send_lat -s 64 -n 100 -e
perftest ib_read_lat -s 64 -n 100 -e
perftest ib_write_bw -s 4096 -n 50 -c UC
perftest ib_write_lat -s 64 -n 50
perftest ib_atomic_lat -n 50
down
nothing_left
