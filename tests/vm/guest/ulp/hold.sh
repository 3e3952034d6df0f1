#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# How long a WQE waits for the doorbell, by a clock that counts instructions: not longer than it may, also when that
# has just become less.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# clock: instructions
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

trace=$debugfs/mlx5_0/trace

# waited: microseconds from the post of the second WRITE to the doorbell that shows it.
waited() {
	awk -F '[][ ]+' '
		/ : WQE Post$/ { post = $2 }
		/ : Doorbell Write$/ && ++rung == 2 { printf "%d", ($2 - post) * 1000000 }
	' $trace
}

# held LEAST MOST: whether what waits was rung for after that many microseconds. Too early is never right.
held() {
	local us
	us=$(waited)
	[ -n "$us" ] && [ "$us" -ge "$1" ] ||
		fail "the second WRITE waited for '$us' us, not for $1 and more: $(tr '\n' ';' < $trace)"
	echo "waited for $us us"
	[ "$us" -le "$2" ]
}

# second_waits: the second of two WRITEs was posted, and not rung for.
second_waits() {
	[ "$(grep -c 'WQE Post' $trace)" = 2 ] && [ "$(grep -c 'Doorbell Write' $trace)" = 1 ]
}

drivers mlx5_0 mlx5_1
network
# While all CPUs are idle, their clock goes with that of the host: so one never is.
(while :; do :; done) &
busy=$!
load mlx5_ulp doorbell_mode=batch doorbell_batch=64

# Beyond the time itself, it takes what the kernel needs to come to its timers, and the emulator to come to the CPU:
# with that clock it runs one after the other. On a busy host that can be long, so one of several tries has to be exact.
exact() {
	local try
	for try in {1..20}; do
		echo off > $trace
		echo 'event=post,doorbell' > $trace
		consumer_test held
		held "$1" $(($1 + 1000)) && return
	done
	fail "never rung for after $1 to $(($1 + 1000)) us in $try tries"
}

for us in 50 500 5000; do
	set_param doorbell_max_hold_us $us
	exact $us
done

# It may wait for a second, and then no longer: it is rung for at once.
set_param doorbell_max_hold_us 1000000
echo off > $trace
echo 'event=post,doorbell' > $trace
consumer_load held_long &
test=$!
until second_waits; do :; done
set_param doorbell_max_hold_us 50
wait $test
held 50 900000 || fail "the shorter time does not hold for what waits already"

# Under load the adaptive mode fills its batches within the time that is usual.
rmmod mlx5_ulp_test
echo off > $trace
set_param doorbell_mode adaptive
consumer_test loaded
kill $busy
rmmod mlx5_ulp
