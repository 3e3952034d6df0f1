// SPDX-License-Identifier: GPL-2.0
/*
 * Posting and completing under load.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "test.h"

/*
 * A full queue refuses, and refuses a chain as a whole. The peer is not
 * connected at first, so that nothing completes while the queue is filled.
 */
int test_full(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 8 };
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_write writes[8];
	struct mlx5_ulp_sge sges[8];
	struct tally tally;
	struct pair pair;
	int i, err;

	err = pair_open(&pair, 8 * 64, &attr);
	if (err)
		return err;
	tally_init(&tally);
	for (i = 0; i < 8; i++) {
		sges[i] = pair_sge(&pair, i * 64, 64);
		writes[i] = (struct mlx5_ulp_write) {
			.request = &tally.request,
			.sge = &sges[i],
			.num_sge = 1,
			.remote_addr = pair_remote(&pair, i * 64),
			.rkey = mlx5_ulp_region_key(pair.to),
		};
	}

	err = pair_connect_sender(&pair, NULL) ?:
	      EXPECT(mlx5_ulp_post_writes(pair.sender, writes, 7), 0) ?:
	      EXPECT(mlx5_ulp_post_writes(pair.sender, writes, 2), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &writes[7]), 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &writes[0]), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_writes(pair.sender, writes, 0), 0) ?:
	      EXPECT(atomic_read(&tally.ended), 0) ?:
	      /* Now the peer answers, and what was posted arrives. */
	      pair_connect_receiver(&pair) ?:
	      tally_wait(&tally, 8, 20) ?:
	      EXPECT(atomic_read(&tally.done), 8) ?:
	      pair_compare(&pair, 0, 8 * 64) ?:
	      /* With room again, a chain of a whole queue is taken. */
	      EXPECT(mlx5_ulp_post_writes(pair.sender, writes, 8), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), 16);
	if (!err) {
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		err = EXPECT(stats.posted, 16) ?: EXPECT(stats.full, 2) ?:
		      EXPECT(stats.completed, 16) ?: EXPECT(stats.errors, 0) ?:
		      EXPECT(stats.doorbells, 3);
	}
	pair_close(&pair);
	return err;
}

/*
 * More WRITEs than the hardware's 16-bit counter has values, through a small
 * ring. Each slot of the destination must have the last value written to it.
 */
int test_wrap(void)
{
	enum { DEPTH = 32, SLOTS = 64, CHAIN = 8, WRITES = 66000 };
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH, .max_inline = 8 };
	struct mlx5_ulp_write writes[CHAIN];
	struct mlx5_ulp_sge sges[CHAIN];
	u64 values[CHAIN];
	struct tally tally;
	struct pair pair;
	int i, j, err;

	err = pair_open(&pair, SLOTS * sizeof(u64), &attr) ?: pair_connect(&pair);
	tally_init(&tally);
	for (i = 0; !err && i < WRITES; i += CHAIN) {
		for (j = 0; j < CHAIN; j++) {
			values[j] = i + j;
			sges[j] = (struct mlx5_ulp_sge) {
				.addr = (u64)(uintptr_t)&values[j],
				.length = sizeof(u64),
			};
			writes[j] = (struct mlx5_ulp_write) {
				.request = &tally.request,
				.sge = &sges[j],
				.num_sge = 1,
				.flags = MLX5_ULP_INLINE,
				.remote_addr = pair_remote(&pair, (i + j) % SLOTS * sizeof(u64)),
				.rkey = mlx5_ulp_region_key(pair.to),
			};
		}
		err = post_patiently(pair.sender, writes, CHAIN);
	}
	if (!err)
		err = EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
		      EXPECT(atomic_read(&tally.done), WRITES);
	for (i = WRITES - SLOTS; !err && i < WRITES; i++)
		err = EXPECT(((u64 *)pair.to_memory)[i % SLOTS], i);
	pair_close(&pair);
	return err;
}

/* A task that posts to a queue of its own or to one that it shares. */
struct poster {
	struct task_struct *task;
	struct completion finished;
	struct pair *pair;
	struct tally tally;
	/* Where its part of the memory begins, and how many u64 it has. */
	size_t first;
	int count;
	int err;
};

