// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/compiler.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/printk.h>

#include "clock.h"

#define REPETITIONS 64

/* Instructions of the sequences below, by their assembly. */
#define NOPS 1000
#define TURNS 100
#define LOOP (1 + 2 * TURNS)

struct clock clock;

/* The least of all repetitions of a sequence; with interrupts off only other CPUs can add to it. */
#define LEAST(sequence) ({						\
	u32 __least = U32_MAX, __same = 0;				\
	int __i;							\
									\
	for (__i = 0; __i < REPETITIONS; __i++) {			\
		unsigned long __flags;					\
		u64 __begin, __end;					\
		u32 __ticks;						\
									\
		local_irq_save(__flags);				\
		__begin = clock_read();					\
		sequence;						\
		__end = clock_read();					\
		local_irq_restore(__flags);				\
		__ticks = min(__end - __begin, (u64)U32_MAX);		\
		__same = __ticks < __least ? 1 : __same + (__ticks == __least); \
		__least = min(__least, __ticks);			\
	}								\
	clock.differing += REPETITIONS - __same;			\
	__least;							\
})

int clock_calibrate(void)
{
	clock = (struct clock) { .repetitions = REPETITIONS };
	clock.empty = LEAST();
	clock.nops = LEAST(asm volatile(".rept 1000\n\tnop\n\t.endr")) - clock.empty;
	clock.loop = LEAST(asm volatile("mov $100, %%eax\n1:\tdec %%eax\n\tjnz 1b"
					: : : "eax", "cc")) - clock.empty;
	if (clock.nops == NOPS && clock.loop == LOOP)
		return 0;
	pr_err("the clock does not count instructions: %u for %u nops, %u for a loop of %u\n",
	       clock.nops, NOPS, clock.loop, LOOP);
	return -EOPNOTSUPP;
}
