#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock drivers load, bring the port up and unload again and again, and leave nothing.
#
# functions: pf
# when: long on 7.2
# cpus: 2
# connectx: --canary-pages
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/load-unload.sh

load_and_unload 4
