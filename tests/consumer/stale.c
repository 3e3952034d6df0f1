// SPDX-License-Identifier: GPL-2.0
/*
 * Handles that were given back already, or never were any: calls that may sleep
 * refuse them, say so in the log, and touch nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "test.h"

static const struct mlx5_ulp_queue_attr attr = { .depth = 4 };

/* A device that was closed, and what was never open. */
static noinline int stale_device(struct mlx5_ulp_device *dev)
{
	struct mlx5_ulp_fast_region *fast;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_queue *queue;
	u8 byte = 0;
	u32 key;

	mlx5_ulp_close(dev);
	queue = mlx5_ulp_queue_create(dev, &attr);
	region = mlx5_ulp_region_create(dev, &byte, 1, 0);
	fast = mlx5_ulp_fast_region_create(dev, 1);
	return EXPECT(PTR_ERR_OR_ZERO(queue), -EBADF) ?:
	       EXPECT(PTR_ERR_OR_ZERO(region), -EBADF) ?:
	       EXPECT(PTR_ERR_OR_ZERO(fast), -EBADF) ?:
	       EXPECT(mlx5_ulp_unsafe_global_key(dev, 0, &key), -EBADF);
}

static noinline int stale_queue(struct mlx5_ulp_queue *queue)
{
	struct mlx5_ulp_address address = {};

	mlx5_ulp_queue_destroy(queue);
	return EXPECT(mlx5_ulp_queue_address(queue, MLX5_ULP_GID_AUTO, &address), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_connect(queue, &address, NULL), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_drain(queue), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_stop(queue), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_disconnect(queue), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_pin(queue), -EBADF) ?:
	       EXPECT(mlx5_ulp_queue_unpin(queue), -EBADF);
}

/*
 * All that can be done to a handle that is gone, before anything else is made: the
 * memory of one that is gone may become another one, which it would name then.
 */
int test_stale(void)
{
	struct mlx5_ulp_fast_region *fast;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_device *dev;
	struct mlx5_ulp_queue *queue;
	void *memory;
	int err;

	dev = mlx5_ulp_open(test_src, NULL);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	memory = kzalloc(64, GFP_KERNEL);
	queue = mlx5_ulp_queue_create(dev, &attr);
	region = mlx5_ulp_region_create(dev, memory, 64, 0);
	fast = mlx5_ulp_fast_region_create(dev, 1);
	mlx5_ulp_close(dev);
	if (IS_ERR(queue) || IS_ERR(region) || IS_ERR(fast))
		return FAIL("nothing to give back: %pe, %pe, %pe", queue, region, fast);

	err = stale_device(dev) ?: stale_device(NULL) ?:
	      /* One kind is not another. */
	      EXPECT(mlx5_ulp_queue_drain((void *)region), -EBADF) ?:
	      EXPECT(mlx5_ulp_region_destroy((void *)queue), -EBADF);
	mlx5_ulp_queue_destroy(queue);
	err = err ?: stale_queue(queue) ?:
	      EXPECT(mlx5_ulp_region_destroy(region), 0) ?:
	      EXPECT(mlx5_ulp_region_destroy(region), -EBADF) ?:
	      EXPECT(mlx5_ulp_fast_region_destroy(fast), 0) ?:
	      EXPECT(mlx5_ulp_fast_region_destroy(fast), -EBADF);
	kfree(memory);
	return err;
}

/* Two tasks that give back the same things at one time. */
struct giver {
	struct mlx5_ulp_device *dev;
	struct mlx5_ulp_queue *queue;
	struct mlx5_ulp_region *region;
	struct completion *start, finished;
	int answer;
};

static int give_back(void *data)
{
	struct giver *giver = data;

	wait_for_completion(giver->start);
	mlx5_ulp_close(giver->dev);
	mlx5_ulp_queue_destroy(giver->queue);
	giver->answer = mlx5_ulp_region_destroy(giver->region);
	complete(&giver->finished);
	return 0;
}

/* Each thing is given back once, whoever comes first; requests in flight end once. */
int test_stale_race(void)
{
	DECLARE_COMPLETION_ONSTACK(start);
	struct giver givers[2] = {};
	struct task_struct *task;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, PAGE_SIZE, &attr) ?: pair_connect_sender_patiently(&pair);
	if (err)
		return err;
	for (i = 0; !err && i < attr.depth; i++) {
		struct mlx5_ulp_sge sge;
		struct mlx5_ulp_write write = pair_write(&pair, &tally, &sge, 0, 64);

		err = EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0);
	}
	for (i = 0; i < 2; i++) {
		givers[i] = (struct giver) {
			.dev = pair.src, .queue = pair.sender, .region = pair.from,
			.start = &start,
		};
		init_completion(&givers[i].finished);
		task = kthread_run(give_back, &givers[i], "mlx5_ulp_test/%d", i);
		if (IS_ERR(task)) {
			err = FAIL("no task: %pe", task);
			complete(&givers[i].finished);
		}
	}
	complete_all(&start);
	for (i = 0; i < 2; i++)
		wait_for_completion(&givers[i].finished);
	pair.src = NULL;
	pair.sender = NULL;
	pair.from = NULL;
	pair_close(&pair);
	return err ?: EXPECT(givers[0].answer + givers[1].answer, -EBADF) ?:
	       EXPECT(atomic_read(&tally.ended), attr.depth);
}
