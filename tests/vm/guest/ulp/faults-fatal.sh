#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The firmware dies under load: every request ends, the consumer is told, and all can be unloaded.
#
# functions: pf,vf
# boot: own
# kernels: 7.3, debug
# timeout: 240
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

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
consumer_load steady
sleep 0.2
inject pf0 '"kind":"fatal","syndrome":1'
until_true 60 sh -c 'dmesg | grep -q "mlx5_core.*\(error state\|Fatal\|fatal\|health\)"' ||
	fail "mlx5_core does not notice"
sleep 2
steady_end
expect "a post to the dead device" "${load[refused]}" -19
expect "a queue on the dead device" "${load[another]}" -19
rmmod mlx5_ulp
rmmod mlx5_ib
# What the driver tries with the card is not to go on under what follows.
recovered() {
	dmesg | grep -q 'mlx5_core.* health recovery \(failed\|succeeded\)'
}
until_true 60 recovered || fail "mlx5_core does not come to an end"
