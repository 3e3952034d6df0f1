#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Tracepoints reach trace-cmd; the file `trace` has the events that its filter lets through, as
# lines of the published form, and survives the device.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 120

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
move
prefix='^\[[0-9]+\.[0-9]{6}\] QP[0-9]+ PID[0-9]+ : '
expect "posts" "$(lines "${prefix}WQE Post$")" 8
expect "doorbells" "$(lines "${prefix}Doorbell Write$")" 8
expect "completions" "$(lines "${prefix}Completion$")" 8
expect "all lines" "$(lines '')" 24

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

# The same by a stock tool.
trace-cmd record -q -o /tmp/trace.dat -e mlx5_ulp bash -c \
	'echo "src=mlx5_0 dst=mlx5_1 file=/tmp/file size=4096 depth=4" > /sys/kernel/debug/mlx5_ulp_demo/run' > /tmp/record.log 2>&1 ||
	fail "trace-cmd: $(tail -n 1 /tmp/record.log)"
trace-cmd report -i /tmp/trace.dat > /tmp/report 2> /dev/null
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
expect "posts that trace-cmd saw" "$(grep -cE "mlx5_ulp_post: +$pci qpn=0x[0-9a-f]+ index=[0-9]+ opcode=WRITE bytes=4096" /tmp/report)" 8
expect "doorbells that trace-cmd saw" "$(grep -cE "mlx5_ulp_doorbell: +$pci qpn=0x[0-9a-f]+ producer=[0-9]+ wqes=1" /tmp/report)" 8
expect "completions that trace-cmd saw" "$(grep -cE "mlx5_ulp_completion: +$pci qpn=0x[0-9a-f]+ counter=[0-9]+ cqe_opcode=0 syndrome=0" /tmp/report)" 8

# The module goes while the log is on.
echo 'qp=all' > $trace
rmmod mlx5_ulp_demo mlx5_ulp
