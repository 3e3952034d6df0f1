#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Fails by its time limit, deaf to polite requests.
#
# timeout: 3

trap '' TERM
while :; do sleep 1; done
