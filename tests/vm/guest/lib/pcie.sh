# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests of the audit of a function's bus. Source lib/ulp.sh first.

# warnings DEVICE CHECK...: these checks warn, with an advice, and no others do.
warnings() {
	local file=${debugfs:?}/$1/pcie found check
	cat "$file"
	shift
	found=$(awk '$2 == "warn" { print $1 }' "$file" | sort | tr '\n' ' ')
	expect "the warnings" "$found" "$(printf '%s\n' "$@" | sort | awk NF | tr '\n' ' ')"
	for check; do
		grep -q "^$check warn .*: [a-z]" "$file" || fail "$check: no advice"
	done
}
