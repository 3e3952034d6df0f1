#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Fails by a guest that says nothing more: neither the test's end nor its time limit.
#
# timeout: 3

kill -STOP "$(pgrep -of /src/tests/vm/boot/agent)"
sleep 1000
