#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Frames pass between the netdevs of two functions, one of them in a network namespace of its own:
# ARP, neighbour discovery, ping over IPv4 and IPv6 with fragments, TCP with the offloads on, its data
# compared, and a VLAN, the tags of which are taken off until that is switched off.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120

set -eu
. /src/tests/vm/guest/lib/connectx.sh

up 0 1
here=$(netdev 0)
there=$(netdev 1)
ip netns add peer
ip link set "$there" netns peer
ip -n peer link set "$there" up
ip -n peer address add 10.0.0.2/24 dev "$there"
ip -n peer address add fd00::2/64 dev "$there" nodad
ip address add fd00::1/64 dev "$here" nodad

until_true 20 ping -c 1 -W 1 10.0.0.2 || fail "no answer over IPv4"
until_true 20 ping -c 1 -W 1 fd00::2 || fail "no answer over IPv6"
ping -q -c 5 -i 0.2 -s 4000 10.0.0.2 > "$RESULTS/ping" || fail "large packets over IPv4 are lost"
ip netns exec peer ping -q -c 5 -i 0.2 -s 4000 fd00::1 >> "$RESULTS/ping" ||
	fail "large packets over IPv6 are lost"

# 4 MiB each way over TCP; both sides print a hash of what they got.
cat > /tmp/tcp.py <<'EOF'
import hashlib, random, socket, sys, threading

size = 4 << 20
if sys.argv[1] == "listen":
    server = socket.create_server(("10.0.0.2", 7000))
    print("listening", flush=True)
    sock, _ = server.accept()
else:
    sock = socket.create_connection(("10.0.0.2", 7000))
data = random.Random(sys.argv[1]).randbytes(size)
sender = threading.Thread(target=sock.sendall, args=(data,))
sender.start()
got = bytearray()
while len(got) < size:
    part = sock.recv(1 << 16)
    if not part:
        sys.exit("the connection ended early")
    got += part
sender.join()
other = "connect" if sys.argv[1] == "listen" else "listen"
assert got == random.Random(other).randbytes(size), "data differs"
print("ok")
EOF
ip netns exec peer python3 /tmp/tcp.py listen > "$RESULTS/listen" &
until_true 20 grep -q listening "$RESULTS/listen"
timeout 60 python3 /tmp/tcp.py connect || fail "TCP data did not arrive as it was sent"
wait || fail "TCP data did not arrive as it was sent in the other direction"

modprobe 8021q
ip link add link "$here" name vlan5 type vlan id 5
ip link set vlan5 up
ip address add 10.0.5.1/24 dev vlan5
ip -n peer link add link "$there" name vlan5 type vlan id 5
ip -n peer link set vlan5 up
ip -n peer address add 10.0.5.2/24 dev vlan5

# Tags that the device took off for the driver.
tags_taken_off() {
	ethtool -S "$here" | awk '$1 == "rx_removed_vlan_packets:" { print $2 }'
}

until_true 20 ping -c 1 -W 1 10.0.5.2 || fail "no answer over a VLAN"
taken_off=$(tags_taken_off)
[ "$taken_off" -gt 0 ] || fail "no tag was taken off"
ethtool -K "$here" rxvlan off
until_true 20 ping -c 1 -W 1 10.0.5.2 || fail "no answer over a VLAN without the offload"
[ "$(tags_taken_off)" = "$taken_off" ] || fail "tags are taken off although that is off"
ip link delete vlan5

ip netns delete peer
until_true 10 ip link show "$there" || fail "the netdev did not come back"
down
nothing_left
