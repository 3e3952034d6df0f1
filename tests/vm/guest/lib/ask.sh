# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For all guest tests: failing, waiting, and asking the software ConnectX, also what is left on it. lib/connectx.sh and
# lib/ulp.sh source it.

# fail REASON: ends the test.
fail() {
	echo "$*" >&2
	exit 1
}

# until_true SECONDS COMMAND...: waits for it to succeed.
until_true() {
	local end=$((SECONDS + $1 * ${TIME_SCALE:-1}))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -le $end ] || return 1
		sleep 0.1
	done
}

# ask COMMAND FILTER [OPTION...]: what a filter of jq makes of the answer to a command of the control socket, such as
# `"cmd":"counters"`. Fails when the device refuses, or the filter finds nothing.
ask() {
	connectx-ctl "{$1}" | jq -er "${@:3}" "if .ok then . else error(tojson) end | $2"
}

# Everything that a driver created is gone, and all pages are given back unharmed.
nothing_left() {
	local left
	left=$(ask '"cmd":"objects"' '[.functions | to_entries[] | .key as $name | .value |
		(.live, .leaked, {pages: .pages, damaged_pages: .damaged}) | to_entries[] | select(.value != 0) |
		"\($name) \(.key) \(.value)"] | join(", ")')
	[ -z "$left" ] || fail "left on the device: $left"
}
