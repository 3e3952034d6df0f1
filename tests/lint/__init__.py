# SPDX-License-Identifier: GPL-2.0 OR MIT
"""`make lint`: style, licences, and what compilers and their kin warn of."""
