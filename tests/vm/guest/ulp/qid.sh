#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Queues are found by the names that their consumers gave them and by number, on several functions, while
# others come and go; the cache counts what it does, and can be turned off.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

expect "entries" "$(counted entries qid_cache)" 256
consumer_test names
# 20 queues of this device are looked for by name and by number, and found; 5 of the names were brought in
# before. Then the table is asked for names that are not there.
[ "$(counted name_hits qid_cache)" -ge 5 ] || fail "$(counted name_hits qid_cache) hits"
expect "prefetched" "$(counted name_prefetches qid_cache)" 5
[ "$(counted name_misses qid_cache)" -ge 15 ] || fail "$(counted name_misses qid_cache) misses"
[ "$(counted name_absent qid_cache)" -ge 5 ] || fail "$(counted name_absent qid_cache) names that are not there"
expect "numbers that had to be looked up" "$(counted qpn_misses qid_cache)" 21
expect "queues that are left" "$(counted queues qid_cache)" 0
expect "pins that are left" "$(counted name_pins qid_cache)" 0
expect "entries of queues that are gone" "$(counted name_used qid_cache)" 0

consumer_test names_churn
[ "$(counted name_hits qid_cache)" -ge 1000 ] || fail "$(counted name_hits qid_cache) hits of readers"

# A small cache has evictions; without one everything is a miss and still found.
echo 8 > $params/vf_qid_cache_size
expect "entries of a small cache" "$(counted entries qid_cache)" 8
consumer_test names
[ "$(counted name_evictions qid_cache)" -ge 1 ] || fail "no evictions from 8 entries"
echo 0 > $params/vf_qid_cache_size
! (consumer_load names) 2> /dev/null || fail "a queue is pinned in a cache that is off"
dmesg | grep -q 'mlx5_ulp_queue_pin(queue) is -95' || fail "$(dmesg -t | grep mlx5_ulp_test)"
hits=$(counted name_hits qid_cache)
consumer_test names_churn
expect "hits without a cache" "$(counted name_hits qid_cache)" "$hits"
expect "hits of the other device" "$(sed -n 's/^name_evictions //p' $debugfs/mlx5_1/qid_cache)" 0
same_objects "$before"
rmmod mlx5_ulp
