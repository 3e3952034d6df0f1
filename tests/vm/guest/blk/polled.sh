#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Requests of those who look for the end themselves (io_uring with IOPOLL): data with checksums, each completion found by
# looking, without an interrupt; a flush of what was written so; one who does not look any more; the cable out under such
# a load; a disk that goes.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 180
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh

# completions NAME: what the module has counted, of all queues of the disk's device.
completions() {
	sed -n "s/^$1 //p" $debugfs/mlx5_0/cq
}

# polled BS RW DEPTH SIZE: two jobs.
polled() {
	verified --ioengine=io_uring --hipri --bs="$1" --rw="$2" --iodepth="$3" --size="$4" --offset_increment="$4" \
		--numjobs=2 --do_verify=1
}

# goes_on: a hundred more were found by looking than `found`.
goes_on() {
	[ "$(disk_stat polled)" -gt $((found + 100)) ]
}

# stopped: all tasks of $reader.
stopped() {
	! grep -h '^State:' "/proc/$reader/task/"*/status | grep -qv stopped
}

# caught: $reader is stopped with requests in flight.
caught() {
	kill -STOP $reader
	until_true 20 stopped && in_flight && return
	kill -CONT $reader
	return 1
}

none_in_flight() {
	! in_flight
}

drivers mlx5_0 mlx5_1
network
blk_load
before=$(objects)
export_on 16
disk_on queues=2 poll_queues=2
expect "hardware contexts" "$(disk_stat queues) $(disk_stat poll_queues)" "4 2"
expect "polling" "$(cat /sys/block/ulpblk_d/queue/io_poll)" 1

found=$(disk_stat polled)
interrupts=$(completions interrupts) entries=$(completions cqes)
polled 4k randrw 16 256k
polled 512 write 1 16k
polled 256k randwrite 4 2m
found=$(($(disk_stat polled) - found))
interrupts=$(($(completions interrupts) - interrupts)) entries=$(($(completions cqes) - entries))
echo "$found of $entries completion entries found by looking, $interrupts interrupts"
[ $found -ge 200 ] || fail "$found completion entries were found by looking"
expect "completion entries that were found otherwise" $((entries - found)) 0
expect "interrupts" $interrupts 0
expect "queues without interrupts" "$(grep -c by_consumer $debugfs/mlx5_0/cq)" 2

# Whoever waits for a flush does not look.
flushes=$(disk_stat flush_reads)
sync $disk
flushes=$(($(disk_stat flush_reads) - flushes))
[ $flushes -ge 1 ] && [ $flushes -le 2 ] || fail "a flush has sent $flushes READs"
expect "retries, reconnects" "$(disk_stat retries) $(disk_stat reconnects)" "0 0"

# Whoever is to look may be stopped. What has ended at the device ends when its time is over, and is no loss.
echo 10000 > /sys/block/ulpblk_d/queue/io_timeout
fio --name=load --thread --filename=$disk --direct=1 --ioengine=io_uring --hipri --bs=4k --rw=randread --iodepth=16 \
	--time_based --runtime=600 --minimal > "$RESULTS/fio.txt" 2>&1 &
reader=$!
until_true 60 in_flight || fail "there is no load"
until_true 60 caught || fail "the load is never stopped with requests in flight"
until_true 60 none_in_flight || fail "requests that nobody looks for do not end"
kill -CONT $reader
found=$(disk_stat polled)
until_true 60 goes_on || fail "the load does not go on"
kill $reader
wait $reader || true
echo 30000 > /sys/block/ulpblk_d/queue/io_timeout
expect "retries, reconnects" "$(disk_stat retries) $(disk_stat reconnects)" "0 0"

through_outage 0 polled 4k randrw 16 256k
[ "$(disk_stat reconnects)" -ge 1 ] || fail "the disk was never away"

# The disk goes under load, by force: nothing that it sends arrives any more.
rm /tmp/enough
fio --name=load --filename=$disk --direct=1 --ioengine=io_uring --hipri --bs=4k --rw=randrw --iodepth=16 --time_based \
	--runtime=600 --minimal > "$RESULTS/fio.txt" 2>&1 &
writer=$!
found=$(disk_stat polled)
until_true 60 goes_on || fail "there is no load"
silence pf0
disk_off
! wait $writer || fail "a disk that is gone was written"
no_more_faults

export_off
same_objects "$before"
blk_unload
