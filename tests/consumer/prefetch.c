// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions that only ask for memory: nothing but who is stopped there sees
 * whether they are carried out.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>

#include "test.h"

enum { MOST = 32 };

/* Where they are: the script that loads this looks for them. */
static unsigned long places[MOST];
static int count;
module_param_array(places, ulong, &count, 0444);

static struct kprobe probes[MOST];
static atomic_t passed;

static int pass(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&passed);
	return 0;
}

/* How often 100 lone WRITEs come by, the log says. */
int test_prefetch(void)
{
	int placed, err = 0;

	memset(probes, 0, sizeof(probes));
	atomic_set(&passed, 0);
	for (placed = 0; placed < count; placed++) {
		probes[placed].addr = (kprobe_opcode_t *)places[placed];
		probes[placed].pre_handler = pass;
		err = register_kprobe(&probes[placed]);
		if (err) {
			err = FAIL("no probe at %pS: %d", (void *)places[placed], err);
			break;
		}
	}
	err = err ?: test_lone();
	while (placed)
		unregister_kprobe(&probes[--placed]);
	pr_info("prefetch: %d at %d places\n", atomic_read(&passed), count);
	return err;
}
