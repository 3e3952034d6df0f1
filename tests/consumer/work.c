// SPDX-License-Identifier: GPL-2.0
/*
 * Callbacks in process context.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "test.h"

enum { DEPTH = 16, REQUESTS = 200, PIECE = 64, BYTES = DEPTH * PIECE };

static struct sleeper {
	struct mlx5_ulp_request request;
	struct mlx5_ulp_queue *queue;
	struct mlx5_ulp_write again;
	int left, wrong;
	atomic_t ended, flushed;
} sleeper;

/* Sleeps, then posts the next one. */
static void sleeper_done(struct mlx5_ulp_request *request,
			 const struct mlx5_ulp_completion *completion)
{
	if (!in_task() || irqs_disabled())
		sleeper.wrong++;
	usleep_range(50, 100);
	if (completion->status == -ECANCELED)
		atomic_inc(&sleeper.flushed);
	else if (completion->status)
		sleeper.wrong++;
	else if (sleeper.left && sleeper.left-- &&
		 mlx5_ulp_post_write(sleeper.queue, &sleeper.again))
		sleeper.wrong++;
	atomic_inc_return_release(&sleeper.ended);
}

static int sleeper_wait(int count)
{
	int i;

	for (i = 0; i < 40000 && atomic_read_acquire(&sleeper.ended) < count; i++)
		fsleep(500);
	return EXPECT(atomic_read(&sleeper.ended), count) ?: EXPECT(sleeper.wrong, 0);
}

/* They sleep, they post, and the end of the queue waits for them. */
int test_in_work(void)
{
	struct mlx5_ulp_queue_attr attr = {
		.depth = DEPTH, .flags = MLX5_ULP_QUEUE_WORK,
	};
	struct mlx5_ulp_queue *none;
	struct mlx5_ulp_sge sge;
	struct pair pair;
	int i, err;

	memset(&sleeper, 0, sizeof(sleeper));
	sleeper.request.done = sleeper_done;
	err = pair_open(&pair, BYTES, &attr);
	if (err)
		goto close;
	attr.flags |= MLX5_ULP_QUEUE_POLLED;
	none = mlx5_ulp_queue_create(pair.src, &attr);
	err = EXPECT(PTR_ERR_OR_ZERO(none), -EINVAL) ?: pair_connect(&pair);
	if (err)
		goto close;
	sge = pair_sge(&pair, 0, PIECE);
	sleeper.queue = pair.sender;
	sleeper.left = REQUESTS - DEPTH;
	sleeper.again = (struct mlx5_ulp_write) {
		.request = &sleeper.request, .sge = &sge, .num_sge = 1,
		.remote_addr = pair_remote(&pair, 0), .rkey = mlx5_ulp_region_key(pair.to),
	};
	for (i = 0; !err && i < DEPTH; i++)
		err = EXPECT(mlx5_ulp_post_write(pair.sender, &sleeper.again), 0);
	err = err ?: sleeper_wait(REQUESTS) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      pair_compare(&pair, 0, PIECE);
	/* To nobody: what is in flight is told by whoever stops the queue. */
	mlx5_ulp_queue_stop(pair.receiver);
	for (i = 0; !err && i < DEPTH; i++)
		err = EXPECT(mlx5_ulp_post_write(pair.sender, &sleeper.again), 0);
	err = err ?: EXPECT(mlx5_ulp_queue_stop(pair.sender), 0) ?:
	      sleeper_wait(REQUESTS + DEPTH) ?:
	      EXPECT(atomic_read(&sleeper.flushed), DEPTH);
close:
	pair_close(&pair);
	return err;
}
