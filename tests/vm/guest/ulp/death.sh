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
# dmesg-allow-of: firmware-died
# dmesg-allow: mlx5_core [0-9a-f:.]+: mlx5_uninit_one:[0-9]+:\(pid [0-9]+\): mlx5_uninit_one: interface is down, NOP

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

# again DEVICE...: until the devices are there and can be used. They have what they had in the beginning, and no more.
again() {
	local device
	for device; do
		until_true 30 test -e "/sys/class/infiniband/$device/params" || fail "$device has not come back"
	done
	network
	until_true 20 has_objects "$before" || same_objects "$before"
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
