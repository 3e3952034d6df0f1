# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# Where the root tree and the kernel trees are. Sourced.

cache=${MLX5_ULP_CACHE:-$HOME/.cache/mlx5_ulp}
mkdir -p "$cache"

root_tree() {
	echo "${MLX5_ULP_ROOT:-$cache/proto/root}"
}

kernel_tree() {
	echo "$cache/proto/kernel-$1"
}
