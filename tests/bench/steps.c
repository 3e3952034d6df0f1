// SPDX-License-Identifier: GPL-2.0
/*
 * With the trap flag set, the CPU raises a debug exception after each
 * instruction. Nobody else wants these in the kernel, so the die notifier that
 * takes them sees them all; the exception itself runs without the flag.
 */
#include <linux/kdebug.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <asm/debugreg.h>

#include "steps.h"

#define STEPS 65536

bool steps_wanted;

static unsigned long *steps;
static u32 taken;
/* The CPU that steps, or -1. */
static int stepping = -1;

static int steps_die(struct notifier_block *block, unsigned long reason, void *data)
{
	struct die_args *args = data;

	if (reason != DIE_DEBUG || READ_ONCE(stepping) != raw_smp_processor_id())
		return NOTIFY_DONE;
	/* After an instruction the address is that of the next one. */
	if (taken < STEPS)
		steps[taken++] = args->regs->ip;
	return NOTIFY_STOP;
}

static struct notifier_block steps_notifier = {
	.notifier_call = steps_die,
	.priority = INT_MAX,
};

int steps_init(void)
{
	int err;

	steps = vcalloc(STEPS, sizeof(*steps));
	if (!steps)
		return -ENOMEM;
	err = register_die_notifier(&steps_notifier);
	if (err)
		vfree(steps);
	return err;
}

void steps_exit(void)
{
	unregister_die_notifier(&steps_notifier);
	vfree(steps);
}

void steps_clear(void)
{
	taken = 0;
}

noinline void steps_begin(void)
{
	WRITE_ONCE(stepping, raw_smp_processor_id());
	asm volatile("pushf\n\torq %[flag], (%%rsp)\n\tpopf"
		     : ASM_CALL_CONSTRAINT : [flag] "i" (X86_EFLAGS_TF) : "memory", "cc");
}

noinline void steps_end(void)
{
	/* The last exception is that after the nop. */
	asm volatile("pushf\n\tandq %[mask], (%%rsp)\n\tpopf\n\tnop"
		     : ASM_CALL_CONSTRAINT : [mask] "i" (~X86_EFLAGS_TF) : "memory", "cc");
	WRITE_ONCE(stepping, -1);
}

void steps_show(struct seq_file *file)
{
	u32 i;

	for (i = 0; i < taken; i++)
		seq_printf(file, "%pS\n", (void *)steps[i]);
}
