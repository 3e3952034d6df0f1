#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# WQEs fail, requests are refused, commands fail: the first request that fails has the reason,
# what is behind it is flushed, and what could not be created leaves nothing behind.
#
# functions: pf,vf
# kernels: 7.3, debug
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (local QP operation error|local protection error|transport retry counter exceeded) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: remote (access|aborted|operation|invalid request) error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_cmd_out_err:[0-9]+:\(pid [0-9]+\): (CREATE_CQ|CREATE_MKEY|CREATE_QP|RST2INIT_QP|INIT2RTR_QP|RTR2RTS_QP|DESTROY_QP)\(0x[0-9a-f]+\) op_mod\(0x0\) failed, status no resources\(0xf\), syndrome \(0x0\), err\(-11\)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_cmd_out_err:[0-9]+:\(pid [0-9]+\): (DESTROY_CQ|DEALLOC_UAR|DEALLOC_PD)\(0x[0-9a-f]+\) op_mod\(0x0\) failed, status resource busy\(0x6\), syndrome \(0x[0-9a-f]+\), err\(-16\)
# dmesg-allow: mlx5_core [0-9a-f:.]+: up_rel_func:[0-9]+:\(pid [0-9]+\): failed to free uar index [0-9]+
# dmesg-allow: mlx5_ulp: (memory key|queue pair) 0x[0-9a-f]+ cannot be destroyed \(EAGAIN\), its memory is given up
# dmesg-allow: mlx5_ulp: completion queue 0x[0-9a-f]+ cannot be destroyed \(EBUSY\), its memory is given up
# dmesg-allow: mlx5_ulp: protection domain 0x[0-9a-f]+ cannot be given back \(EBUSY\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

# failed_with SYNDROME
failed_with() {
	steady_end
	no_more_faults
	expect "requests that failed" "${load[failed]}" 1
	expect "the syndrome" $((load[syndrome])) "$1"
	expect "a post behind the failure" "${load[refused]}" -32
}

for syndrome in 2 4 19 21 34; do
	consumer_load steady
	rule pf0 "\"kind\":\"send-error\",\"syndrome\":$syndrome" "\"after\":10,\"queue\":$(connection pf0 qpn)"
	until_true 30 struck 1
	sleep 0.2
	failed_with $syndrome
done

for refusal in invalid-request:18 remote-access:19 remote-operation:20; do
	consumer_load steady
	rule vf1 "\"kind\":\"nak\",\"code\":\"${refusal%:*}\"" '"after":10'
	until_true 30 struck 1
	sleep 0.2
	failed_with "${refusal#*:}"
done

# CREATE_CQ, CREATE_MKEY, CREATE_QP, and the way to ready-to-send.
for opcode in 0x400 0x200 0x500 0x502 0x503 0x504; do
	rule pf0 "\"kind\":\"command-failure\",\"opcode\":$((opcode)),\"status\":15"
	! insmod "$consumer" test=steady 2> /dev/null || fail "the consumer gets along without command $opcode"
	expect "failed commands $opcode" "$(hits)" 1
	no_more_faults
	same_objects "$before"
done
consumer_test shapes
same_objects "$before"

# DESTROY_QP: all requests end, and the queue pair that stays is told to leave off in another way.
consumer_load steady
rule pf0 "\"kind\":\"command-failure\",\"opcode\":$((0x501)),\"status\":15" '"count":1'
steady_end
expect "failed commands DESTROY_QP" "$(hits)" 1
no_more_faults
expect "state of the queue pair that stays" "$(connection pf0 state)" Reset

# DESTROY_MKEY, twice: whoever has the memory hears that it may not be freed. The last test: what was not destroyed stays.
rule pf0 "\"kind\":\"command-failure\",\"opcode\":$((0x202)),\"status\":15" '"count":2'
consumer_test kept_region
expect "failed commands DESTROY_MKEY" "$(hits)" 2
no_more_faults
rmmod mlx5_ulp
