// SPDX-License-Identifier: GPL-2.0
/*
 * When doorbells are rung, and with what: the parameters are set by the script
 * that loads this.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "test.h"

/* One WRITE at a time: each of them is rung for by itself. */
int test_lone(void)
{
	enum { COUNT = 100 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 16 };
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = pair_open(&pair, COUNT * 8, &attr) ?: pair_connect(&pair);
	tally_init(&tally);
	for (i = 0; !err && i < COUNT; i++) {
		write = pair_write(&pair, &tally, &sge, i * 8, 8);
		err = EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0);
		if (err)
			break;
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		err = EXPECT(stats.doorbells, i + 1) ?: tally_wait(&tally, i + 1, 20);
	}
	err = err ?: pair_compare(&pair, 0, COUNT * 8);
	pair_close(&pair);
	return err;
}

/* As lone, with the payload in the request: what BlueFlame is for. */
int test_lone_inline(void)
{
	enum { COUNT = 50, BYTES = 64 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 16, .max_inline = BYTES };
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = pair_open(&pair, COUNT * BYTES, &attr) ?: pair_connect(&pair);
	tally_init(&tally);
	for (i = 0; !err && i < COUNT; i++) {
		write = pair_write(&pair, &tally, &sge, i * BYTES, BYTES);
		write.flags = MLX5_ULP_INLINE;
		err = EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0) ?:
		      tally_wait(&tally, i + 1, 20);
	}
	err = err ?: EXPECT(atomic_read(&tally.done), COUNT) ?:
	      pair_compare(&pair, 0, COUNT * BYTES);
	pair_close(&pair);
	return err;
}

enum { LONELY_WRITES = 16 };

/* A queue whose peer does not exist for it yet. */
static int lonely_prepare(struct pair *pair, struct tally *tally)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 128 };

	tally_init(tally);
	return pair_open(pair, LONELY_WRITES * 8, &attr);
}

/* A queue whose peer is not connected: nothing that is posted completes. */
static int lonely_open(struct pair *pair, struct tally *tally)
{
	return lonely_prepare(pair, tally) ?: pair_connect_sender(pair, NULL);
}

static int lonely_post(struct pair *pair, struct tally *tally, int i, u32 flags)
{
	struct mlx5_ulp_sge sge;
	struct mlx5_ulp_write write = pair_write(pair, tally, &sge, i * 8, 8);

	write.flags = flags;
	return EXPECT(mlx5_ulp_post_write(pair->sender, &write), 0);
}

/* The peer comes: so many WRITEs, which are with the device, arrive. */
static int lonely_no_more(struct pair *pair, struct tally *tally, int writes)
{
	return pair_connect_receiver(pair) ?: tally_wait(tally, writes, 20) ?:
	       pair_compare(pair, 0, writes * 8);
}

/*
 * The second of two WRITEs waits, because the first one is under way and never
 * completes: the peer is not connected. Somebody else has to show it to the device.
 */
static int second_waits(struct pair *pair, struct tally *tally)
{
	unsigned long end = jiffies + 20 * HZ;
	struct mlx5_ulp_queue_stats stats;
	int err;

	err = lonely_post(pair, tally, 0, 0) ?: lonely_post(pair, tally, 1, 0);
	while (!err) {
		mlx5_ulp_queue_query_stats(pair->sender, &stats);
		if (stats.doorbells == 2)
			break;
		err = time_before(jiffies, end) ? 0 : FAIL("the second WRITE is stranded");
		usleep_range(100, 1000);
	}
	return err ?: EXPECT(atomic_read(&tally->ended), 0) ?: lonely_no_more(pair, tally, 2);
}

/* Nothing but the clock does. */
int test_held(void)
{
	struct tally tally;
	struct pair pair;
	int err;

	err = lonely_open(&pair, &tally) ?: second_waits(&pair, &tally);
	pair_close(&pair);
	return err;
}

/* The script does, and has time for that. */
int test_held_long(void)
{
	struct tally tally;
	struct pair pair;
	int err;

	err = lonely_prepare(&pair, &tally) ?: pair_connect_sender_patiently(&pair) ?:
	      second_waits(&pair, &tally);
	pair_close(&pair);
	return err;
}

/* What waits is rung for when it is asked for, and nothing is when nothing waits. */
int test_flush(void)
{
	struct mlx5_ulp_queue_stats stats;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = lonely_open(&pair, &tally);
	for (i = 0; !err && i < 4; i++) {
		if (i < 2)
			err = lonely_post(&pair, &tally, i, 0);
		else
			mlx5_ulp_flush(pair.sender);
		/* The first WRITE is rung for at once, the second waits. */
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		err = err ?: EXPECT(stats.doorbells, i < 2 ? 1 : 2);
	}
	err = err ?: lonely_no_more(&pair, &tally, 2);
	pair_close(&pair);
	return err;
}

/* While one is under way others wait, until the poster says that this is the last. */
int test_last(void)
{
	static const u32 flags[] = { 0, 0, MLX5_ULP_MORE, MLX5_ULP_LAST };
	struct mlx5_ulp_queue_stats stats;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = lonely_open(&pair, &tally);
	for (i = 0; !err && i < ARRAY_SIZE(flags); i++) {
		err = lonely_post(&pair, &tally, i, flags[i]);
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		err = err ?: EXPECT(stats.doorbells, flags[i] == MLX5_ULP_LAST ? 2 : 1);
	}
	err = err ?: lonely_no_more(&pair, &tally, ARRAY_SIZE(flags));
	pair_close(&pair);
	return err;
}