/* Writes each of its values by a WRITE of its own. */
static int poster_run(void *data)
{
	struct poster *p = data;
	int i;

	for (i = 0; !p->err && i < p->count; i++) {
		size_t offset = p->first + i * sizeof(u64);
		struct mlx5_ulp_sge sge;
		struct mlx5_ulp_write write =
			pair_write(p->pair, &p->tally, &sge, offset, sizeof(u64));

		p->err = post_patiently(p->pair->sender, &write, 1);
	}
	complete(&p->finished);
	return 0;
}

/* Runs posters, and checks that all they wrote has arrived. */
static int posters_run(struct poster *posters, int n)
{
	int i, err = 0;

	for (i = 0; i < n; i++) {
		tally_init(&posters[i].tally);
		init_completion(&posters[i].finished);
		posters[i].task = kthread_run(poster_run, &posters[i], "mlx5_ulp_test/%d", i);
		if (IS_ERR(posters[i].task)) {
			err = FAIL("no task: %ld", PTR_ERR(posters[i].task));
			complete(&posters[i].finished);
		}
	}
	for (i = 0; i < n; i++) {
		wait_for_completion(&posters[i].finished);
		err = err ?: posters[i].err;
	}
	for (i = 0; !err && i < n; i++) {
		struct poster *p = &posters[i];

		err = EXPECT(mlx5_ulp_queue_drain(p->pair->sender), 0) ?:
		      EXPECT(atomic_read(&p->tally.done), p->count) ?:
		      EXPECT(atomic_read(&p->tally.ended), p->count) ?:
		      pair_compare(p->pair, p->first, p->count * sizeof(u64));
	}
	return err;
}

/* Several tasks on one queue. */
int test_posters(void)
{
	enum { POSTERS = 4, COUNT = 2000 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 16 };
	struct mlx5_ulp_queue_stats stats;
	struct poster *posters;
	struct pair pair;
	int i, err;

	posters = kzalloc_objs(*posters, POSTERS);
	if (!posters)
		return -ENOMEM;
	err = pair_open(&pair, POSTERS * COUNT * sizeof(u64), &attr) ?: pair_connect(&pair);
	if (!err) {
		for (i = 0; i < POSTERS; i++) {
			posters[i].pair = &pair;
			posters[i].first = i * COUNT * sizeof(u64);
			posters[i].count = COUNT;
		}
		err = posters_run(posters, POSTERS);
	}
	if (!err) {
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		err = EXPECT(stats.posted, POSTERS * COUNT) ?:
		      EXPECT(stats.completed, POSTERS * COUNT) ?:
		      EXPECT(stats.unexpected, 0);
	}
	pair_close(&pair);
	kfree(posters);
	return err;
}

/* Several queues at once, a task on each. */
int test_queues(void)
{
	enum { QUEUES = 8, COUNT = 500 };
	struct mlx5_ulp_queue_attr attr = { .depth = 16 };
	struct poster *posters;
	struct pair *pairs;
	int i, err = 0;

	posters = kzalloc_objs(*posters, QUEUES);
	pairs = kzalloc_objs(*pairs, QUEUES);
	if (!posters || !pairs)
		err = -ENOMEM;
	for (i = 0; !err && i < QUEUES; i++) {
		attr.vector = i;
		err = pair_open(&pairs[i], COUNT * sizeof(u64), &attr) ?:
		      pair_connect(&pairs[i]);
		posters[i].pair = &pairs[i];
		posters[i].count = COUNT;
	}
	if (!err)
		err = posters_run(posters, QUEUES);
	for (i = 0; pairs && i < QUEUES; i++)
		pair_close(&pairs[i]);
	kfree(pairs);
	kfree(posters);
	return err;
}

/*
 * Several ranges, empty ones among them, and inline payload of all lengths, in
 * WQEs of one to three blocks: again and again, so that each crosses the end of
 * the ring.
 */
