#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Requests of other kinds than WRITE, through the interface in C: what READs bring back, what atomics leave,
# what is refused; and all that may be posted, from a hard interrupt.
#
# functions: pf,vf
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: local protection error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests read read_refusals read_protected atomics in_interrupt