/* A chain in single calls: how often it is rung for before its end, the log says. */
int test_more(void)
{
	struct mlx5_ulp_queue_stats stats;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = lonely_open(&pair, &tally);
	for (i = 0; !err && i < LONELY_WRITES; i++)
		err = lonely_post(&pair, &tally, i, MLX5_ULP_MORE);
	if (!err) {
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		pr_info("more: %llu doorbells\n", stats.doorbells);
		mlx5_ulp_flush(pair.sender);
		err = lonely_no_more(&pair, &tally, LONELY_WRITES);
	}
	pair_close(&pair);
	return err;
}

/* A queue that is kept full: each completion posts the next WRITE. */
struct loop {
	struct tally tally;
	struct pair pair;
	atomic_t posted;
	int count, err;
};

static void loop_done(struct mlx5_ulp_request *request,
		      const struct mlx5_ulp_completion *completion)
{
	struct loop *loop = container_of(request, struct loop, tally.request);
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;

	if (completion->status) {
		loop->err = completion->status;
	} else if (atomic_inc_return(&loop->posted) <= loop->count) {
		write = pair_write(&loop->pair, &loop->tally, &sge, 0, 8);
		loop->err = mlx5_ulp_post_write(loop->pair.sender, &write) ?: loop->err;
	}
	atomic_inc(&loop->tally.ended);
}

/*
 * 64 WRITEs in flight all the time. Once the policy has settled, it rings at
 * most one time in eight.
 */
int test_loaded(void)
{
	enum { DEPTH = 64, WARM = 1000, COUNT = 5000 };
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct mlx5_ulp_queue_stats warm, stats;
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct loop *loop;
	int i, err;

	loop = kzalloc_obj(*loop);
	if (!loop)
		return -ENOMEM;
	err = pair_open(&loop->pair, 64, &attr) ?: pair_connect(&loop->pair);
	tally_init(&loop->tally);
	loop->tally.request.done = loop_done;
	loop->count = WARM + COUNT;
	atomic_set(&loop->posted, DEPTH);
	for (i = 0; !err && i < DEPTH; i++) {
		write = pair_write(&loop->pair, &loop->tally, &sge, 0, 8);
		err = EXPECT(mlx5_ulp_post_write(loop->pair.sender, &write), 0);
	}
	if (!err) {
		err = tally_wait(&loop->tally, WARM, 60);
		mlx5_ulp_queue_query_stats(loop->pair.sender, &warm);
		err = err ?: tally_wait(&loop->tally, WARM + COUNT, 120);
		mlx5_ulp_queue_query_stats(loop->pair.sender, &stats);
		err = err ?: loop->err;
		stats.doorbells -= warm.doorbells;
		stats.posted -= warm.posted;
		if (!err && stats.doorbells * 8 > stats.posted)
			err = FAIL("%llu doorbells for %llu WRITEs", stats.doorbells, stats.posted);
	}
	pair_close(&loop->pair);
	kfree(loop);
	return err;
}

/* A task that posts single WRITEs to a queue that it shares. */
struct switched {
	struct completion finished;
	struct pair *pair;
	struct tally tally;
	int err;
};

enum { SWITCHED_WRITES = 3000 };

static int switched_run(void *data)
{
	struct switched *s = data;
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	int i;

	for (i = 0; !s->err && i < SWITCHED_WRITES; i++) {
		write = pair_write(s->pair, &s->tally, &sge, 0, 8);
		if (i % 7 == 3)
			write.flags = MLX5_ULP_MORE;
		if (i % 5 == 1)
			write.flags |= MLX5_ULP_UNSIGNALED;
		/* The last one is to be reported. */
		if (i == SWITCHED_WRITES - 1)
			write.flags = 0;
		s->err = post_patiently(s->pair->sender, &write, 1);
		if (i < SWITCHED_WRITES / 2 && i % 13 == 5)
			mlx5_ulp_flush(s->pair->sender);
		if (i % 100 == 99)
			fsleep(1000);
	}
	complete(&s->finished);
	return 0;
}

/*
 * Four tasks post, flush now and then, and complete while the script changes
 * the doorbell mode. In the second half nobody flushes or drains: whatever is
 * not shown to the device by the module itself is stranded, and so is its task.
 */
int test_switched(void)
{
	enum { TASKS = 4 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 32 };
	struct switched *tasks;
	struct pair pair;
	int i, err;

	tasks = kzalloc_objs(*tasks, TASKS);
	if (!tasks)
		return -ENOMEM;
	err = pair_open(&pair, 64, &attr) ?: pair_connect(&pair);
	for (i = 0; !err && i < TASKS; i++) {
		struct task_struct *task;

		tasks[i].pair = &pair;
		tally_init(&tasks[i].tally);
		init_completion(&tasks[i].finished);
		task = kthread_create(switched_run, &tasks[i], "mlx5_ulp_test/%d", i);
		if (IS_ERR(task)) {
			tasks[i].err = PTR_ERR(task);
			complete(&tasks[i].finished);
			continue;
		}
		kthread_bind(task, i % num_online_cpus());
		wake_up_process(task);
	}
	for (i = 0; !err && i < TASKS; i++)
		wait_for_completion(&tasks[i].finished);
	for (i = 0; !err && i < TASKS; i++)
		err = tasks[i].err ?: tally_wait(&tasks[i].tally, SWITCHED_WRITES, 60) ?:
		      EXPECT(atomic_read(&tasks[i].tally.done), SWITCHED_WRITES);
	pair_close(&pair);
	kfree(tasks);
	return err;
}
