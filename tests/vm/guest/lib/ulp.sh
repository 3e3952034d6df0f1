# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests of the module: load and unload the stack, and look at what is left.

modules=/src/build/modules/$KERNEL_SERIES/rust
debugfs=/sys/kernel/debug/mlx5_ulp
params=/sys/class/infiniband/mlx5_0/params

. /src/tests/vm/guest/lib/ask.sh

# expect WHAT IS SHOULD
expect() {
	[ "$2" = "$3" ] || fail "$1 is '$2', should be '$3'"
}

# set_param NAME VALUE: of mlx5_0.
set_param() {
	echo "$2" > "$params/$1"
}

# Whether the port of an RDMA device is active.
active() {
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"
}

# netdev DEVICE: that of an RDMA device.
netdev() {
	ls "/sys/class/infiniband/$1/device/net"
}

# addressed ADDRESS [DEVICE]: whether the device, mlx5_0 if none is named, has a GID of this IPv4 address.
addressed() {
	# shellcheck disable=SC2086 # four numbers
	grep -qs "$(printf '%02x%02x:%02x%02x$' ${1//./ })" "/sys/class/infiniband/${2-mlx5_0}/ports/1/gids/"*
}

# ipv6 on|off: where it is off, the kernel sends nothing by itself.
ipv6() {
	local off=0
	[ "$1" = on ] || off=1
	sysctl -qw net.ipv6.conf.all.disable_ipv6=$off net.ipv6.conf.default.disable_ipv6=$off
}

# drivers DEVICE...: loads the stock drivers and waits for these RDMA devices.
drivers() {
	local device

	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	modprobe mlx5_ib
	for device; do
		until_true 20 test -e "/sys/class/infiniband/$device" ||
			fail "there is no RDMA device $device"
	done
}

# attached: the devices that the module is attached to, each followed by a space.
attached() {
	local folder
	for folder in "$debugfs"/*/; do
		[ ! -e "$folder" ] || printf '%s ' "$(basename "$folder")"
	done
}

# load MODULE [PARAMETER=VALUE]...
load() {
	local module=$1
	shift
	insmod "$modules/$module/$module.ko" "$@"
}

# objects: the live objects of all functions of the software ConnectX, one `function kind count` a line; but not the
# steering rules, which the netdev changes at any time.
objects() {
	ask '"cmd":"objects"' '[.functions | to_entries[] | .key as $function | .value.live | to_entries[] |
		select(.key | startswith("flow_") | not) | "\($function) \(.key) \(.value)"] | sort | join("\n")'
}

# has_objects BEFORE: whether the device has just these objects.
has_objects() {
	[ "$(objects)" = "$1" ]
}

# same_objects BEFORE: nothing was left behind, nothing taken away.
same_objects() {
	local now
	now=$(objects)
	[ "$now" = "$1" ] || fail "objects left: $(diff <(echo "$1") <(echo "$now") | grep '^[<>]' | tr '\n' ';')"
}
