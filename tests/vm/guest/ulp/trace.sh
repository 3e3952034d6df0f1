#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tracepoints reach trace-cmd; the file `trace` has the events that its filter lets through, as
# lines of the published form, and survives the device; functions can be probed.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 300
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: remote access error \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh

trace=$debugfs/mlx5_0/trace

# move: 8 WRITEs of 4 KiB.
move() {
	echo "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=4096 depth=4" > /sys/kernel/debug/mlx5_ulp_demo/run
}

# lines REGEX: how many lines of the file match.
lines() {
	grep -cE "$1" $trace || true
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp doorbell_mode=each
load mlx5_ulp_demo
head -c 32768 /dev/urandom > /tmp/file

move
expect "lines while it is off" "$(lines '')" 0

echo on > $trace
echo on > $debugfs/mlx5_1/trace
move
prefix='^\[[0-9]+\.[0-9]{6}\] QP[0-9]+ PID[0-9]+ : '
expect "posts" "$(lines "${prefix}WQE Post$")" 8
expect "doorbells" "$(lines "${prefix}Doorbell Write$")" 8
expect "completions" "$(lines "${prefix}Completion$")" 8
expect "all lines" "$(lines '')" 24
expect "lines of the other device" "$(wc -l < $debugfs/mlx5_1/trace)" 0
echo off > $debugfs/mlx5_1/trace

# A filter by event, then one by queue as well.
echo 'off' > $trace
echo 'event=doorbell fields=all' > $trace
move
expect "doorbells alone" "$(lines "${prefix}Doorbell Write producer=[0-9]+ wqes=1$")" 8
expect "lines with that filter" "$(lines '')" 8
echo 'off' > $trace
echo 'qp=1 event=all' > $trace
move
expect "lines of a queue that there is not" "$(lines '')" 0
for bad in '' 'qp=' 'qp=99999999' 'event=sleep' 'later'; do
	! (echo "$bad" > $trace) 2> /dev/null || fail "taken as a filter: '$bad'"
done
said=$(dmesg | grep -c 'mlx5_ulp: mlx5_0: trace: value refused: use on, off, qp=N')
expect "lines about filters that are none" "$said" 5
# They have changed nothing: it is on, and takes what it took.
move
expect "lines of a queue that there is not" "$(lines '')" 0
echo 'qp=all' > $trace
move
[ "$(lines '')" -gt 0 ] || fail "the log is off after a filter that is none"

# The same by a stock tool.
trace-cmd record -q -o /tmp/trace.dat -e mlx5_ulp bash -c \
	'echo "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=4096 depth=4" > /sys/kernel/debug/mlx5_ulp_demo/run' > /tmp/record.log 2>&1 ||
	fail "trace-cmd: $(tail -n 1 /tmp/record.log)"
trace-cmd report -i /tmp/trace.dat > /tmp/report 2> /dev/null
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
expect "posts that trace-cmd saw" "$(grep -cE "mlx5_ulp_post: +$pci qpn=0x[0-9a-f]+ index=[0-9]+ opcode=WRITE bytes=4096" /tmp/report)" 8
expect "doorbells that trace-cmd saw" "$(grep -cE "mlx5_ulp_doorbell: +$pci qpn=0x[0-9a-f]+ producer=[0-9]+ wqes=1" /tmp/report)" 8
expect "completions that trace-cmd saw" "$(grep -cE "mlx5_ulp_completion: +$pci qpn=0x[0-9a-f]+ counter=[0-9]+ cqe_opcode=0 syndrome=0" /tmp/report)" 8

# Changes of modes, of the doorbell and of completions, under a queue with requests in flight.
echo off > $trace
echo 'event=mode qp=all fields=all' > $trace
consumer_load stay
set_param doorbell_mode batch
set_param cq_moderation interrupt
set_param cq_moderation hybrid
prefix="${prefix}Mode Change"
until_true 10 grep -qE "$prefix from=interrupt to=hybrid\$" $trace || fail "modes: $(cat $trace)"
expect "modes" "$(lines "$prefix from=(each to=batch|polling to=interrupt|interrupt to=hybrid)\$")" 3
expect "lines of modes" "$(lines '')" 3
rmmod mlx5_ulp_test

# Each function that the documentation names can be probed, and when what it stands for happens, it is passed.
functions=$(awk '/^``mlx5_ulp_[a-z_]+``$/ { gsub("`", ""); print }' /src/Documentation/tracing.rst)
[ "$(wc -w <<< "$functions")" -ge 9 ] || fail "functions to be probed: $functions"
events=/sys/kernel/tracing
mountpoint -q $events || mount -t tracefs tracefs $events
perf probe -q -m "$modules/mlx5_ulp/mlx5_ulp.ko" "mlx5_ulp_on_refused count=%dx:u32 error=%cx:s32" || fail "perf probe"
for function in $functions; do
	echo "p:ulp_probe/$function mlx5_ulp:$function" >> $events/kprobe_events || fail "$function cannot be probed"
done
echo > $events/trace
echo 1 > $events/events/ulp_probe/enable
echo 1 > $events/events/probe/enable
set_param doorbell_mode adaptive
consumer_test full held bad_rkey polled_messages
echo 0 > $events/events/ulp_probe/enable
echo 0 > $events/events/probe/enable
# Whether posters meet is not ours to say.
for function in ${functions/mlx5_ulp_shim_spin_wait/}; do
	[ "$(awk -v name="$function" '$1 == name { hits += $2 } END { print hits + 0 }' $events/kprobe_profile)" -ge 1 ] ||
		fail "nobody came by $function: $(cat $events/kprobe_profile)"
done
grep -q 'mlx5_ulp_on_refused: .*count=2 error=-11' $events/trace || fail "no refusal of two: $(grep -m 1 refused $events/trace)"
echo > $events/kprobe_events

# The module goes while the log is on.
echo 'qp=all' > $trace
rmmod mlx5_ulp_demo mlx5_ulp
