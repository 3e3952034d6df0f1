# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests that load and unload the stock drivers in a row. Source lib/connectx.sh first.

# load_and_unload TIMES: the first time with an address, until the port can be used.
load_and_unload() {
	local n

	up 0
	down
	for ((n = 2; n <= $1; n++)); do
		modprobe mlx5_ib
		until_true 20 test -e /sys/class/infiniband/mlx5_0
		ip link set "$(netdev 0)" up
		down
	done
	# The device adds up what was left each time.
	nothing_left
}
