#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Queues of the module find each other by rdma_cm: accept, connect, private data both ways, a WRITE that arrives,
# disconnect, time-wait; the same with QPs of mlx5_ib at the other end, and with event handlers of the consumer's own;
# refusals with their reason; misuse; networks that are none of ours; the same by IPv6.
#
# functions: pf,vf
# cpus: 2
# timeout: 180
# dmesg-allow: mlx5_ulp_cm_test: enabling unsafe global rkey

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/cm.sh

cm_up
before=$(objects)
cm_run connect again to_verbs from_verbs solicited handler refuse listen_twice misuse network
# By IPv6, with a zone, too. A GID is such an address.
netdev=$(netdev mlx5_0)
gids=/sys/class/infiniband/mlx5_0/ports/1/gids
ip address add fd00::8/64 dev "$netdev" nodad
ip address add fe80::8/64 dev "$netdev" nodad
for address in fd00::8 "fe80::8%$netdev"; do
	gid=${address%%::*}:0000:0000:0000:0000:0000:0000:0008
	until_true 20 grep -qsx "$gid" $gids/* || fail "there is no GID of $address"
	cm_run connect handler
done
same_objects "$before"
! rmmod rdma_cm 2> /dev/null || fail "rdma_cm could be removed under its user"
cm_down