int test_shapes(void)
{
	enum { INLINE = 128, ROUNDS = 3, PIECE = 37 };
	const struct mlx5_ulp_queue_attr attr = {
		.depth = 5,
		.max_sge = 6,
		.max_inline = INLINE,
	};
	struct mlx5_ulp_sge sges[7];
	struct mlx5_ulp_write write;
	size_t offset = 0;
	struct tally tally;
	struct pair pair;
	int round, i, n, err;

	err = pair_open(&pair, 1 << 16, &attr) ?: pair_connect(&pair);
	if (err)
		return err;
	tally_init(&tally);
	write = (struct mlx5_ulp_write) {
		.request = &tally.request,
		.sge = sges,
		.rkey = mlx5_ulp_region_key(pair.to),
	};

	for (round = 0; !err && round < ROUNDS; round++) {
		/* n ranges that are one behind the other, every other one empty. */
		for (n = 0; !err && n <= 6; n++) {
			write.remote_addr = pair_remote(&pair, offset);
			write.num_sge = n;
			write.flags = 0;
			for (i = 0; i < n; i++) {
				u32 length = i % 2 ? 0 : PIECE;

				sges[i] = pair_sge(&pair, offset, length);
				offset += length;
			}
			err = post_patiently(pair.sender, &write, 1);
		}
		for (n = 0; !err && n <= INLINE; n += 1 + n / 5) {
			write.flags = MLX5_ULP_INLINE;
			/* In two, at a place that moves, and in one. */
			for (i = 2; !err && i > 0; i--) {
				u32 first = i == 2 ? n / 3 : n;

				write.remote_addr = pair_remote(&pair, offset);
				write.num_sge = i;
				sges[0] = pair_sge(&pair, offset, first);
				sges[1] = pair_sge(&pair, offset + first, n - first);
				sges[0].lkey = 0;
				sges[1].lkey = 0;
				offset += n;
				err = post_patiently(pair.sender, &write, 1);
			}
		}
	}
	if (!err) {
		for (i = 0; i < 7; i++)
			sges[i] = pair_sge(&pair, 0, 1);
		write.num_sge = 7;
		write.flags = 0;
		err = EXPECT(post_with_room(pair.sender, &write, 1), -EMSGSIZE);
		write.num_sge = 1;
		sges[0].length = 1U << 31;
		err = err ?: EXPECT(post_with_room(pair.sender, &write, 1), -EMSGSIZE);
		write.flags = MLX5_ULP_INLINE;
		sges[0].length = INLINE + 1;
		err = err ?: EXPECT(post_with_room(pair.sender, &write, 1), -EMSGSIZE);
	}
	err = err ?: EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), atomic_read(&tally.ended)) ?:
	      pair_compare(&pair, 0, offset);
	/* Nothing was written behind the end. */
	for (i = 0; !err && i < 64; i++)
		err = EXPECT(pair.to_memory[offset + i], 0);
	pair_close(&pair);
	return err;
}

/* Requests whose success is not reported complete with the next that is. */
int test_unsignaled(void)
{
	enum { DEPTH = 64, COUNT = 1000 };
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_sge sge;
	struct mlx5_ulp_write write;
	struct tally tally;
	struct pair pair;
	int i, err;

	err = pair_open(&pair, COUNT, &attr) ?: pair_connect(&pair);
	if (err)
		return err;
	tally_init(&tally);
	for (i = 0; !err && i < COUNT; i++) {
		sge = pair_sge(&pair, i, 1);
		write = (struct mlx5_ulp_write) {
			.request = &tally.request,
			.sge = &sge,
			.num_sge = 1,
			/* None is reported, were it not for the queue's own rule. */
			.flags = MLX5_ULP_UNSIGNALED,
			.remote_addr = pair_remote(&pair, i),
			.rkey = mlx5_ulp_region_key(pair.to),
		};
		err = post_patiently(pair.sender, &write, 1);
	}
	/* The last ones are reported because we ask. */
	err = err ?: EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), COUNT) ?:
	      pair_compare(&pair, 0, COUNT);
	if (!err) {
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		if (stats.posted > COUNT + 1)
			err = FAIL("%llu WQEs for %d requests", stats.posted, COUNT);
	}
	pair_close(&pair);
	return err;
}

