#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Passes, and at once: what it leaves running is ended with it.

setsid sleep 1000 &
