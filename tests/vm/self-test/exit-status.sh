#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Fails by its exit status.

echo "the first line"
echo "the last line says why" >&2
exit 3
