// SPDX-License-Identifier: GPL-2.0
/*
 * What posting and completing cost, in instructions.
 *
 *	insmod mlx5_ulp_bench.ko src=mlx5_0 dst=mlx5_1
 *	cd /sys/kernel/debug/mlx5_ulp_bench
 *	echo interface=mlx5_ib size=4096 chain=16 > run && cat run
 *	echo interface=mlx5_ib size=4096 chain=16 steps=post > run && cat steps
 *
 * Only where the clock counts instructions; loading fails elsewhere.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "bench.h"
#include "clock.h"
#include "steps.h"

char *bench_src = "mlx5_0";
module_param_named(src, bench_src, charp, 0444);
MODULE_PARM_DESC(src, "RDMA device that writes");

char *bench_dst = "mlx5_1";
module_param_named(dst, bench_dst, charp, 0444);
MODULE_PARM_DESC(dst, "RDMA device that is written to");

/* The queues of an interface, made when a case first wants so many. */
static struct {
	const struct bench_interface *interface;
	struct bench_queue *queues[BENCH_QUEUES];
	u32 count;
} pools[] = {
	{ &bench_ulp },
	{ &bench_ulp_exclusive },
	{ &bench_ulp_events },
	{ &bench_ulp_find },
	{ &bench_verbs },
	{ &bench_verbs_events },
};

static DEFINE_MUTEX(lock);
static struct bench_result result;
static struct dentry *dir;

static void pools_destroy(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pools); i++)
		while (pools[i].count) {
			pools[i].interface->queue_destroy(pools[i].queues[--pools[i].count]);
			cond_resched();
		}
}

/* At least so many queues of an interface, or an ERR_PTR(). */
static struct bench_queue **pool_get(const struct bench_interface *interface, u32 count)
{
	struct bench_queue *queue;
	int i = 0;

	while (pools[i].interface != interface)
		i++;
	while (pools[i].count < count) {
		queue = interface->queue_create();
		if (IS_ERR(queue))
			return ERR_CAST(queue);
		pools[i].queues[pools[i].count++] = queue;
	}
	return pools[i].queues;
}

static const struct bench_interface *interface_by_name(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pools); i++)
		if (!strcmp(pools[i].interface->name, name))
			return pools[i].interface;
	return NULL;
}

static int parse_word(struct bench_case *c, char *word)
{
	const struct {
		const char *name;
		u32 *value;
	} numbers[] = {
		{ "size", &c->size },	{ "inline", &c->inlined }, { "chain", &c->chain },
		{ "signal", &c->signal }, { "burst", &c->burst }, { "cpus", &c->cpus },
		{ "queues", &c->queues }, { "rounds", &c->rounds },
	};
	char *value = strchr(word, '=');
	int i;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(word, "interface")) {
		c->interface = interface_by_name(value);
		return c->interface ? 0 : -EINVAL;
	}
	if (!strcmp(word, "steps")) {
		c->steps = !strcmp(value, "post") ? BENCH_STEPS_POST : BENCH_STEPS_COMPLETE;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(word, numbers[i].name))
			return kstrtou32(value, 0, numbers[i].value);
	return -EINVAL;
}

/* A case by its words; what is not said is one. */
static int parse(struct bench_case *c, char *text)
{
	char *word;
	int err;

	*c = (struct bench_case) {
		.size = BENCH_SIZE, .chain = 1, .signal = 1, .cpus = 1, .queues = 1, .rounds = 8,
	};
	while ((word = strsep(&text, "\n "))) {
		err = *word ? parse_word(c, word) : 0;
		if (err)
			return err;
	}
	c->burst = c->burst ?: max(c->chain, c->signal);
	return bench_check(c);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t length, loff_t *pos)
{
	struct bench_queue **queues;
	struct bench_case c;
	char *text;
	int err;

	text = memdup_user_nul(from, min(length, PAGE_SIZE));
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&lock);
	err = parse(&c, text);
	if (err)
		goto out;
	queues = pool_get(c.interface, c.queues);
	err = PTR_ERR_OR_ZERO(queues);
	if (err) {
		pr_err("cannot make %u queues: %d\n", c.queues, err);
		goto out;
	}
	/* Without rounds there are just queues for those to come. */
	if (c.rounds)
		err = bench_run(&c, queues, &result);
out:
	mutex_unlock(&lock);
	kfree(text);
	return err ?: (ssize_t)length;
}

static void show_cost(struct seq_file *file, const char *name, const struct bench_cost *cost)
{
	seq_printf(file, "%s %llu\n", name, cost->least);
	seq_printf(file, "%s_parts %u\n", name, cost->parts);
	seq_printf(file, "%s_differing %u\n", name, cost->differing);
	seq_printf(file, "%s_spread %u\n", name, cost->spread);
}

static int run_show(struct seq_file *file, void *unused)
{
	mutex_lock(&lock);
	seq_printf(file, "writes %u\nrounds %u\n", result.writes, result.rounds);
	seq_printf(file, "executed %u\n", result.executed);
	show_cost(file, "post", &result.post);
	show_cost(file, "complete", &result.complete);
	show_cost(file, "dispatch", &result.dispatch);
	mutex_unlock(&lock);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = run_open,
	.read = seq_read,
	.write = run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int clock_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "empty %u\nnops %u\nloop %u\nrepetitions %u\ndiffering %u\n",
		   clock.empty, clock.nops, clock.loop, clock.repetitions, clock.differing);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clock);

static int all_steps_show(struct seq_file *file, void *unused)
{
	mutex_lock(&lock);
	steps_show(file);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(all_steps);

static int __init mlx5_ulp_bench_init(void)
{
	int err;

	err = clock_calibrate();
	if (err)
		return err;
	err = steps_init();
	if (err)
		return err;
	err = bench_ulp_open();
	if (err)
		goto fail_steps;
	err = bench_verbs_open();
	if (err)
		goto fail_ulp;
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0600, dir, NULL, &run_fops);
	debugfs_create_file("clock", 0400, dir, NULL, &clock_fops);
	debugfs_create_file("steps", 0400, dir, NULL, &all_steps_fops);
	return 0;

fail_ulp:
	bench_ulp_close();
fail_steps:
	steps_exit();
	return err;
}

static void __exit mlx5_ulp_bench_exit(void)
{
	debugfs_remove(dir);
	pools_destroy();
	bench_verbs_close();
	bench_ulp_close();
	steps_exit();
}

module_init(mlx5_ulp_bench_init);
module_exit(mlx5_ulp_bench_exit);
MODULE_DESCRIPTION("What posting and completing cost, in instructions");
MODULE_LICENSE("GPL");
