#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Connection management on one function: rdma_cm finds the way from an IP address to itself, and the programs of
# rdma-core move data over what it connects; rping verifies it.
#
# functions: pf
# when: long on 7.2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

listening() {
	rdma resource show cm_id | grep -q LISTEN
}

# connected SERVER CLIENT
connected() {
	between "" "$1" "$2"
	echo "$2: ok"
}

up 0
modprobe rdma_ucm
connected "rping -s -a 10.0.0.1 -V -C 20 -S 4000" "rping -c -a 10.0.0.1 -V -C 20 -S 4000"
connected "ucmatose -b 10.0.0.1 -c 4 -C 20 -S 2000" "ucmatose -s 10.0.0.1 -c 4 -C 20 -S 2000"
connected "udaddy -b 10.0.0.1 -c 2 -C 20 -S 500" "udaddy -s 10.0.0.1 -c 2 -C 20 -S 500"
connected "rstream -b 10.0.0.1 -S 65536 -C 20" "rstream -s 10.0.0.1 -S 65536 -C 20"
rmmod rdma_ucm rdma_cm
down
nothing_left
