#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Completions are late, in bunches, lost and doubled, and there are some that nothing completed: each request
# ends once, and what the device makes up ends none.
#
# functions: pf,vf
# kernels: 7.3, debug
# timeout: 300
# dmesg-allow: mlx5_ulp: completion entry names nothing in flight: queue 0x[0-9a-f]+, WQE [0-9]+, opcode [0-9]+; dropped
# dmesg-allow: mlx5_core [0-9a-f:.]+: cq_err_event_notifier:[0-9]+:\(pid [0-9]+\): (CQ error on CQN 0xfffffe, syndrome 0x0|Async event for bogus CQ 0xfffffe)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

# Late, and several at once.
for fault in '"kind":"cqe-delay","ns":2000000' '"kind":"cqe-delay","ns":50000000,"bunch":7'; do
	echo "$fault"
	consumer_load steady
	rule pf0 "$fault" "\"count\":100,\"queue\":$(connection pf0 send_cq)"
	until_true 60 struck 100 || fail "$fault struck $(hits) times"
	no_more_faults
	steady_end
	all_well
done

# One is missing: the next one ends its request, too. One is there twice: the second ends nothing.
for fault in '"kind":"cqe-drop"' '"kind":"cqe-double"'; do
	echo "$fault"
	consumer_load steady
	rule pf0 "$fault" "\"after\":5,\"every\":10,\"count\":5,\"queue\":$(connection pf0 send_cq)"
	until_true 60 struck 5 || fail "$fault struck $(hits) times"
	no_more_faults
	steady_end
	all_well
done
same_objects "$before"

# What nothing completed. It is counted, and ends nothing.
for what in '' '"opcode":9' '"opcode":13' '"wrong_owner":true' '"garbage":1' '"garbage":2' '"garbage":3' own; do
	echo "completion: $what"
	invalid=$(counted invalid_cqes cq)
	consumer_load steady
	queue=$(connection pf0 send_cq)
	[ "$what" != own ] || what="\"qpn\":$(connection pf0 qpn),\"index\":40000"
	inject pf0 "\"kind\":\"cqe\",\"cqn\":$queue${what:+,$what}"
	steady_end
	all_well
	invalid=$(($(counted invalid_cqes cq) - invalid))
	case $what in
	*wrong_owner*) expect "entries that are not there" $invalid 0 ;;
	# Of random bytes, the owner is random, too.
	*garbage*) [ $invalid -le 1 ] || fail "$invalid entries that make no sense, should be one" ;;
	*) expect "entries that make no sense" $invalid 1 ;;
	esac
done
same_objects "$before"

# Events that nothing raised, on all event queues.
consumer_load steady
events=()
for eqn in 0 1 2; do
	for event in 0 1 4 5 16 17 19 250; do
		events+=("\"kind\":\"eqe\",\"eqn\":$eqn,\"event\":$event")
	done
done
inject pf0 "${events[@]}"
steady_end
all_well
same_objects "$before"
rmmod mlx5_ulp
