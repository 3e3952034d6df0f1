#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Fails by the end of the guest.

echo c > /proc/sysrq-trigger
sleep 30
