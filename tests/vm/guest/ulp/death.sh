#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Whatever dies under traffic from four tasks, every request that was posted ends exactly once: the consumer, the
# port, the driver above, the function, the firmware. For the card see faults-removal.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 4
# boot: own
# timeout: 400
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_core [0-9a-f:.]+: poll_health:[0-9]+:\(pid [0-9]+\): Fatal error 5 detected
# dmesg-allow: mlx5_core [0-9a-f:.]+: print_health_info:[0-9]+:\(pid [0-9]+\): Health issue observed, firmware internal error, severity\(2\) CRITICAL:
# dmesg-allow: mlx5_core [0-9a-f:.]+: print_health_info:[0-9]+:\(pid [0-9]+\): (assert_var\[[0-5]\]|assert_exit_ptr|assert_callra|hw_id|ext_synd|raw fw_ver) 0x[0-9a-f]+
# dmesg-allow: mlx5_core [0-9a-f:.]+: print_health_info:[0-9]+:\(pid [0-9]+\): (fw_ver [0-9.]+|time [0-9]+|rfr 1|crr 0|severity 2 \(CRITICAL\)|irisc_index 0|synd 0x1: firmware internal error)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_health_try_recover:[0-9]+:\(pid [0-9]+\): (handling bad device here|starting health recovery flow|health recovery failed)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_handle_bad_state:[0-9]+:\(pid [0-9]+\): Expected to see disabled NIC but it is full driver
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_error_sw_reset:[0-9]+:\(pid [0-9]+\): (start|end)
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_vsc_sem_set_space:[0-9]+:\(pid [0-9]+\): Failed to set gw space -22
# dmesg-allow: mlx5_core [0-9a-f:.]+: lock_sem_sw_reset:[0-9]+:\(pid [0-9]+\): Failed to lock SW reset semaphore
# dmesg-allow: mlx5_core [0-9a-f:.]+: NIC IFC still 0 after 2000ms\.
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_pci_slot_reset:[0-9]+:\(pid [0-9]+\): mlx5_pci_slot_reset: wait vital failed with error code: -110
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_wait_for_pages:[0-9]+:\(pid [0-9]+\): Skipping wait for vf pages stage
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_uninit_one:[0-9]+:\(pid [0-9]+\): mlx5_uninit_one: interface is down, NOP

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

# again DEVICE...: until the devices are there and can be used.
again() {
	local device
	for device; do
		until_true 30 test -e "/sys/class/infiniband/$device/params" || fail "$device has not come back"
	done
	network
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)

# The consumer: it stops its queue while four CPUs post to it, and can be unloaded. We cannot meanwhile.
for _ in 1 2 3; do
	consumer_load leaving
	! rmmod mlx5_ulp 2> /dev/null || fail "mlx5_ulp could be removed under its consumer"
	sleep 0.3
	rmmod mlx5_ulp_test
	dmesg -t | grep -q 'leaving: ok' || fail "$(dmesg -t | grep mlx5_ulp_test | tail -4 | tr '\n' ';')"
	dmesg -t | grep 'mortal: posted'
	same_objects "$before"
done

# The port.
mortal inject pf0 '"kind":"port","up":false'
dmesg -t | grep -q 'mortal: .*refused -32' || fail "the queue has not failed"
inject pf0 '"kind":"port","up":true'
network
same_objects "$before"

# The driver above.
# Which of the two devices goes first, that of the sender or that of its peer, is not said.
mortal rmmod mlx5_ib
modprobe mlx5_ib
again mlx5_0 mlx5_1

# The PCI function is taken from its driver.
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
unbind() {
	echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
}
mortal unbind
dmesg -t | grep -q 'mortal: .*refused -19' || fail "the queue is not gone"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/bind
again mlx5_0 mlx5_1

# The firmware. What is in flight ends before anybody drains or removes anything.
mortal inject pf0 '"kind":"fatal","syndrome":1'
dmesg -t | grep -q 'mortal: .*refused -\(32\|19\)' || fail "the queue has not failed"
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
rmmod mlx5_ulp
