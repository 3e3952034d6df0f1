#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Keys, through the interface in C: fast registration, invalidation by both ends, scatterlists, all memory;
# what was invalidated is refused.
#
# functions: pf,vf
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|memory window bind error|local QP operation error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp: a key to all memory was made for remote access

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests registration registered_source registration_refusals regions
