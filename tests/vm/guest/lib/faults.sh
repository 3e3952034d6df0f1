# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests in which the device does not do its duty. Source lib/ulp.sh and lib/consumer.sh first.

# request JSON...: asks the device for something; it must do it all.
request() {
	local answers
	answers=$(connectx-ctl "$@")
	[ "$(grep -c '"ok":true' <<< "$answers")" = $# ] || fail "$*: $answers"
}

# rule FUNCTION FAULT [MORE]: the members of the fault, and those of the rule behind it.
rule() {
	request "{\"cmd\":\"fault\",\"function\":\"$1\",\"rule\":{\"fault\":{$2}${3:+,$3}}}"
}

# inject FUNCTION WHAT...
inject() {
	local requests=() what
	for what in "${@:2}"; do
		requests+=("{\"cmd\":\"inject\",\"function\":\"$1\",\"what\":{$what}}")
	done
	request "${requests[@]}"
}

# silence FUNCTION [QUEUE]: nothing arrives of what it sends, or of what goes to that queue pair of the peer: number 1 is
# that of connection management.
silence() {
	rule "$1" '"kind":"frame-loss"' "${2:+\"queue\":$2,}\"every\":1,\"count\":0"
}

no_more_faults() {
	request '{"cmd":"clear-faults"}'
}

# hits: how often the rules of all functions have struck in all.
hits() {
	ask '"cmd":"faults"' '[.functions[][].hits] | add // 0'
}

# struck COUNT: whether the rules have struck as often.
struck() {
	[ "$(hits)" -ge "$1" ]
}

# connection FUNCTION MEMBER: what the device says of the one reliable connection of a function; `qpn` for its number.
connection() {
	ask '"cmd":"counters"' '[.functions[$function].qps | to_entries[] | select(.value.service == "Rc")] |
		if length == 1 then .[0] else error("\(length) connections") end |
		if $member == "qpn" then .key else .value[$member] end' --arg function "$1" --arg member "$2"
}

# How the load ended: posted, ended, done, failed, flushed, status, syndrome, refused, drained, whole, another queue.
declare -A load

# steady_end: unloads the consumer, and fills `load`. Every request has ended once.
steady_end() {
	local line words i
	rmmod mlx5_ulp_test
	line=$(dmesg -t | sed -n 's/^mlx5_ulp_test: steady: //p' | tail -1)
	echo "$line"
	read -ra words <<< "$line"
	[ ${#words[@]} = 22 ] || fail "the load says '$line'"
	for ((i = 0; i < ${#words[@]}; i += 2)); do
		load[${words[i]}]=${words[i + 1]}
	done
	expect "requests that ended" "${load[ended]}" "${load[posted]}"
	expect "all that ended" $((load[done] + load[failed] + load[flushed])) "${load[posted]}"
}

# all_well: nothing has failed, and all has arrived.
all_well() {
	expect "requests that were carried out" "${load[done]}" "${load[posted]}"
	expect "failures, refusals, drain, data, another queue" \
		"${load[failed]} ${load[flushed]} ${load[refused]} ${load[drained]} ${load[whole]} ${load[another]}" "0 0 0 0 1 0"
}