/* A chain of requests, each posted when the one before has ended. */
struct relay {
	struct mlx5_ulp_request request;
	struct pair *pair;
	struct completion finished;
	int next, count, err;
};

static int relay_post(struct relay *relay)
{
	size_t offset = relay->next++ * sizeof(u64);
	struct mlx5_ulp_sge sge = pair_sge(relay->pair, offset, sizeof(u64));
	struct mlx5_ulp_write write = {
		.request = &relay->request,
		.sge = &sge,
		.num_sge = 1,
		.remote_addr = pair_remote(relay->pair, offset),
		.rkey = mlx5_ulp_region_key(relay->pair->to),
	};

	return mlx5_ulp_post_write(relay->pair->sender, &write);
}

static void relay_done(struct mlx5_ulp_request *request,
		       const struct mlx5_ulp_completion *completion)
{
	struct relay *relay = container_of(request, struct relay, request);

	relay->err = completion->status;
	if (!relay->err && relay->next < relay->count)
		relay->err = relay_post(relay);
	else
		complete(&relay->finished);
	if (relay->err)
		complete(&relay->finished);
}

/* A queue of one request: its credit must be free when it has ended. */
int test_from_completion(void)
{
	enum { COUNT = 1000 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 1 };
	struct relay relay = {
		.request.done = relay_done,
		.count = COUNT,
	};
	struct pair pair;
	int err;

	err = pair_open(&pair, COUNT * sizeof(u64), &attr) ?: pair_connect(&pair);
	if (err)
		return err;
	relay.pair = &pair;
	init_completion(&relay.finished);
	err = EXPECT(relay_post(&relay), 0);
	if (!err && !wait_for_completion_timeout(&relay.finished, 60 * HZ))
		err = FAIL("stopped after %d requests", relay.next);
	err = err ?: EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(relay.err, 0) ?:
	      pair_compare(&pair, 0, COUNT * sizeof(u64));
	pair_close(&pair);
	return err;
}

/* A queue of one poster, who takes no lock; the other handle is refused. */
int test_exclusive(void)
{
	enum { DEPTH = 16, CHAIN = 4, COUNT = 400 };
	const struct mlx5_ulp_queue_attr attr = {
		.depth = DEPTH,
		.flags = MLX5_ULP_QUEUE_EXCLUSIVE,
	};
	struct mlx5_ulp_exclusive *exclusive;
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_write writes[CHAIN];
	struct mlx5_ulp_sge sges[CHAIN];
	struct tally tally;
	struct pair pair;
	int i, j, posts, err;

	err = pair_open(&pair, COUNT * sizeof(u64), &attr) ?: pair_connect(&pair);
	if (err)
		return err;
	tally_init(&tally);
	exclusive = mlx5_ulp_queue_exclusive(pair.sender);
	for (i = 0, posts = 0; !err && i < COUNT; i += CHAIN, posts++) {
		for (j = 0; j < CHAIN; j++) {
			size_t offset = (i + j) * sizeof(u64);

			sges[j] = pair_sge(&pair, offset, sizeof(u64));
			writes[j] = (struct mlx5_ulp_write) {
				.request = &tally.request,
				.sge = &sges[j],
				.num_sge = 1,
				/* The last one of all is not reported. */
				.flags = j ? MLX5_ULP_UNSIGNALED : 0,
				.remote_addr = pair_remote(&pair, offset),
				.rkey = mlx5_ulp_region_key(pair.to),
			};
		}
		err = EXPECT(mlx5_ulp_post_writes(pair.sender, writes, CHAIN), -EINVAL);
		while (!err && (err = mlx5_ulp_exclusive_post_writes(exclusive, writes, CHAIN)))
			err = err == -EAGAIN ? tally_wait(&tally, i - DEPTH + CHAIN, 20) : err;
	}
	err = err ?: EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), COUNT) ?:
	      pair_compare(&pair, 0, COUNT * sizeof(u64));
	if (!err) {
		mlx5_ulp_queue_query_stats(pair.sender, &stats);
		/* The drain added one, which does nothing. */
		err = EXPECT(stats.posted, COUNT + 1) ?: EXPECT(stats.doorbells, posts + 1);
	}
	pair_close(&pair);
	return err;
}
