#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# SENDs, WRITEs with immediate data and receives, through the interface in C: what they bring, more of them
# than the device can count, peers that are not ready, messages that are too long, stopping.
#
# functions: pf,vf
# cpus: 2
# timeout: 180
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: remote invalid request error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: receive [0-9]+ failed: local length error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests messages polled_messages not_ready too_long stop receive_refusals many_messages
