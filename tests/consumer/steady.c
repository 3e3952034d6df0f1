// SPDX-License-Identifier: GPL-2.0
/*
 * A load that goes on until the module is unloaded, whatever the device does.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>

#include "test.h"

enum { DEPTH = 32, PIECE = 4096 };

static struct {
	struct pair pair;
	struct tally tally;
	struct task_struct *task;
	int posted, refused;
} steady;

/* Writes the same memory again and again; a queue that refuses is left alone. */
static int steady_post(void *unused)
{
	int i = 0;

	while (!kthread_should_stop()) {
		size_t offset = (size_t)i * PIECE;
		struct mlx5_ulp_sge sge;
		const struct mlx5_ulp_write write =
			pair_write(&steady.pair, &steady.tally, &sge, offset, PIECE);
		int err = mlx5_ulp_post_write(steady.pair.sender, &write);

		if (!err) {
			steady.posted++;
			i = (i + 1) % DEPTH;
		} else if (err != -EAGAIN) {
			steady.refused = err;
			fsleep(10000);
		}
		fsleep(1000);
	}
	return 0;
}

int test_steady(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct task_struct *task;
	int err;

	tally_init(&steady.tally);
	err = pair_open(&steady.pair, DEPTH * PIECE, &attr) ?: pair_connect(&steady.pair);
	if (!err) {
		task = kthread_run(steady_post, NULL, "mlx5_ulp_steady");
		err = IS_ERR(task) ? FAIL("no thread: %ld", PTR_ERR(task)) : 0;
	}
	if (err)
		pair_close(&steady.pair);
	else
		steady.task = task;
	return err;
}

/* Whether the device gives one more queue. */
static int steady_another(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct mlx5_ulp_queue *queue = mlx5_ulp_queue_create(steady.pair.src, &attr);

	if (IS_ERR(queue))
		return PTR_ERR(queue);
	mlx5_ulp_queue_destroy(queue);
	return 0;
}

/* Gives everything back and says how it ended. */
void test_steady_end(void)
{
	int drained, whole, another;

	if (!steady.task)
		return;
	kthread_stop(steady.task);
	drained = mlx5_ulp_queue_drain(steady.pair.sender);
	whole = !pair_compare(&steady.pair, 0, DEPTH * PIECE);
	another = steady_another();
	pair_close(&steady.pair);
	pr_info("steady: posted %d ended %d done %d failed %d flushed %d status %d syndrome %#x refused %d drained %d whole %d another %d\n",
		steady.posted, atomic_read(&steady.tally.ended),
		atomic_read(&steady.tally.done), atomic_read(&steady.tally.failed),
		atomic_read(&steady.tally.flushed), steady.tally.first_status,
		steady.tally.first_syndrome, steady.refused, drained, whole, another);
}
