#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completion modes: each completes everything, also while it is switched under load and when the device
# holds completions back and writes them in bunches; the device's own moderation follows the mode.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh
. /src/tests/vm/guest/lib/faults.sh

# mode WORDS
mode() {
	echo "$*" > $params/cq_moderation
}

# line OF QUEUE: waits until the line of a queue that is there says so.
says() {
	until_true 10 grep -q "^0x[0-9a-f]* $1\$" $debugfs/mlx5_0/cq || fail "$(cat $debugfs/mlx5_0/cq)"
	expect "what the device was told" "$(told)" "${1#* per_second 0 }"
}

# told: how the device moderates the events of that queue.
told() {
	local cq
	cq=$(connection pf0 send_cq)
	ask '"cmd":"queues"' '.functions.pf0.cqs[$cq] | "period_us \(.period_us) count \(.max_count)"' --arg cq "$cq"
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

# The published line.
echo hybrid_thresh=50000 > /sys/class/infiniband/mlx5_0/params/cq_moderation
expect "settings" "$(cat $params/cq_moderation)" "auto hybrid_thresh=50000 interrupt_thresh=200000"
expect "settings in the view" "$(counted settings cq)" "auto hybrid_thresh=50000 interrupt_thresh=200000"

# The device is told what a mode wants of it, and queues that are there follow.
consumer_load stay
says 'polling per_second 0 period_us 0 count 0'
mode interrupt
says 'interrupt per_second 0 period_us 16 count 32'
mode hybrid
says 'hybrid per_second 0 period_us 20 count 65535'
mode polling
says 'polling per_second 0 period_us 0 count 0'
rmmod mlx5_ulp_test

# Each mode completes everything, one request at a time as well as many.
for one in polling hybrid interrupt auto; do
	mode $one
	echo 1 > $debugfs/mlx5_0/reset
	expect "completed after a reset" "$(counted completed cq)" 0
	consumer_test full from_completion unsignaled posters
	# 8 + 8, 1000, 1000 or 1001, 8000
	completed=$(counted completed cq) interrupts=$(counted interrupts cq) polls=$(counted polls cq)
	cqes=$(counted cqes cq)
	echo "$one: completed $completed cqes $cqes interrupts $interrupts polls $polls arms $(counted arms cq)"
	[ "$completed" -ge 10016 ] && [ "$completed" -le 10018 ] || fail "$one: $completed completions"
	[ "$(counted arms cq)" -ge 1 ] || fail "$one: never armed"
	case $one in
	polling) [ "$polls" -gt "$((interrupts * 10))" ] || fail "polling: $polls polls, $interrupts interrupts" ;;
	interrupt)
		[ "$interrupts" -gt 100 ] || fail "interrupt: $interrupts interrupts"
		# It looks again only when there was something.
		[ "$polls" -le "$cqes" ] || fail "interrupt: $polls polls for $cqes entries"
		;;
	esac
	expect "$one: entries that make no sense" "$(counted invalid_cqes cq)" 0
done

# By itself, step by step, with thresholds that any traffic crosses.
mode auto hybrid_thresh=100 interrupt_thresh=200
echo 1 > $debugfs/mlx5_0/reset
consumer_test posters wrap
[ "$(counted mode_switches cq)" -ge 2 ] || fail "$(counted mode_switches cq) switches"

# Switched all the time, under load.
(consumer_test wrap queues posters) &
traffic=$!
n=0
while kill -0 $traffic 2> /dev/null; do
	for one in interrupt polling hybrid 'auto hybrid_thresh=100 interrupt_thresh=200' interrupt hybrid; do
		mode $one
		n=$((n + 1))
		cat $debugfs/mlx5_0/cq > /dev/null
	done
	sleep 0.05
done
wait $traffic || fail "traffic has not survived $n switches"
[ $n -ge 20 ] || fail "$n switches"
rmmod mlx5_ulp
