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
	complete_all(&m->finished);
	return 0;
}

/* The tasks and their queue. */
static struct {
	struct mortal *tasks;
	struct pair pair;
} traffic;

/* Sets four tasks going. */
static int traffic_begin(void)
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
	struct pair *pair = &traffic.pair;
	struct task_struct *task;
	int i, j, err;

	traffic.tasks = kzalloc_objs(*traffic.tasks, POSTERS);
	if (!traffic.tasks)
		return -ENOMEM;
	err = pair_open(pair, PIECE, &attr) ?: pair_connect_receiver(pair) ?:
	      pair_connect_sender(pair, &patient);
	if (err) {
		pair_close(pair);
		kfree(traffic.tasks);
		traffic.tasks = NULL;
		return err;
	}
	for (i = 0; i < POSTERS; i++) {
		struct mortal *m = &traffic.tasks[i];

		m->pair = pair;
		m->queue = pair->sender;
		init_completion(&m->finished);
		for (j = 0; j < SLOTS; j++) {
			m->slots[j].request.done = slot_done;
			m->slots[j].mortal = m;
		}
		task = kthread_create(mortal_run, m, "mlx5_ulp_test/%d", i);
		if (IS_ERR(task)) {
			err = FAIL("no task: %ld", PTR_ERR(task));
			complete_all(&m->finished);
			continue;
		}
		kthread_bind(task, i % num_online_cpus());
		wake_up_process(task);
	}
	pr_info("mortal: running\n");
	return err;
}

/*
 * Waits for the tasks, whose posts are refused by now or soon, and gives everything
 * back. Every request that was posted has ended once; the log says how.
 */
static int traffic_end(int err)
{
	int i, posted = 0, ended = 0, done = 0, last = 0;
	unsigned long end;

	for (i = 0; i < POSTERS; i++)
		wait_for_completion(&traffic.tasks[i].finished);

	/* Nobody drains: what is in flight ends by itself, once the death is known. */
	end = jiffies + 60 * HZ;
	for (i = 0; !err && i < POSTERS; i++) {
		struct mortal *m = &traffic.tasks[i];

		while (m->last_error == -ENODEV && atomic_read(&m->ended) < m->posted &&
		       time_before(jiffies, end))
			fsleep(1000);
	}
	mlx5_ulp_queue_drain(traffic.pair.sender);
	for (i = 0; i < POSTERS; i++) {
		struct mortal *m = &traffic.tasks[i];

		posted += m->posted;
		ended += atomic_read(&m->ended);
		done += atomic_read(&m->done);
		last = m->last_error;
		err = err ?: EXPECT(atomic_read(&m->ended), m->posted) ?:
		      EXPECT(atomic_read(&m->twice), 0);
		if (!err && !m->last_error)
			err = FAIL("nothing has died");
		if (!err && !m->posted)
			err = FAIL("task %d has posted nothing", i);
	}
	pr_info("mortal: posted %d ended %d done %d refused %d\n", posted, ended, done, last);
	pair_close(&traffic.pair);
	kfree(traffic.tasks);
	traffic.tasks = NULL;
	return err;
}

/*
 * Posts from four tasks until the device, its port or its driver goes; then every
 * request that was posted has ended once.
 */
int test_mortal(void)
{
	int err = traffic_begin();

	return traffic.tasks ? traffic_end(err) : err;
}

/* The same until this module is unloaded: see test_leaving_end(). */
int test_leaving(void)
{
	int err = traffic_begin();

	if (err && traffic.tasks) {
		mlx5_ulp_queue_stop(traffic.pair.sender);
		traffic_end(err);
	}
	return err;
}

/*
 * Stops the queue while all four post to it. When that has returned, what was posted
 * has ended and nothing can be posted any more, so nothing ends later.
 */
void test_leaving_end(void)
{
	int i, ended, later, err;

	if (!traffic.tasks)
		return;
	err = EXPECT(mlx5_ulp_queue_stop(traffic.pair.sender), 0);
	for (i = 0, ended = 0; i < POSTERS; i++)
		ended += atomic_read(&traffic.tasks[i].ended);
	for (i = 0; i < POSTERS; i++)
		wait_for_completion(&traffic.tasks[i].finished);
	for (i = 0, later = 0; i < POSTERS; i++) {
		later += atomic_read(&traffic.tasks[i].ended);
		err = err ?: EXPECT(traffic.tasks[i].last_error, -EPIPE);
	}
	err = err ?: EXPECT(later, ended);
	err = traffic_end(err);
	pr_info("leaving: %s (%d)\n", err ? "not ok" : "ok", err);
}
