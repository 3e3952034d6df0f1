# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Boots the stock kernel with software ConnectX functions and runs tests in it."""
