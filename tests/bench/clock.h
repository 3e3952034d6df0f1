/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A clock that counts instructions.
 *
 * Under QEMU's `-icount shift=0` the guest's clocks advance by one nanosecond
 * with each instruction that a CPU executes, and the time stamp counter by one.
 * What lies between two readings is the number of instructions from the first
 * to the second; clock_calibrate() finds what of it is the reading itself.
 */
#ifndef MLX5_ULP_BENCH_CLOCK_H
#define MLX5_ULP_BENCH_CLOCK_H

#include <linux/types.h>

static __always_inline u64 clock_read(void)
{
	u32 low, high;

	/* Nothing moves across it. */
	asm volatile("rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return (u64)high << 32 | low;
}

/**
 * struct clock - what the clock showed of known sequences
 * @empty: of two readings with nothing between them; to be subtracted
 * @nops: of 1000 nops, @empty subtracted
 * @loop: of a loop of 201 instructions, 100 taken jumps among them, @empty
 *	subtracted
 * @repetitions: how often each was measured
 * @differing: how many of all these measurements were not the least
 */
struct clock {
	u32 empty;
	u32 nops;
	u32 loop;
	u32 repetitions;
	u32 differing;
};

extern struct clock clock;

/* 0, or -EOPNOTSUPP where the clock does not count instructions. */
int clock_calibrate(void);

#endif /* MLX5_ULP_BENCH_CLOCK_H */
