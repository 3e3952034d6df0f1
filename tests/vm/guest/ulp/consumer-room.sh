#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Room in a queue, through the interface in C: what is reserved can be posted when the queue is full, and who
# has found it full hears once that there is room again. Callbacks that sleep.
#
# functions: pf,vf
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests reservation space space_released in_work
