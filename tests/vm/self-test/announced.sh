#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Passes: what the kernel log says here is announced.
#
# dmesg-allow: WARNING: CPU: 0 PID: 1 at expected\.c:1 expected\+0x0/0x1

echo "<4>WARNING: CPU: 0 PID: 1 at expected.c:1 expected+0x0/0x1" > /dev/kmsg
