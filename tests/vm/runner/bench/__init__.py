# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make bench`: what posting and completing cost, side by side with mlx5_ib.

cases     what is measured
measure   in the guest: measures it
records   what came of it
functions where the instructions go
figures   the figures with aims, and how they have changed
table     all of it, for people
"""
