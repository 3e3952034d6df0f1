#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# rdma-core's own tests in Python: atomics, extended completion queues, shared receive queues, XRC. None may fail; which
# ones are skipped and why: Documentation/connectx.rst.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

up_between
modprobe -a ib_uverbs rdma_ucm
tests=$RESULTS/pyverbs/tests
mkdir -p "${tests%/*}"
cp -r /usr/share/doc/rdma-core/tests "$tests"
# Debian compresses what is large below /usr/share/doc.
gunzip "$tests"/*.gz
cd "${tests%/*}"
python3 tests/run_tests.py --dev mlx5_0 --port 1 --gid "$(gid_index 0)" -v \
	-k test_atomic -k test_cqex -k test_srq -k test_relaxed_ordering > "$RESULTS/pyverbs.txt" 2>&1 ||
	fail "$(grep -E '\.\.\. (ERROR|FAIL)|^FAILED' "$RESULTS/pyverbs.txt" | head -3)"
tail -1 "$RESULTS/pyverbs.txt"
grep -qE 'test_xrc_traffic.* ok$' "$RESULTS/pyverbs.txt" || fail "XRC was not tested"
down
nothing_left
