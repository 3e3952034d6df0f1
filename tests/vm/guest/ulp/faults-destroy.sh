#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Cards are pulled out that have just been told to destroy an object: a queue pair, a completion queue, a memory key, a
# protection domain. The answer never comes, and no memory is given up for that.
#
# functions: pf:command-timeout=20,vf:command-timeout=20,vf:command-timeout=20,vf:command-timeout=20
# cpus: 2
# boot: own
# kernels: 7.3, debug
# timeout: 180
# dmesg-allow-of: card-pulled-out
# dmesg-allow: mlx5_core [0-9a-f:.]+: wait_func_handle_exec_timeout:[0-9]+:\(pid [0-9]+\): cmd\[[0-9]+\]: (DESTROY_(QP|CQ|MKEY)|DEALLOC_PD)\(0x[0-9a-f]+\) No done completion
# dmesg-allow: mlx5_core [0-9a-f:.]+: wait_func:[0-9]+:\(pid [0-9]+\): (DESTROY_(QP|CQ|MKEY)|DEALLOC_PD)\(0x[0-9a-f]+\) timeout\. Will cause a leak of a command resource

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

# By number of the device: what it is told last. The functions have the numbers of their devices.
commands=(DESTROY_QP:0x501 DESTROY_CQ:0x401 DESTROY_MKEY:0x202 DEALLOC_PD:0x801)
functions=(pf0 vf1 vf2 vf3)

# unbind NUMBER: takes the function from its driver, and does not come back before all is given back.
unbind() {
	local pci
	pci=$(basename "$(readlink "/sys/class/infiniband/mlx5_$1/device")")
	echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
}

drivers mlx5_0 mlx5_1 mlx5_2 mlx5_3
load mlx5_ulp
consumer_load unanswered
for n in "${!commands[@]}"; do
	rule "${functions[n]}" "\"kind\":\"command-timeout\",\"opcode\":$((${commands[n]#*:}))"
done
rmmod mlx5_ulp_test &
leaving=$!
until_true 30 struck 4 || fail "$(hits) of 4 commands are not answered"

# The drivers go first: after that, mlx5_core no longer cuts commands short when it finds a card dead.
going=()
for n in "${!commands[@]}"; do
	unbind "$n" &
	going[n]=$!
done
for n in "${!commands[@]}"; do
	until_true 10 grep -q mlx5_uninit_one "/proc/${going[n]}/stack" || fail "mlx5_$n does not go"
done
for n in "${!commands[@]}"; do
	inject "${functions[n]}" '"kind":"remove"'
done
wait $leaving || fail "the consumer cannot be unloaded"
for n in "${!commands[@]}"; do
	wait "${going[n]}" || fail "the driver of mlx5_$n has not gone"
done
for command in "${commands[@]}"; do
	dmesg -t | grep -q "wait_func:.*: ${command%:*}(.*timeout" || fail "${command%:*} was answered"
done
expect "what is left" "$(attached)" ""
rmmod mlx5_ulp
rmmod mlx5_ib
