#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Parameters show what holds, take what works, and refuse the rest with the reason.
#
# functions: pf,vf
# dmesg-allow: mlx5_ulp: module parameter doorbell_mode=sometimes:

set -eu
. /src/tests/vm/guest/lib/ulp.sh

drivers mlx5_0
load mlx5_ulp
params=/sys/class/infiniband/mlx5_0/params

expect wqe_alignment "$(cat $params/wqe_alignment)" 64
! (echo 128 > $params/wqe_alignment) 2> /dev/null || fail "wqe_alignment can be written"

expect doorbell_mode "$(cat $params/doorbell_mode)" each
echo each > $params/doorbell_mode
for bad in '' sometimes 'each other' "$(printf 'x%.0s' {1..4000})"; do
	! (printf '%s\n' "$bad" > $params/doorbell_mode) 2> /dev/null || fail "doorbell_mode takes '${bad:0:20}'"
	expect "doorbell_mode after a bad value" "$(cat $params/doorbell_mode)" each
done
dmesg | grep -q 'mlx5_ulp: mlx5_0: doorbell_mode: value refused: ' || fail "the log doesn't say what was refused"
rmmod mlx5_ulp

! load mlx5_ulp doorbell_mode=sometimes 2> /dev/null || fail "the module loads with a mode that there is not"
dmesg | grep -q 'mlx5_ulp: module parameter doorbell_mode=sometimes: ' || fail "the log doesn't say why"
load mlx5_ulp doorbell_mode=each
rmmod mlx5_ulp
