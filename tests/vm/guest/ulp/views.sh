#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Readers of every view and writers of every parameter, all the time: during traffic, while queues come and
# go, while the device is removed, and after.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 4
# timeout: 300
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (transport retry counter exceeded|remote access error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp

stop=/tmp/stop
rm -f $stop
(while [ ! -e $stop ]; do
	cat $debugfs/*/* $debugfs/*/queues/*/* > /dev/null 2>&1 < /dev/null || true
done) &
(while [ ! -e $stop ]; do
	echo x 2> /dev/null > $debugfs/mlx5_0/reset || true
	for word in polling interrupt auto; do
		echo $word 2> /dev/null > $params/cq_moderation || true
	done
	for size in 8 0 256; do
		echo $size 2> /dev/null > $params/vf_qid_cache_size || true
	done
	for word in on off; do
		echo $word 2> /dev/null > $params/latency_stats || true
	done
done) 2> /dev/null &

consumer_test posters names_churn queues bad_rkey 2>&1 || fail "traffic under readers"
for _ in 1 2; do
	# Opened before the device goes, read when it has gone.
	exec 7< $debugfs/mlx5_0/doorbells 8< $params/doorbell_mode 9<> $debugfs/mlx5_0/trace
	dmesg -C
	insmod "$consumer" test=mortal &
	test=$!
	until_true 30 sh -c 'dmesg | grep -q "mortal: running"' || fail "no traffic"
	sleep 0.5
	rmmod mlx5_ib
	wait $test || fail "$(dmesg -t | grep mlx5_ulp_test | tail -4 | tr '\n' ';')"
	rmmod mlx5_ulp_test
	for file in 7 8 9; do
		! cat <&$file > /dev/null 2>&1 || fail "file $file can be read without its device"
	done
	! echo on >&9 2> /dev/null || fail "trace can be switched on without its device"
	exec 7<&- 8<&- 9<&-
	modprobe mlx5_ib
	until_true 20 test -e $params || fail "the device has not come back"
	network
done
touch $stop
wait
rmmod mlx5_ulp
