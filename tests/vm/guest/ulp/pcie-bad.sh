#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Each setting that costs throughput or latency has its warning in `pcie`, and only that.
#
# functions: pf:aspm=l1:rcb=128:width=4:msix-table=0x8800,vf:mrrs=128:speed=8:msix=2:mps=128
# when: long on 7.2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/pcie.sh

drivers mlx5_0 mlx5_1
load mlx5_ulp
warnings mlx5_0 aspm rcb link_width msix_table
grep -q '^aspm warn L1: ' "$debugfs/mlx5_0/pcie" || fail "not the state that is on"
grep -q '^link_width warn x4 of x16: ' "$debugfs/mlx5_0/pcie" || fail "not the width that there is"
grep -q '^msix_table warn table at 0x8800: ' "$debugfs/mlx5_0/pcie" || fail "not where the table is"
warnings mlx5_1 mrrs link_speed msix_vectors mps
grep -q '^link_speed warn 8 GT/s of 16 GT/s: ' "$debugfs/mlx5_1/pcie" || fail "not the speed that there is"
grep -q '^msix_vectors warn .*2 CPUs' "$debugfs/mlx5_1/pcie" || fail "not the vectors that there are"
rmmod mlx5_ulp
