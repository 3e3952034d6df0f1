// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic that goes on until something dies under it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "test.h"

enum { POSTERS = 4, SLOTS = 16, PIECE = 64 };

struct mortal;

/* A request that knows whether it is under way. */
struct slot {
	struct mlx5_ulp_request request;
	struct mortal *mortal;
	atomic_t busy;
};

/* A task that posts to the queue that all share, and one to the queue of its own. */
struct mortal {
	struct slot slots[SLOTS];
	struct mlx5_ulp_queue *queue;
	struct pair *pair;
	struct completion finished;
	atomic_t ended, twice, done;
	int posted, last_error;
};

static void slot_done(struct mlx5_ulp_request *request,
		      const struct mlx5_ulp_completion *completion)
{
	struct slot *slot = container_of(request, struct slot, request);

	if (!completion->status)
		atomic_inc(&slot->mortal->done);
	if (atomic_xchg(&slot->busy, 0) != 1)
		atomic_inc(&slot->mortal->twice);
	atomic_inc(&slot->mortal->ended);
}

/* Posts as fast as it goes, until a post is refused for good. */
static int mortal_run(void *data)
{
	struct mortal *m = data;
	unsigned long end = jiffies + 150 * HZ;
	int i = 0, err = 0;

	while (!err && time_before(jiffies, end)) {
		struct slot *slot = &m->slots[i % SLOTS];
		struct mlx5_ulp_sge sge = pair_sge(m->pair, 0, PIECE);
		struct mlx5_ulp_write write = {
			.request = &slot->request,
			.sge = &sge,
			.num_sge = 1,
			.flags = i % 3 ? MLX5_ULP_UNSIGNALED : 0,
			.remote_addr = pair_remote(m->pair, 0),
			.rkey = mlx5_ulp_region_key(m->pair->to),
		};

		if (atomic_read_acquire(&slot->busy)) {
			mlx5_ulp_flush(m->queue);
			fsleep(50);
			continue;
		}
		atomic_set(&slot->busy, 1);
		err = mlx5_ulp_post_write(m->queue, &write);
		if (err) {
			atomic_set(&slot->busy, 0);
			if (err == -EAGAIN) {
				fsleep(50);
				err = 0;
			}
			continue;
		}
		m->posted++;
		i++;
		cond_resched();
	}
	m->last_error = err;
	complete(&m->finished);
	return 0;
}

/*
 * Posts from four tasks until the device, its port or its driver goes; then every
 * request that was posted has ended once. The log says how the posts ended.
 */
int test_mortal(void)
{
	/*
	 * A port that is down is noticed after seven times half a second: not sooner,
	 * or a peer that is merely slow would pass for one.
	 */
	const struct mlx5_ulp_connect_attr patient = {
		.gid_index = MLX5_ULP_GID_AUTO,
		.timeout = 17,
	};
	const struct mlx5_ulp_queue_attr attr = { .depth = POSTERS * SLOTS };
	int i, err, posted = 0, ended = 0, done = 0, last = 0;
	struct task_struct *task;
	struct mortal *mortals;
	unsigned long end;
	struct pair pair;

	mortals = kzalloc_objs(*mortals, POSTERS);
	if (!mortals)
		return -ENOMEM;
	err = pair_open(&pair, PIECE, &attr) ?: pair_connect_receiver(&pair) ?:
	      pair_connect_sender(&pair, &patient);
	if (err) {
		kfree(mortals);
		return err;
	}
	for (i = 0; i < POSTERS; i++) {
		struct mortal *m = &mortals[i];
		int j;

		m->pair = &pair;
		m->queue = pair.sender;
		init_completion(&m->finished);
		for (j = 0; j < SLOTS; j++) {
			m->slots[j].request.done = slot_done;
			m->slots[j].mortal = m;
		}
		task = kthread_create(mortal_run, m, "mlx5_ulp_test/%d", i);
		if (IS_ERR(task)) {
			err = FAIL("no task: %ld", PTR_ERR(task));
			complete(&m->finished);
			continue;
		}
		kthread_bind(task, i % num_online_cpus());
		wake_up_process(task);
	}
	pr_info("mortal: running\n");
	for (i = 0; i < POSTERS; i++)
		wait_for_completion(&mortals[i].finished);

	/* Nobody drains: what is in flight ends by itself, once the death is known. */
	end = jiffies + 60 * HZ;
	for (i = 0; !err && i < POSTERS; i++) {
		struct mortal *m = &mortals[i];

		while (m->last_error == -ENODEV && atomic_read(&m->ended) < m->posted &&
		       time_before(jiffies, end))
			fsleep(1000);
	}
	mlx5_ulp_queue_drain(pair.sender);
	for (i = 0; i < POSTERS; i++) {
		struct mortal *m = &mortals[i];

		posted += m->posted;
		ended += atomic_read(&m->ended);
		done += atomic_read(&m->done);
		last = m->last_error;
		err = err ?: EXPECT(atomic_read(&m->ended), m->posted) ?:
		      EXPECT(atomic_read(&m->twice), 0);
		if (!err && !m->last_error)
			err = FAIL("nothing has died");
	}
	pr_info("mortal: posted %d ended %d done %d refused %d\n", posted, ended, done, last);
	pair_close(&pair);
	kfree(mortals);
	return err;
}
