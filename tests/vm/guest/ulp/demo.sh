#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The demo moves a file from one function to the other; lines that cannot be used are refused with a
# reason; nothing is left behind.
#
# functions: pf,vf
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

run=/sys/kernel/debug/mlx5_ulp_demo/run

# value NAME: of the last run.
value() {
	sed -n "s/^$1 //p" $run
}

# refused REASON LINE
refused() {
	! echo "$2" > $run 2> /dev/null || fail "taken: '$2'"
	expect "state after '$2'" "$(value state)" refused
	grep -q "^reason .*$1" $run || fail "'$2' is refused with: $(value reason)"
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
load mlx5_ulp_demo
expect "first state" "$(value state)" idle

head -c 1000001 /dev/urandom > /tmp/file
sum=$(sha256sum < /tmp/file | cut -d' ' -f1)
for options in "size=4096 depth=64" "size=1048576 depth=1" "size=777 depth=3 src_gid=0 dst_gid=0"; do
	# GID 0 is of RoCE v1 or v2 as the kernel has it; take the index of a v2 one.
	if [[ $options == *src_gid* ]]; then
		for index in $(seq 0 15); do
			[ "$(cat /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/$index 2> /dev/null)" != "RoCE v2" ] || break
		done
		options="size=777 depth=3 src_gid=$index dst_gid=$index"
	fi
	echo "src=mlx5_0 dst=mlx5_1 file=/tmp/file $options" > $run ||
		fail "$options: $(tr '\n' ' ' < $run)"
	size=${options#size=}
	size=${size%% *}
	expect "$options: state" "$(value state)" ok
	expect "$options: bytes" "$(value bytes)" 1000001
	expect "$options: WRITEs" "$(value writes)" $(((1000001 + size - 1) / size))
	expect "$options: sent" "$(value sha256_sent)" "$sum"
	expect "$options: arrived" "$(value sha256_arrived)" "$sum"
done
# The other way, and within one function.
echo "src=mlx5_1 dst=mlx5_0 file=/tmp/file" > $run
expect "the other way" "$(value sha256_arrived)" "$sum"
echo "src=mlx5_0 dst=mlx5_0 file=/tmp/file size=65536" > $run
expect "within one function" "$(value sha256_arrived)" "$sum"

refused "src is missing" "dst=mlx5_1 file=/tmp/file"
refused "file is missing" "src=mlx5_0 dst=mlx5_1"
refused "size" "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=0"
refused "size" "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=4k"
refused "depth" "src=mlx5_0 dst=mlx5_1 file=/tmp/file depth=99999"
refused "unknown option" "src=mlx5_0 dst=mlx5_1 file=/tmp/file speed=9"
refused "name=value" "src=mlx5_0 dst=mlx5_1 file=/tmp/file fast"

# failed LINE
failed() {
	! echo "$1" > $run 2> /dev/null || fail "done: '$1'"
	expect "state after '$1'" "$(value state)" failed
}
failed "src=mlx5_0 dst=mlx5_9 file=/tmp/file"
failed "src=mlx5_0 dst=mlx5_1 file=/tmp/none"
failed "src=mlx5_0 dst=mlx5_1 file=/tmp/file src_gid=250"

same_objects "$before"
rmmod mlx5_ulp_demo mlx5_ulp
[ ! -e /sys/kernel/debug/mlx5_ulp_demo ] || fail "the folder in debugfs survived the module"
