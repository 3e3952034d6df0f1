// SPDX-License-Identifier: GPL-2.0
/*
 * A case: rounds of posting, waiting and completing.
 *
 * In a round each CPU posts a burst to each of its queues; then everything is
 * left to arrive, and each queue is polled once for all that it should have.
 * Each call is measured by itself, and of each call the least of all rounds
 * counts: the clock goes on when the emulator lets another CPU run in between.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "bench.h"
#include "steps.h"

#define PATIENCE (60 * HZ)
/* Rounds in which completions came too late are done again, this often. */
#define LATE_ROUNDS 10

/* What one measured call cost in all rounds. */
struct part {
	u32 least;
	u32 most;
};

struct parts {
	struct part *parts;
	u32 count;
};

struct bench {
	const struct bench_case *c;
	struct bench_queue **queues;
	struct parts post, complete, dispatch;
	/* What this round steps through. */
	enum bench_steps steps;
	/* Milliseconds that completions are given to arrive. */
	u32 settle;
};

struct poster {
	struct completion finished;
	struct bench *bench;
	u32 cpu;
	int err;
};

static int parts_init(struct parts *parts, u32 count)
{
	u32 i;

	parts->parts = vmalloc_array(count, sizeof(*parts->parts));
	if (!parts->parts)
		return -ENOMEM;
	parts->count = count;
	for (i = 0; i < count; i++)
		parts->parts[i] = (struct part) { .least = U32_MAX };
	return 0;
}

static void part_add(struct parts *parts, u32 i, u32 ticks)
{
	struct part *part = &parts->parts[i];

	part->least = min(part->least, ticks);
	part->most = max(part->most, ticks);
}

static struct bench_cost parts_sum(const struct parts *parts)
{
	struct bench_cost cost = { .parts = parts->count };
	u32 i;

	for (i = 0; i < parts->count; i++) {
		const struct part *part = &parts->parts[i];

		cost.least += part->least;
		cost.differing += part->most != part->least;
		cost.spread = max(cost.spread, part->most - part->least);
	}
	return cost;
}

/* Queues that one CPU posts to: with fewer queues than CPUs they share. */
static u32 groups(const struct bench_case *c)
{
	return min(c->cpus, c->queues);
}

static u32 posts_per_burst(const struct bench_case *c)
{
	return c->burst / c->chain;
}

/* How many CPUs post to a queue. */
static u32 posters_of(const struct bench_case *c, u32 queue)
{
	u32 cpu, n = 0;

	for (cpu = 0; cpu < c->cpus; cpu++)
		n += cpu % groups(c) == queue % groups(c);
	return n;
}

/* Posts the burst of one CPU to one queue; @part is the number of its first post. */
static int post_burst(struct bench *bench, struct bench_queue *queue, u32 part)
{
	const struct bench_case *c = bench->c;
	struct bench_write writes[BENCH_CHAIN];
	unsigned long flags;
	u32 i, j, n;
	int ticks;

	for (i = 0; i < posts_per_burst(c); i++) {
		for (j = 0; j < c->chain; j++) {
			n = i * c->chain + j;
			writes[j] = (struct bench_write) {
				.offset = n * c->size,
				.length = c->size,
				.inlined = c->inlined,
				.signaled = (n + 1) % c->signal == 0,
			};
		}
		local_irq_save(flags);
		ticks = c->interface->post(queue, writes, c->chain);
		local_irq_restore(flags);
		if (ticks < 0)
			return ticks;
		part_add(&bench->post, part + i, ticks);
	}
	return 0;
}

static int poster_run(void *data)
{
	struct poster *poster = data;
	struct bench *bench = poster->bench;
	const struct bench_case *c = bench->c;
	u32 queue, part = 0;

	/* Parts are numbered by CPU, then by queue. */
	for (queue = 0; queue < c->queues; queue++) {
		u32 cpu;

		for (cpu = 0; cpu < c->cpus; cpu++) {
			if (cpu % groups(c) != queue % groups(c))
				continue;
			if (cpu == poster->cpu && !poster->err)
				poster->err = post_burst(bench, bench->queues[queue], part);
			part += posts_per_burst(c);
		}
		cond_resched();
	}
	complete(&poster->finished);
	return 0;
}

static int post_round(struct bench *bench)
{
	struct poster posters[BENCH_CPUS] = {};
	struct task_struct *task;
	int err = 0;
	u32 i;

	for (i = 0; i < bench->c->cpus; i++) {
		posters[i].bench = bench;
		posters[i].cpu = i;
		init_completion(&posters[i].finished);
		task = kthread_create_on_cpu(poster_run, &posters[i], i, "bench/%u");
		if (IS_ERR(task)) {
			err = PTR_ERR(task);
			break;
		}
		wake_up_process(task);
	}
	while (i--) {
		wait_for_completion(&posters[i].finished);
		err = err ?: posters[i].err;
	}
	return err;
}

/* Whether all of the round has ended. */
static bool ended(const struct bench *bench)
{
	const struct bench_case *c = bench->c;
	u32 i;

	for (i = 0; i < c->queues; i++)
		if (bench->queues[i]->ended < posters_of(c, i) * c->burst)
			return false;
	return true;
}

