#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A guest has the CPUs and the memory that its test asks for.
#
# cpus: 4
# memory: 1024

set -eu

[ "$(nproc)" = 4 ] || { echo "$(nproc) CPUs" >&2; exit 1; }
total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
case $KERNEL_SERIES in
debug) ;;
*) [ "$total" -gt 850 ] && [ "$total" -le 1024 ] || { echo "$total MiB" >&2; exit 1; } ;;
esac
