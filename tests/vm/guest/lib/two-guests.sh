# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For tests with two guests, which run the same script and wait for one another by files. Source lib/connectx.sh or
# lib/ulp.sh first.

meeting=/results/$(basename "$RESULTS" .guest2)

# say WORD: for the other guest to hear.
say() {
	touch "$meeting/$1"
}

# hear SECONDS WORD: waits until the other guest has said it.
hear() {
	until_true "$1" test -e "$meeting/$2" || fail "the other guest does not say '$2'"
}