/* 0, or -EIO if a request of any queue has. */
static int failed(const struct bench *bench)
{
	u32 i;

	for (i = 0; i < bench->c->queues; i++)
		if (bench->queues[i]->status)
			return -EIO;
	return 0;
}

static struct bench_polled poll(const struct bench *bench, u32 i)
{
	const struct bench_case *c = bench->c;
	struct bench_queue *queue = bench->queues[i];
	struct bench_polled polled = {};
	unsigned long flags;

	/* Events bring the completions. */
	if (!c->interface->poll)
		return polled;
	local_bh_disable();
	local_irq_save(flags);
	polled = c->interface->poll(queue, posters_of(c, i) * c->burst / c->signal);
	local_irq_restore(flags);
	local_bh_enable();
	return polled;
}

/* Completes a round: true when everything was there at the first look. */
static bool complete_round(struct bench *bench)
{
	unsigned long end = jiffies + PATIENCE;
	struct bench_polled *polled;
	bool in_time;
	u32 i;

	polled = kvcalloc(bench->c->queues, sizeof(*polled), GFP_KERNEL);
	if (!polled)
		return false;
	for (i = 0; i < bench->c->queues; i++)
		polled[i] = poll(bench, i);
	in_time = ended(bench);
	for (i = 0; in_time && i < bench->c->queues; i++) {
		part_add(&bench->complete, i, polled[i].ticks);
		part_add(&bench->dispatch, i, polled[i].dispatch);
	}
	kvfree(polled);
	while (!ended(bench) && time_before(jiffies, end)) {
		msleep(20);
		for (i = 0; i < bench->c->queues; i++)
			poll(bench, i);
	}
	return in_time;
}

static int run_round(struct bench *bench, bool *in_time)
{
	int err;
	u32 i;

	for (i = 0; i < bench->c->queues; i++) {
		bench->queues[i]->ended = 0;
		bench->queues[i]->signal = bench->c->signal;
	}
	steps_wanted = bench->steps == BENCH_STEPS_POST;
	err = post_round(bench);
	if (err)
		goto out;
	msleep(bench->settle);
	steps_wanted = bench->steps == BENCH_STEPS_COMPLETE;
	*in_time = complete_round(bench);
	err = failed(bench) ?: ended(bench) ? 0 : -ETIMEDOUT;
out:
	steps_wanted = false;
	return err;
}

static int run_rounds(struct bench *bench, struct bench_result *result)
{
	u32 late = 0;
	bool in_time;
	int err;

	while (result->rounds < bench->c->rounds) {
		err = run_round(bench, &in_time);
		if (err)
			return err;
		result->executed += result->writes;
		if (in_time) {
			result->rounds++;
			continue;
		}
		bench->settle *= 2;
		if (++late > LATE_ROUNDS)
			return -ETIMEDOUT;
	}
	return 0;
}

/* One round more, of which only the steps are kept. */
static int run_steps(struct bench *bench)
{
	bool in_time;

	steps_clear();
	bench->steps = bench->c->steps;
	return run_round(bench, &in_time);
}

/* 0, or -EINVAL or -ERANGE for a case that makes no sense. */
int bench_check(const struct bench_case *c)
{
	if (!c->interface || !c->size || !c->chain || !c->signal || !c->burst || !c->cpus ||
	    !c->queues)
		return -EINVAL;
	if (c->size > (c->inlined ? BENCH_INLINE : BENCH_SIZE) || c->chain > BENCH_CHAIN ||
	    c->burst * c->cpus > BENCH_DEPTH || c->burst % c->chain || c->burst % c->signal ||
	    c->cpus > min(BENCH_CPUS, num_online_cpus()) || c->queues > BENCH_QUEUES)
		return -ERANGE;
	if (c->interface->one_poster && c->cpus > c->queues)
		return -EINVAL;
	return 0;
}

/**
 * bench_run() - measures a case
 * @c: the case, which bench_check() has passed
 * @queues: as many as it wants, connected
 * @result: filled in
 *
 * Return: 0; %-ETIMEDOUT when completions don't come; or what posting answered.
 */
int bench_run(const struct bench_case *c, struct bench_queue **queues,
	      struct bench_result *result)
{
	struct bench bench = { .c = c, .queues = queues, .settle = 2 };
	u32 i, posts = 0;
	int err;

	*result = (struct bench_result) {};
	for (i = 0; i < c->queues; i++) {
		posts += posters_of(c, i) * posts_per_burst(c);
		result->writes += posters_of(c, i) * c->burst;
	}
	err = parts_init(&bench.post, posts) ?: parts_init(&bench.complete, c->queues) ?:
	      parts_init(&bench.dispatch, c->queues) ?: run_rounds(&bench, result);
	if (!err) {
		result->post = parts_sum(&bench.post);
		result->complete = parts_sum(&bench.complete);
		result->dispatch = parts_sum(&bench.dispatch);
	}
	if (!err && c->steps)
		err = run_steps(&bench);
	vfree(bench.post.parts);
	vfree(bench.complete.parts);
	vfree(bench.dispatch.parts);
	return err;
}
