#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What cannot be is refused; the module stays while there is a disk; a disk may go while it is open; a target
# that goes for good, or that has lost the data, means I/O errors and no hang.
#
# functions: pf,vf
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: remote access error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp_blk: ulpblk_d: the target stays away \(ENOENT\), given up
# dmesg-allow: mlx5_ulp_blk: ulpblk_d: the target has lost the data of the disk

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/blk.sh

# refused VALUE FILE [REASON]
refused() {
	local said
	! said=$({ echo "$1" > "$2"; } 2>&1) || fail "$2 takes '$1'"
	[[ $said == *": ${3-}"* ]] || fail "$2 refuses '$1' by: $said"
}

drivers mlx5_0 mlx5_1
network
blk_load
before=$(objects)

! mkdir "$disks/a.b" 2> /dev/null || fail "a name with a dot is taken"
mkdir $disks/d $exports/e
refused 1 $disks/d/power
echo mlx5_0 > $disks/d/device
echo e > $disks/d/target
refused 1 $disks/d/power
refused 0 $disks/d/queue_depth 'Numerical result out of range'
refused 4294967424 $disks/d/queue_depth 'Numerical result out of range'
refused 129 $disks/d/queues 'Numerical result out of range'
refused x $disks/d/reconnect_s 'Invalid argument'
refused +4 $disks/d/reconnect_s 'Invalid argument'
refused 0 $exports/e/size_mib 'Numerical result out of range'
refused 1025 $exports/e/size_mib 'Numerical result out of range'
echo mlx5_9 > $exports/e/device
refused 1 $exports/e/power
export_on 4
disk_on reconnect_s=1
refused 64 $disks/d/queue_depth 'Device or resource busy'
refused 8 $exports/e/size_mib 'Device or resource busy'
expect "depth" "$(cat $disks/d/queue_depth)" 128
! rmmod mlx5_ulp_blk 2> /dev/null || fail "the module goes with a disk"

# The target is away for longer than a second: given up.
read_block
echo 0 > $exports/e/power
! read_block || fail "a target that is not there was read"
disk_is dead
# Nor does it come back with other data.
echo 1 > $exports/e/power
! read_block || fail "a dead disk was read"
echo 0 > $disks/d/power
disk_is off

# It comes back, but has lost the data: given up at once, whatever the patience.
echo 3600 > $disks/d/reconnect_s
echo 1 > $disks/d/power
read_block
echo 0 > $exports/e/power
read_block &
reader=$!
disk_becomes away 20
echo 1 > $exports/e/power
! wait $reader || fail "other data was read"
disk_becomes dead 20
disk_off

# A disk that waits for its target may go.
disk_on reconnect_s=3600
echo 0 > $exports/e/power
read_block &
reader=$!
disk_becomes away 20
disk_off
! wait $reader || fail "a target that is not there was read"

# A disk may go while it is open; the module goes when it is closed.
export_on 4
disk_on
exec 7<> $disk
disk_off
[ "$(head -c 4096 <&7 2> /dev/null | wc -c)" = 0 ] || fail "a disk that is gone was read"
export_off
! rmmod mlx5_ulp_blk 2> /dev/null || fail "the module goes with a disk open"
exec 7>&-
same_objects "$before"
blk_unload
