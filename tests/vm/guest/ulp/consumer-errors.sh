#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What the device refuses ends with the syndrome that a card gives, and what is behind it is flushed in
# order; what the module refuses leaves nothing behind.
#
# functions: pf,vf
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|local protection error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests bad_rkey bad_bounds bad_right bad_domain bad_lkey silent_before_error \
	silent_before_bad_peer refusals
