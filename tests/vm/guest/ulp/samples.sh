#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The samples of the tutorial do what it says: a first WRITE in C and in Rust, and the error for a device that is not
# there.
#
# functions: pf,vf
# dmesg-allow: first_write: mlx5_0 to mlx5_7: error -19

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

samples=/src/build/modules/$KERNEL_SERIES/samples

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
for sample in first_write first_write_rust; do
	dmesg -C
	insmod "$samples/$sample/$sample.ko" || fail "$sample: $(dmesg -t | tail -1)"
	dmesg -t | grep -qx "$sample: mlx5_1 has 'hello, world'" || fail "$sample says: $(dmesg -t | tail -1)"
	rmmod $sample
done
! insmod "$samples/first_write/first_write.ko" to=mlx5_7 2> /dev/null || fail "there is no mlx5_7"
same_objects "$before"
rmmod mlx5_ulp
