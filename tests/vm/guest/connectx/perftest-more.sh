#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What perftest has beyond connectx/perftest: more services, several queue pairs, latencies, events.
#
# functions: pf,vf
# when: long
# timeout: 600

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

up_between
perftest ib_read_bw -a -n 10
perftest ib_write_bw -s 4096 -n 100 -q 4
perftest ib_read_bw -s 4096 -n 320 -q 2 -l 16
perftest ib_send_bw -s 1024 -n 320 -q 2 -l 16 -c UD
perftest ib_send_bw -s 4096 -n 100 -c UC
perftest ib_write_lat -s 64 -n 100 -c UC
perftest ib_send_lat -s 64 -n 100 -c UC
perftest ib_send_lat -s 64 -n 100
perftest ib_read_lat -s 64 -n 100
perftest ib_atomic_lat -n 100 -e
perftest ib_send_lat -s 64 -n 1000 -e
perftest ib_send_lat -s 64 -n 100 -c UD -e
perftest ib_send_bw -s 64 -n 640 -q 8 -b -e
down
nothing_left
