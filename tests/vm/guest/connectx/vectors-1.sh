#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# One completion vector per CPU, and one vector for everything else; interrupts arrive on them.
#
# functions: pf,vf
# cpus: 1
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0 1
for n in 0 1; do
	pci=$(basename "$(readlink "/sys/class/infiniband/mlx5_$n/device")")
	vectors=$(grep "$pci" /proc/interrupts)
	[ "$(grep -c mlx5_comp <<< "$vectors")" = "$(nproc)" ] || fail "completion vectors: $vectors"
	[ "$(grep -c mlx5_async <<< "$vectors")" = 1 ] || fail "asynchronous vectors: $vectors"
	# Of each vector, the columns of all CPUs: never all of them zero.
	awk -v cpus="$(nproc)" '{ sum = 0; for (i = 2; i <= cpus + 1; i++) sum += $i; if (!sum) exit 1 }' \
		<<< "$vectors" || fail "a vector never fired: $vectors"
done
down
nothing_left
