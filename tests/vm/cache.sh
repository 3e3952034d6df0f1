# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash disable=SC2034
#
# The cache and what is in it. Sourced by the scripts that run on the host.
#
# An entry of the cache is a directory named after a hash of the recipe that it was
# made by. It is made under a temporary name and renamed when it is complete, with a
# lock held: an entry that exists is complete, and a temporary directory that is found
# with the lock held is what an interrupted run has left. What takes long goes on from
# there; all else starts anew.

cache=${MLX5_ULP_CACHE:-${HOME:-/root}/.cache/mlx5_ulp}
mkdir -p "$cache/log"
cache=$(readlink -f "$cache")
vm=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
checkout=$(readlink -f "$vm/../..")

say() {
	echo "mlx5_ulp: $*" >&2
}

# key FILE...: a short hash of what the files say, comments aside. What a kernel's
# configuration switches off only looks like a comment.
key() {
	(cd "$vm" && sed -e '/^# CONFIG_.* is not set$/b' -e '/^[[:space:]]*#/d' -- "$@") | sha256sum | cut -c1-12
}

# lock NAME: waits for the lock; it is held until this process and its children end.
lock() {
	exec 9> "$cache/$1.lock"
	if ! flock -n 9; then
		say "waiting for another run that prepares the same thing ($1)"
		flock 9
	fi
}

# scratch NAME: an empty temporary directory for NAME, without leftovers of other runs.
scratch() {
	rm -rf --one-file-system "$cache/.$1".*
	mktemp -d "$cache/.$1.XXXXXX"
}

# resumable NAME KEY: a temporary directory for NAME, with what an interrupted run by the same
# recipe has left in it, and without leftovers of others.
resumable() {
	find "$cache" -maxdepth 1 -name ".$1.*" ! -name ".$1.$2" -exec rm -rf --one-file-system {} +
	mkdir -p "$cache/.$1.$2"
	echo "$cache/.$1.$2"
}

# long TITLE LOG COMMAND...: runs a command that takes minutes; says now and then how
# far it is, and where the log is if it fails.
long() {
	local title=$1 log=$2 start=$SECONDS pid status=0
	shift 2
	say "$title; log: $log"
	"$@" > "$log" 2>&1 < /dev/null &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		# Ends early when the command does.
		timeout 20 tail --pid="$pid" -f /dev/null || :
		kill -0 "$pid" 2> /dev/null || break
		say "  $((SECONDS - start)) s: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-90)"
	done
	wait "$pid" || status=$?
	if [ "$status" != 0 ] && [ "$status" != 3 ]; then
		say "failed: $title. The end of $log:"
		tail -n 15 "$log" >&2
	fi
	return "$status"
}
