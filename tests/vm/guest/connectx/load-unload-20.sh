#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# As load-unload, often enough to see something grow.
#
# functions: pf
# cpus: 2
# connectx: --canary-pages
# when: long
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/load-unload.sh

load_and_unload 20
