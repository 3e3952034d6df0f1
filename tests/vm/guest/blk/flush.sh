#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A flush reads through each queue that has written since it was last read through, and no other; a write
# with FUA has a READ behind it, and that is the order in which the target's adapter does them; a batch of the block
# layer costs few doorbells.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 90

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh
. /src/tests/vm/guest/lib/blk.sh

# write_on CPU BLOCK [FLAG]: one block of 4 KiB, by the hardware context of that CPU.
write_on() {
	taskset -c "$1" dd if=/dev/urandom of=$disk bs=4k count=1 seek="$2" conv=notrunc \
		oflag=direct"${3:+,$3}" status=none
}

# more NAME BY COMMAND...: the counter goes up by so much.
more() {
	local before
	before=$(disk_stat "$1")
	"${@:3}"
	expect "$1 by ${*:3}" $(($(disk_stat "$1") - before)) "$2"
}

# served: what the target's adapter has done with memory since `forget`, queue by queue in order: W for packets of WRITEs,
# R for each READ.
served() {
	ask '"cmd":"events","function":"vf1","limit":1000000' \
		'[.events[] | capture("QP(?<qpn>\\d+) : DMA (?<what>W|R)") |
			select(.qpn | tonumber | . > 256 and . < 262144)] |
		group_by(.qpn) | map(map(.what) | join("") | gsub("W+"; "W")) | sort | join(" ")'
}

# serves ORDER COMMAND...
serves() {
	forget
	"${@:2}"
	expect "served for ${*:2}" "$(served)" "$1"
}

drivers mlx5_0 mlx5_1
network
blk_load
export_on 4
disk_on queues=2
expect "cache" "$(cat /sys/block/ulpblk_d/queue/write_cache)" "write back"
expect "FUA" "$(cat /sys/block/ulpblk_d/queue/fua)" 1

more flush_reads 0 write_on 0 0
more flush_reads 1 sync $disk
more flush_reads 0 sync $disk
write_on 0 1
write_on 1 2
write_on 1 3
more flush_reads 2 sync $disk
more flush_reads 0 sync $disk

# One WRITE; one WRITE and one READ, and the flush that dd's O_DSYNC has behind it.
more posted 1 write_on 0 4
sync $disk
more posted 3 write_on 0 5 dsync

# The READ is behind what it covers, on each queue.
write_each() {
	write_on 0 6
	write_on 1 7
	write_on 1 8
	sync $disk
}
serves WRR write_on 0 5 dsync
serves "WR WR" write_each

# 128 writes that blk-mq hands over in batches of 16; nothing but its hints says where these end: the hold time is so
# long that no machine is slower, and what it rings is counted.
set_param doorbell_mode batch
set_param doorbell_batch 32
set_param doorbell_max_hold_us 1000000
echo none > /sys/block/ulpblk_d/queue/scheduler
sync $disk
rung=$(disk_stat doorbells)
held=$(counted rung_hold)
last=$(counted rung_last)
fio --name=batch --filename=$disk --direct=1 --ioengine=libaio --bs=4k --rw=randwrite --iodepth=16 \
	--iodepth_batch_submit=16 --iodepth_batch_complete_min=16 --io_size=512k --size=4m --minimal > "$RESULTS/fio.txt"
rung=$(($(disk_stat doorbells) - rung))
echo "$rung doorbells for 128 writes"
expect "doorbells of the hold time" "$(counted rung_hold)" "$held"
last=$(($(counted rung_last) - last))
[ $last -ge 8 ] || fail "$last doorbells at the end of a batch, for 8 batches"
[ $rung -le 24 ] || fail "$rung doorbells for 128 writes in batches of 16"

disk_off
export_off
blk_unload
