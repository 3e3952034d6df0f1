#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# What a guest writes stays in the guest, but for its folder of results; the checkout and
# the root tree are the host's.

set -eu

. /src/tests/vm/guest/lib/ask.sh

echo scratch > /usr/local/scratch || fail "the root file system cannot be written"
[ "$(cat /usr/local/scratch)" = scratch ]

echo kept > "$RESULTS/kept"
[ "$(cat "$RESULTS/kept")" = kept ]

# By the overlay the guest sees its own copy; below it is read-only.
mkdir /tmp/below
mount -t 9p -o ro,trans=virtio,version=9p2000.L root /tmp/below 2> /dev/null && fail "the share can be mounted twice"
mount | grep -q '^root on / type overlay' || fail "the root is no overlay"
[ ! -e /src/scratch ]
echo x > /src/scratch || fail "the copy of the checkout cannot be written"
