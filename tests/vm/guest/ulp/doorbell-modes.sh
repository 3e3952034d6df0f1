#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# When doorbells are rung: lone WRITEs at once, those under load in batches, and what waits is never
# stranded, whatever happens to the mode meanwhile.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 4
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

# second_waits: of two WRITEs of a queue, one was rung for.
second_waits() {
	grep -qsx 'posted 2' $debugfs/mlx5_0/queues/*/state && grep -qsx 'doorbells 1' $debugfs/mlx5_0/queues/*/state
}

# changed: whether what waits is rung for when the mode changes. Before that, a slow machine may have let its time pass.
changed() {
	local try before test
	for try in {1..10}; do
		set_param doorbell_mode batch
		before=$(counted rung_mode)
		consumer_load held_long &
		test=$!
		until_true 20 second_waits || echo "try $try: never seen waiting"
		set_param doorbell_mode each
		wait $test
		rmmod mlx5_ulp_test
		[ "$(counted rung_mode)" = "$before" ] || break
	done
	set_param doorbell_mode batch
	expect "doorbells because the mode has changed" $(($(counted rung_mode) - before)) 1
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

# A lone WRITE is rung for at once in every mode, and the device sees it.
for mode in each batch adaptive; do
	set_param doorbell_mode $mode
	forget
	consumer_test lone
	expect "doorbells that the device has seen in mode $mode" "$(seen 'Doorbell Write')" 100
done
[ "$(counted rung_idle)" -ge 100 ] || fail "no doorbells because the queue was idle"

# What waits is rung for by the clock alone.
set_param doorbell_mode batch
set_param doorbell_batch 64
before=$(counted rung_hold)
forget
consumer_test held
expect "doorbells by the clock" "$(($(counted rung_hold) - before))" 1
expect "doorbells that the device has seen" "$(seen 'Doorbell Write')" 2

# Or when somebody asks for it. The clock of a slow machine is kept out of it.
set_param doorbell_max_hold_us 1000000
before=$(counted rung_flush)
consumer_test flush
expect "doorbells that were asked for" "$(($(counted rung_flush) - before))" 1

# Or when the poster says that it is the last.
before=$(counted rung_last)
consumer_test last
expect "doorbells for the last" "$(($(counted rung_last) - before))" 1

# Or when the mode changes.
changed

# A chain of 16 in single calls is rung for whenever as many wait as the mode lets.
for case in 'each 4 16 16' 'batch 4 16 4' 'batch 16 1 1' 'batch 17 1 0' 'adaptive 64 16 1' 'adaptive 1 5 3' 'adaptive 64 1 16'; do
	read -r mode batch most doorbells <<< "$case"
	set_param doorbell_mode $mode
	set_param doorbell_batch $batch
	set_param doorbell_max_batch $most
	consumer_load more
	rmmod mlx5_ulp_test
	expect "doorbells with mode, batch and most '$case'" \
		"$(dmesg -t | sed -n 's/^mlx5_ulp_test: more: \([0-9]*\) doorbells$/\1/p')" $doorbells
done
set_param doorbell_batch 4
set_param doorbell_max_batch 16

# Under load the adaptive mode batches.
set_param doorbell_mode adaptive
before=$(counted batch_9_to_16)
samples=$(counted latency_samples) took=$(counted latency_sum_ns) waited=$(counted waited_sum_ns)
consumer_test loaded
[ "$(counted batch_9_to_16)" -gt "$before" ] || fail "no large batches"
# It measures some of them.
samples=$(($(counted latency_samples) - samples))
took=$(($(counted latency_sum_ns) - took)) waited=$(($(counted waited_sum_ns) - waited))
echo "$samples batches measured: $took ns, of these $waited before the doorbell"
[ $samples -ge 1 ] && [ $waited -gt 0 ] && [ $took -gt $waited ] || fail "$samples batches measured: $took, $waited ns"
set_param doorbell_mode batch
samples=$(counted latency_samples)
set_param doorbell_batch 16
before=$(counted batch_9_to_16)
consumer_test loaded
[ "$(counted batch_9_to_16)" -gt "$before" ] || fail "no batches of 16"
expect "batches measured in mode batch" "$(($(counted latency_samples) - samples))" 0
set_param doorbell_max_hold_us 50

# Four CPUs post, and the mode changes all the time.
while :; do
	for mode in each batch adaptive; do
		set_param doorbell_mode $mode
		set_param doorbell_batch $((RANDOM % 64 + 1))
		set_param doorbell_max_batch $((RANDOM % 16 + 1))
	done
done &
switcher=$!
consumer_test switched
kill $switcher
wait $switcher 2> /dev/null || true
expect "failures" "$(counted errors) $(counted flushed) $(counted invalid_cqes)" "0 0 0"
expect "completed" "$(counted completed)" "$(counted posted)"
rmmod mlx5_ulp
