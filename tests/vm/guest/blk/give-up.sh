#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A disk whose target does not answer may go at any time: nobody waits for an attempt to connect, be it the first or a
# later one, nor for a loss that is noticed while the disk goes. And it goes by itself, when requests have waited long enough.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp_blk: ulpblk_d: the target stays away \(ETIMEDOUT\), given up

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh

# all_silence: nothing arrives. The rule for connection management is asked first, and counts.
all_silence() {
	silence pf0 1
	silence pf0
}

# messages: how many of connection management have not arrived.
messages() {
	ask '"cmd":"faults"' '.functions.pf0[0].hits'
}

said() {
	[ "$(messages)" -ge "$1" ]
}

# given_up: a target is asked 16 times, over a minute, before it counts as not there.
given_up() {
	local messages
	messages=$(messages)
	echo "$messages messages"
	[ "$messages" -lt 16 ] || fail "$messages messages were sent to a target that nobody waits for"
	no_more_faults
}

drivers mlx5_0 mlx5_1
network
ip link set lo up
blk_load
before=$(objects)
export_on 4 device=mlx5_0 port=7471

# The first attempt.
mkdir $disks/d
echo mlx5_0 > $disks/d/device
echo 10.7.0.1:7471 > $disks/d/target
silence pf0 1
echo 1 2> /dev/null > $disks/d/power &
power=$!
until_true 60 said 1 || fail "the target is not asked"
disk_is connecting
! echo 8 2> /dev/null > $disks/d/queue_depth || fail "a disk that is being connected was changed"
echo 0 > $disks/d/power
given_up
! wait $power || fail "a disk without a target is on"
disk_is off

# Whoever waits for the first attempt can be killed.
silence pf0 1
echo 1 2> /dev/null > $disks/d/power &
power=$!
until_true 60 said 1 || fail "the target is not asked"
kill -KILL $power
! wait $power || fail "a disk without a target is on"
given_up
disk_is off

# Requests wait no longer than they shall, whatever the attempt waits for.
disk_on target=10.7.0.1:7471 queues=1 reconnect_s=6
all_silence
! read_block || fail "a target that does not answer was read"
disk_becomes dead 5
given_up
disk_off

# A later one: behind the goodbye of the connection that was lost.
disk_on target=10.7.0.1:7471 queues=1 reconnect_s=86400
all_silence
read_block &
reader=$!
disk_becomes away 60
until_true 60 said 2 || fail "the target is not asked"
echo 0 > $disks/d/power
given_up
! wait $reader || fail "a target that does not answer was read"

# A loss that is noticed while the disk goes, or just before: nobody waits for a day.
disk_on
read_block
all_silence
read_block &
reader=$!
disk_off
given_up
! wait $reader || fail "a target that does not answer was read"

export_off
same_objects "$before"
blk_unload
