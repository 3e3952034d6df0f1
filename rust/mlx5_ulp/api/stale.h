/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is said of a handle that is none, see held.rs. A function of each module
 * that has it, with its own pr_fmt().
 */
#ifndef MLX5_ULP_STALE_H
#define MLX5_ULP_STALE_H

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>

/* Where this module was called from, or 0 if that cannot be said. */
static inline unsigned long mlx5_ulp_caller(void)
{
#ifdef CONFIG_STACKTRACE
	unsigned long entries[16];
	unsigned int i, count;

	count = stack_trace_save(entries, ARRAY_SIZE(entries), 0);
	for (i = 0; i < count; i++)
		if (!within_module(entries[i], THIS_MODULE))
			return entries[i];
#endif
	return 0;
}

/* @call was made with a handle that nobody holds. Not once for each round of a loop. */
static inline void mlx5_ulp_report_stale(const char *call)
{
	static DEFINE_RATELIMIT_STATE(state, 5 * HZ, 32);

	if (__ratelimit(&state))
		pr_err("%s(): no such handle, or given back already; called from %pS (%s[%d])\n",
		       call, (void *)mlx5_ulp_caller(), current->comm, task_pid_nr(current));
}

#endif /* MLX5_ULP_STALE_H */
