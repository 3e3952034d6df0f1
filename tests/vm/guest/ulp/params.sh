#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Parameters show what holds, take what works, and refuse the rest with the reason.
#
# functions: pf,vf
# when: long on 7.2
# dmesg-allow: mlx5_ulp: module parameter doorbell_mode=sometimes: use each, batch or adaptive
# dmesg-allow: mlx5_ulp: module parameter doorbell_batch=0: use a number from 1 to 64
# dmesg-allow: mlx5_ulp: module parameter doorbell_max_hold_us=long: use a number from 1 to 1000000
# dmesg-allow: mlx5_ulp: module parameter wqe_alignment=128: use a number from 64 to 64
# dmesg-allow: mlx5_ulp_shim_refused: [0-9]+ callbacks suppressed
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh

# parameter NAME: its value.
parameter() {
	cat "$params/$1"
}

# takes NAME VALUE...: it can be changed, and shows what it was changed to.
takes() {
	local name=$1 value
	shift
	for value; do
		echo "$value" > "$params/$name" || fail "$name doesn't take '$value'"
		expect "$name" "$(parameter "$name")" "$value"
	done
}

# refuses NAME ERROR VALUE...: with the error by its name; nothing changes.
refuses() {
	local name=$1 error=$2 before
	shift 2
	before=$(parameter "$name")
	python3 - "$params/$name" "$error" "$@" << 'END' || fail "$name takes what it should not"
import errno, os, sys
path, want, *values = sys.argv[1:]
for value in values:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, value.encode() or b"\n")
        sys.exit(f"no error for '{value[:20]}'")
    except OSError as e:
        # Some numbers have two names.
        if e.errno != getattr(errno, want):
            sys.exit(f"{errno.errorcode[e.errno]}, not {want}, for '{value[:20]}'")
    finally:
        os.close(file)
END
	expect "$name after bad values" "$(parameter "$name")" "$before"
}

# says NAME VALUE REASON: the log has the reason. Of at most 10 lines in 5 s.
says() {
	dmesg -C
	! (echo "$2" > "$params/$1") 2> /dev/null || fail "$1 takes '$2'"
	dmesg | grep -q "mlx5_ulp: mlx5_0: $1: value refused: $3" ||
		fail "the log doesn't say why $1 was refused: $(dmesg | tail -3)"
}

drivers mlx5_0
load mlx5_ulp
long=$(printf 'x%.0s' {1..4000})

expect wqe_alignment "$(parameter wqe_alignment)" 64
! (echo 128 > $params/wqe_alignment) 2> /dev/null || fail "wqe_alignment can be written"

expect "doorbell_mode by default" "$(parameter doorbell_mode)" adaptive
takes doorbell_mode each batch adaptive
refuses doorbell_mode EINVAL sometimes '' 'each batch' EACH "$long"

expect "doorbell_batch by default" "$(parameter doorbell_batch)" 4
takes doorbell_batch 1 64 4
refuses doorbell_batch ERANGE 0 65 99999999999999999999
refuses doorbell_batch EINVAL '' -1 0x4 four '4 4' "$long"

expect "doorbell_max_batch by default" "$(parameter doorbell_max_batch)" 16
takes doorbell_max_batch 1 16
refuses doorbell_max_batch ERANGE 17 0

expect "doorbell_max_hold_us by default" "$(parameter doorbell_max_hold_us)" 50
takes doorbell_max_hold_us 1 1000000 50
refuses doorbell_max_hold_us ERANGE 0 1000001

expect "prefetch by default" "$(parameter prefetch)" off
takes prefetch on off
echo 1 > $params/prefetch
expect "prefetch after 1" "$(parameter prefetch)" on
takes prefetch off
refuses prefetch EINVAL 2 '' On

expect "blueflame by default" "$(parameter blueflame)" auto
takes blueflame on off auto
refuses blueflame EINVAL 1 ''

expect "max_inline by default" "$(parameter max_inline)" 220
takes max_inline 0 220
refuses max_inline ERANGE 221
refuses max_inline EINVAL -1

expect "wqe_compression by default" "$(parameter wqe_compression)" \
	'enabled=0 min_send_size=256 algorithm=merge'
