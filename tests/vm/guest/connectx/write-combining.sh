#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The driver's test of write combining passes: the device executes WQEs that it was handed through a
# BlueFlame register instead of those in memory.
#
# functions: pf
# when: long on 7.2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0
# The first user context runs the test.
ibv_devinfo > /dev/null
executed=$(ask '"cmd":"counters"' '.functions.pf0.wqes_from_blueflame')
[ "$executed" -gt 0 ] || fail "no WQE was taken from a BlueFlame register"
written=$(ask '"cmd":"counters"' '.functions.pf0.mmio.blueflame_wqes')
[ "$written" -ge "$executed" ] || fail "$executed WQEs taken, but $written written"
down
nothing_left
