// SPDX-License-Identifier: GPL-2.0
/*
 * Queues by name and by number.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "test.h"

static struct mlx5_ulp_queue *named(struct mlx5_ulp_device *dev, u32 qid)
{
	const struct mlx5_ulp_queue_attr attr = {
		.depth = 4,
		.flags = MLX5_ULP_QUEUE_NAMED,
		.qid = qid,
	};

	return mlx5_ulp_queue_create(dev, &attr);
}

/* A queue without a name that it could be found by. */
static struct mlx5_ulp_queue *unnamed(struct mlx5_ulp_device *dev)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 4 };

	return mlx5_ulp_queue_create(dev, &attr);
}

static u32 number(struct mlx5_ulp_queue *queue)
{
	struct mlx5_ulp_address address = {};

	mlx5_ulp_queue_address(queue, MLX5_ULP_GID_AUTO, &address);
	return address.qpn;
}

/* Whether the queue is found by its name and by its number. */
static int has_names(struct mlx5_ulp_device *dev, struct mlx5_ulp_queue *queue, u32 qid)
{
	return EXPECT(mlx5_ulp_queue_find(dev, qid) == queue, 1) ?:
	       EXPECT(mlx5_ulp_queue_find_qpn(dev, number(queue)) == queue, 1);
}

/*
 * Several functions on each of two devices, the same local numbers on all: each
 * name leads to its own queue, from any handle of its device and from no other;
 * and so does each number.
 */
int test_names(void)
{
	enum { FUNCTIONS = 4, LOCAL = 5 };
	static const u8 vf_ids[FUNCTIONS] = { 0, 1, 7, MLX5_ULP_MAX_VF_ID };
	struct mlx5_ulp_queue *queues[2][FUNCTIONS][LOCAL] = {}, *other = NULL, *queue;
	struct mlx5_ulp_device *devs[2], *again;
	u32 qids[LOCAL + 1];
	int d, f, l, err;

	devs[0] = mlx5_ulp_open(test_src, NULL);
	devs[1] = mlx5_ulp_open(test_dst, NULL);
	again = mlx5_ulp_open(test_src, NULL);
	err = PTR_ERR_OR_ZERO(devs[0]) ?: PTR_ERR_OR_ZERO(devs[1]) ?: PTR_ERR_OR_ZERO(again);
	if (err)
		return FAIL("cannot open: %d", err);

	for (d = 0; !err && d < 2; d++)
		for (f = 0; !err && f < FUNCTIONS; f++)
			for (l = 0; !err && l < LOCAL; l++) {
				queue = named(devs[d], mlx5_ulp_qid(vf_ids[f], l * 1000));
				if (IS_ERR(queue))
					err = FAIL("no queue: %ld", PTR_ERR(queue));
				else
					queues[d][f][l] = queue;
			}
	for (l = 0; l < LOCAL; l++)
		qids[l] = mlx5_ulp_qid(vf_ids[1], l * 1000);
	qids[LOCAL] = mlx5_ulp_qid(vf_ids[1], 77);
	mlx5_ulp_queue_prefetch(again, qids, LOCAL + 1);
	mlx5_ulp_queue_prefetch(again, NULL, 0);

	for (d = 0; !err && d < 2; d++)
		for (f = 0; !err && f < FUNCTIONS; f++)
			for (l = 0; !err && l < LOCAL; l++)
				err = has_names(devs[d], queues[d][f][l],
						mlx5_ulp_qid(vf_ids[f], l * 1000));
	if (err)
		goto end;

	queue = queues[0][1][2];
	err = EXPECT(mlx5_ulp_queue_find(again, qids[2]) == queue, 1) ?:
	      EXPECT(!mlx5_ulp_queue_find(again, qids[LOCAL]), 1) ?:
	      EXPECT(!mlx5_ulp_queue_find(again, mlx5_ulp_qid(2, 0)), 1) ?:
	      /* The names of slots that nobody has taken. */
	      EXPECT(!mlx5_ulp_queue_find(again, 0xff), 1) ?:
	      EXPECT(!mlx5_ulp_queue_find(again, 0x1ff), 1) ?:
	      EXPECT(!mlx5_ulp_queue_find(again, U32_MAX), 1) ?:
	      EXPECT(!mlx5_ulp_queue_find_qpn(again, 0xffffff), 1) ?:
	      EXPECT(!mlx5_ulp_queue_find_qpn(again, U32_MAX), 1) ?:
	      /* What is taken, and what nobody may take. */
	      EXPECT(PTR_ERR_OR_ZERO(named(devs[0], qids[2])), -EEXIST) ?:
	      EXPECT(PTR_ERR_OR_ZERO(named(devs[0], mlx5_ulp_qid(254, 1))), -EINVAL) ?:
	      EXPECT(PTR_ERR_OR_ZERO(named(devs[0], mlx5_ulp_qid(255, 1))), -EINVAL) ?:
	      EXPECT(mlx5_ulp_queue_pin(queue), 0) ?:
	      EXPECT(mlx5_ulp_queue_unpin(queue), 0) ?:
	      EXPECT(mlx5_ulp_queue_unpin(queue), -ENOENT) ?:
	      EXPECT(mlx5_ulp_queue_pin(queue), 0);
	other = unnamed(devs[0]);
	if (!err && IS_ERR(other))
		err = FAIL("no queue: %ld", PTR_ERR(other));
	err = err ?: EXPECT(mlx5_ulp_queue_find_qpn(again, number(other)) == other, 1);
	if (err)
		goto end;

	/* What is gone is not found, and its name is free. */
	mlx5_ulp_queue_destroy(queue);
	queues[0][1][2] = NULL;
	err = EXPECT(!mlx5_ulp_queue_find(again, qids[2]), 1);
	queue = named(devs[0], qids[2]);
	if (!err && IS_ERR(queue))
		err = FAIL("the name is not free: %ld", PTR_ERR(queue));
	if (!IS_ERR(queue))
		queues[0][1][2] = queue;
	err = err ?: EXPECT(mlx5_ulp_queue_find(again, qids[2]) == queue, 1);
end:
	for (d = 0; d < 2; d++)
		for (f = 0; f < FUNCTIONS; f++)
			for (l = 0; l < LOCAL; l++)
				if (queues[d][f][l])
					mlx5_ulp_queue_destroy(queues[d][f][l]);
	if (!IS_ERR_OR_NULL(other))
		mlx5_ulp_queue_destroy(other);
	mlx5_ulp_close(again);
	mlx5_ulp_close(devs[0]);
	mlx5_ulp_close(devs[1]);
	return err;
}

