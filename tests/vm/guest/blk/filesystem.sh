#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A file system on the disk, into which a tarball is unpacked, the link lost for five seconds in the middle: every
# file is what it was, and the file system is clean.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh
. /src/tests/vm/guest/lib/filesystem.sh

drivers mlx5_0 mlx5_1
network
blk_load
export_on 48
disk_on
filesystem_survives 5
disk_off
export_off
blk_unload
