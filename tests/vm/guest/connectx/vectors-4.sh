#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# One completion vector per CPU, and one vector for everything else; interrupts arrive on them.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 4
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0 1
vectors_fire
down
nothing_left