/* Readers that look all the time for queues that come and go. */
struct reader {
	struct mlx5_ulp_device *dev;
	struct completion finished;
	bool stop;
	int err;
	u64 found, absent;
};

enum { NAMES = 16 };

static int reader_run(void *data)
{
	struct reader *r = data;
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_queue *queue;
	u32 i = 0;

	while (!READ_ONCE(r->stop) && !r->err) {
		rcu_read_lock();
		queue = mlx5_ulp_queue_find(r->dev, mlx5_ulp_qid(i % 3, i % NAMES));
		if (queue) {
			/* Good until the end of the section, whoever destroys it. */
			mlx5_ulp_queue_query_stats(queue, &stats);
			if (stats.posted)
				r->err = FAIL("%llu posts", stats.posted);
			r->found++;
		} else {
			r->absent++;
		}
		rcu_read_unlock();
		if (!(++i % 1024))
			cond_resched();
	}
	complete(&r->finished);
	return 0;
}

int test_names_churn(void)
{
	enum { READERS = 2, ROUNDS = 60 };
	struct mlx5_ulp_queue *queues[NAMES] = {};
	struct reader readers[READERS] = {};
	struct mlx5_ulp_device *dev;
	struct task_struct *task;
	int i, round, err = 0;

	dev = mlx5_ulp_open(test_src, NULL);
	if (IS_ERR(dev))
		return FAIL("cannot open: %ld", PTR_ERR(dev));
	for (i = 0; i < READERS; i++) {
		readers[i].dev = dev;
		init_completion(&readers[i].finished);
		task = kthread_run(reader_run, &readers[i], "mlx5_ulp_test/%d", i);
		if (IS_ERR(task)) {
			err = FAIL("no task: %ld", PTR_ERR(task));
			complete(&readers[i].finished);
		}
	}
	for (round = 0; !err && round < ROUNDS; round++) {
		i = round * 7 % NAMES;
		if (queues[i]) {
			mlx5_ulp_queue_destroy(queues[i]);
			queues[i] = NULL;
			if (mlx5_ulp_queue_find(dev, mlx5_ulp_qid(i % 3, i)))
				err = FAIL("a queue is found after its end");
			continue;
		}
		queues[i] = named(dev, mlx5_ulp_qid(i % 3, i));
		if (IS_ERR(queues[i])) {
			err = FAIL("no queue: %ld", PTR_ERR(queues[i]));
			queues[i] = NULL;
		} else if (mlx5_ulp_queue_find(dev, mlx5_ulp_qid(i % 3, i)) != queues[i]) {
			err = FAIL("a new queue is not found");
		}
	}
	for (i = 0; i < READERS; i++) {
		WRITE_ONCE(readers[i].stop, true);
		wait_for_completion(&readers[i].finished);
		err = err ?: readers[i].err;
		if (!err && (!readers[i].found || !readers[i].absent))
			err = FAIL("found %llu, not found %llu", readers[i].found,
				   readers[i].absent);
	}
	for (i = 0; i < NAMES; i++)
		if (queues[i])
			mlx5_ulp_queue_destroy(queues[i]);
	mlx5_ulp_close(dev);
	return err;
}
