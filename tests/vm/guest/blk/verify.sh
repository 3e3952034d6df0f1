#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What is written to the disk is what is read from it: each block has a checksum. Then nothing is left behind.
#
# functions: pf,vf
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/blk.sh

drivers mlx5_0 mlx5_1
network
blk_load
before=$(objects)
export_on 32
disk_on
expect "size" "$(blockdev --getsize64 $disk)" $((32 << 20))
disk_is live

#      block  pattern    depth size
verify 512    randwrite  16    64k
verify 4k     randrw     32    512k
verify 64k    write      8     1m
verify 1m     randwrite  4     4m
verify 1m     write      1     2m
cat $disks/d/stats
expect "retries" "$(disk_stat retries)" 0

disk_off
[ ! -e $disk ] || fail "$disk is still there"
export_off
same_objects "$before"
blk_unload
