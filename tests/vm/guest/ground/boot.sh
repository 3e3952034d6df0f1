#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The guest runs the kernel that it was asked to run, with the CPUs that it was given.
#
# cpus: 2

set -eu

case $KERNEL_SERIES in
debug) ;;
*) [[ $(uname -r) == "$KERNEL_SERIES".* ]] ;;
esac
[ "$(nproc)" = 2 ]
