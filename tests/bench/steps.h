/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every instruction of a measured section, by single steps: where the
 * instructions go that the clock has counted.
 */
#ifndef MLX5_ULP_BENCH_STEPS_H
#define MLX5_ULP_BENCH_STEPS_H

#include <linux/types.h>
#include <linux/irqflags.h>
#include <asm/processor-flags.h>

#include "clock.h"

struct seq_file;

/* Whether sections are to be stepped through. */
extern bool steps_wanted;

int steps_init(void);
void steps_exit(void);
/* The addresses of all instructions since steps_clear(), one symbol with its offset a line. */
void steps_show(struct seq_file *file);
void steps_clear(void);
void steps_begin(void);
void steps_end(void);

/* The ticks of a statement, or, when steps are wanted, its steps in their stead. */
#define MEASURE(statement) ({						\
	bool __stepping = unlikely(steps_wanted);			\
	u64 __begin;							\
									\
	if (__stepping)							\
		steps_begin();						\
	__begin = clock_read();						\
	statement;							\
	__begin = clock_read() - __begin;				\
	if (__stepping)							\
		steps_end();						\
	/* Next to nothing may be less than two readings one behind the other. */ \
	__begin -= min(__begin, (u64)clock.empty);			\
	(u32)min_t(u64, __begin, S32_MAX);				\
})

#endif /* MLX5_ULP_BENCH_STEPS_H */
