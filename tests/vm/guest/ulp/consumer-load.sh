#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Full queues, the 16-bit wrap-around, several posters on a queue, several queues, all shapes of requests,
# through the interface in C.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 240

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

consumer_tests full shapes from_completion unsignaled exclusive posters queues wrap