takes wqe_compression 'enabled=1 min_send_size=4096 algorithm=merge'
echo 'enabled=0' > $params/wqe_compression
expect "wqe_compression after one word" "$(parameter wqe_compression)" \
	'enabled=0 min_send_size=4096 algorithm=merge'
refuses wqe_compression EOPNOTSUPP algorithm=lz4 'enabled=1 algorithm=lz4'
refuses wqe_compression ERANGE min_send_size=99999999999
refuses wqe_compression EINVAL '' enabled=2 algorithm=zip 'enabled=1 enabled=1' lz4
echo 'min_send_size=256' > $params/wqe_compression

expect "cq_moderation by default" "$(parameter cq_moderation)" \
	'auto hybrid_thresh=50000 interrupt_thresh=200000'
takes cq_moderation 'polling hybrid_thresh=100 interrupt_thresh=100000000'
echo 'interrupt,hybrid_thresh=50000' > $params/cq_moderation
expect "cq_moderation after two words" "$(parameter cq_moderation)" \
	'interrupt hybrid_thresh=50000 interrupt_thresh=100000000'
takes cq_moderation 'auto hybrid_thresh=50000 interrupt_thresh=200000'
refuses cq_moderation ERANGE hybrid_thresh=99 interrupt_thresh=100000001 hybrid_thresh=99999999999999999999 hybrid_thresh=200000
refuses cq_moderation EINVAL '' sometimes hybrid_thresh= hybrid_thresh=many 'polling interrupt'

expect "vf_qid_cache_size by default" "$(parameter vf_qid_cache_size)" 256
takes vf_qid_cache_size 0 8 256
refuses vf_qid_cache_size ERANGE 257 512 99999999999999999999
refuses vf_qid_cache_size EINVAL '' 4 100 -1 many

expect "latency_stats by default" "$(parameter latency_stats)" off
takes latency_stats on off
refuses latency_stats EINVAL '' 2 often

# The reason is in the log, and the log is not flooded.
sleep 5
says doorbell_mode sometimes 'use each, batch or adaptive'
says doorbell_batch 65 'use a number from 1 to 64'
says doorbell_max_hold_us long 'use a number from 1 to 1000000'
says cq_moderation sometimes 'use polling, hybrid, interrupt, auto, hybrid_thresh=N or interrupt_thresh=N'
says vf_qid_cache_size 100 'use 0 or a power of two from 8 on'
says wqe_compression algorithm=lz4 'no ConnectX takes LZ4-compressed WQEs'
dmesg -C
for _ in {1..100}; do
	(echo 0 > $params/doorbell_batch) 2> /dev/null || true
done
lines=$(dmesg | grep -c 'value refused')
[ "$lines" -lt 50 ] || fail "100 values refused, $lines lines in the log"

# Each file is a module parameter, too, and has its value there.
for file in "$params"/*; do
	name=$(basename "$file")
	expect "module parameter $name" "$(cat "/sys/module/mlx5_ulp/parameters/$name")" "$(parameter "$name")"
done
rmmod mlx5_ulp

# A value that is refused keeps the module from loading.
for bad in doorbell_mode=sometimes doorbell_batch=0 doorbell_max_hold_us=long wqe_alignment=128; do
	! load mlx5_ulp "$bad" 2> /dev/null || fail "the module loads with $bad"
	dmesg | grep -q "mlx5_ulp: module parameter $bad: use " || fail "the log doesn't say why $bad is refused"
done
load mlx5_ulp doorbell_mode=each doorbell_batch=7 wqe_alignment=64 wqe_compression=enabled=1 cq_moderation=polling
expect "doorbell_mode of the module" "$(parameter doorbell_mode)" each
expect "doorbell_batch of the module" "$(parameter doorbell_batch)" 7
# What is not mentioned is as it is by default.
expect "wqe_compression of the module" "$(parameter wqe_compression)" 'enabled=1 min_send_size=256 algorithm=merge'
expect "cq_moderation of the module" "$(parameter cq_moderation)" 'polling hybrid_thresh=50000 interrupt_thresh=200000'
rmmod mlx5_ulp
