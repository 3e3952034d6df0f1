// SPDX-License-Identifier: GPL-2.0
/*
 * Room: reservations, and who hears of it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/string.h>
#include <linux/wait.h>

#include "test.h"

enum { DEPTH = 8, PIECE = 64, BYTES = DEPTH * PIECE };

/* A WRITE of its piece, with the response behind it. */
static void response(struct pair *pair, struct tally *tally, struct mlx5_ulp_sge *sge,
		     struct mlx5_ulp_work works[2])
{
	*sge = pair_sge(pair, 0, PIECE);
	works[0] = (struct mlx5_ulp_work) {
		.request = &tally->request, .opcode = MLX5_ULP_OP_WRITE, .sge = sge, .num_sge = 1,
		.remote_addr = pair_remote(pair, 0), .rkey = mlx5_ulp_region_key(pair->to),
	};
	works[1] = (struct mlx5_ulp_work) {
		.request = &tally->request, .opcode = MLX5_ULP_OP_SEND,
	};
}

/* What is reserved can be posted when the queue is full; and nobody else takes it. */
int test_reservation(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	const struct mlx5_ulp_receive receives[3] = {};
	struct mlx5_ulp_reservation held = {}, other = {};
	struct mlx5_ulp_work works[2];
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	/* The peer does not answer before it is connected. */
	err = pair_open(&pair, BYTES, &attr);
	if (err)
		goto close;
	response(&pair, &tally, &sge, works);
	write = pair_write(&pair, &tally, &sge, 0, PIECE);
	err = EXPECT(mlx5_ulp_reserve(pair.sender, &held, 2), -ENOTCONN) ?:
	      pair_connect_sender(&pair, NULL) ?:
	      EXPECT(mlx5_ulp_reserve(pair.sender, &held, DEPTH + 1), -EMSGSIZE) ?:
	      EXPECT(held.left, 0) ?:
	      EXPECT(mlx5_ulp_reserve(pair.sender, &held, 2), 0) ?:
	      EXPECT(mlx5_ulp_reserve(pair.sender, &held, 1), 0) ?:
	      EXPECT(held.left, 3);
	for (i = 0; !err && i < DEPTH - 3; i++)
		err = EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0);
	err = err ?: EXPECT(mlx5_ulp_post_write(pair.sender, &write), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_writes(pair.sender, &write, 1), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post(pair.sender, works, 2), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_reserve(pair.sender, &other, 1), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_reserved(pair.sender, &other, works, 1), -EINVAL);
	works[1].flags = 1u << 31;
	err = err ?: EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 2), -EINVAL) ?:
	      EXPECT(held.left, 3);
	works[1].flags = 0;
	err = err ?: EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 2), 0) ?:
	      EXPECT(held.left, 1) ?:
	      EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 2), -EINVAL) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), -EAGAIN);
	mlx5_ulp_release(pair.sender, &held);
	err = err ?: EXPECT(held.left, 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), -EAGAIN) ?:
	      EXPECT(atomic_read(&tally.ended), 0) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, 3), 0) ?:
	      pair_connect_receiver(&pair) ?:
	      tally_wait(&tally, DEPTH, 30) ?: EXPECT(atomic_read(&tally.done), DEPTH) ?:
	      EXPECT(mlx5_ulp_reserve(pair.sender, &held, DEPTH), 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 2), 0) ?:
	      tally_wait(&tally, DEPTH + 2, 30) ?:
	      EXPECT(mlx5_ulp_queue_stop(pair.sender), 0) ?:
	      EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 1), -EPIPE) ?:
	      EXPECT(held.left, DEPTH - 2);
	/* Of no consequence, but allowed. */
	mlx5_ulp_release(pair.sender, &held);
	err = err ?: EXPECT(mlx5_ulp_reserve(pair.sender, &held, 1), -EPIPE);
close:
	pair_close(&pair);
	return err;
}

/* In an exclusive queue its poster reserves, and posts from that and beside it. */
int test_exclusive_reservation(void)
{
	const struct mlx5_ulp_queue_attr attr = {
		.depth = DEPTH, .flags = MLX5_ULP_QUEUE_EXCLUSIVE,
	};
	const struct mlx5_ulp_receive receive = {};
	struct mlx5_ulp_reservation held = {};
	struct mlx5_ulp_exclusive *poster;
	struct mlx5_ulp_work works[2];
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect_sender(&pair, NULL);
	if (err)
		goto close;
	poster = mlx5_ulp_queue_exclusive(pair.sender);
	write = pair_write(&pair, &tally, &sge, 0, PIECE);
	response(&pair, &tally, &sge, works);
	err = EXPECT(mlx5_ulp_reserve(pair.sender, &held, 3), 0);
	for (i = 0; !err && i < DEPTH - 3; i++)
		err = EXPECT(mlx5_ulp_exclusive_post_writes(poster, &write, 1), 0);
	err = err ?: EXPECT(mlx5_ulp_exclusive_post_writes(poster, &write, 1), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_exclusive_post(poster, works, 1), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_reserved(pair.sender, &held, works, 2), 0) ?:
	      EXPECT(held.left, 1) ?:
	      EXPECT(mlx5_ulp_exclusive_post_writes(poster, &write, 1), -EAGAIN);
	mlx5_ulp_release(pair.sender, &held);
	err = err ?: EXPECT(mlx5_ulp_exclusive_post_writes(poster, &write, 1), 0) ?:
	      EXPECT(mlx5_ulp_exclusive_post_writes(poster, &write, 1), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, &receive, 1), 0) ?:
	      pair_connect_receiver(&pair) ?:
	      tally_wait(&tally, DEPTH, 30) ?: EXPECT(atomic_read(&tally.done), DEPTH);
close:
	pair_close(&pair);
	return err;
}

/* Who posts until the queue is full, and again whenever it hears of room. */
struct writer {
	struct pair pair;
	struct tally tally;
	struct mlx5_ulp_sge sge;
	struct mlx5_ulp_write write;
	int left, told, wrong;
	/* Counted by the task, too, when told() may run already. */
	atomic_t full;
	bool held;
};

/* One at a time: from the task before the queue has been full, from told() after. */
static void post_until_full(struct writer *w)
{
	int err = 0;

	while (w->left) {
		err = mlx5_ulp_post_write(w->pair.sender, &w->write);
		if (err)
			break;
		w->left--;
	}
	if (err == -EAGAIN)
		atomic_inc(&w->full);
	else if (err)
		w->wrong++;
}

static void told(void *context)
{
	struct writer *w = context;

	w->told++;
	if (!w->held)
		post_until_full(w);
}

static int writer_open(struct writer *w, int requests)
{
	const struct mlx5_ulp_queue_attr attr = {
		.depth = DEPTH, .space = told, .context = w,
	};

	memset(w, 0, sizeof(*w));
	tally_init(&w->tally);
	w->left = requests;
	if (pair_open(&w->pair, BYTES, &attr))
		return -EPROTO;
	w->sge = pair_sge(&w->pair, 0, PIECE);
	w->write = (struct mlx5_ulp_write) {
		.request = &w->tally.request, .sge = &w->sge, .num_sge = 1,
		.remote_addr = pair_remote(&w->pair, 0),
		.rkey = mlx5_ulp_region_key(w->pair.to),
	};
	return 0;
}

/* Each time that it was full it is told once, and so comes to the end. */
int test_space(void)
{
	enum { REQUESTS = 2000 };
	static struct writer w;
	int err;

	err = writer_open(&w, REQUESTS) ?: pair_connect_receiver(&w.pair) ?:
	      pair_connect_sender(&w.pair, NULL);
	if (!err) {
		post_until_full(&w);
		err = tally_wait(&w.tally, REQUESTS, 60) ?:
		      EXPECT(mlx5_ulp_queue_drain(w.pair.sender), 0) ?:
		      EXPECT(atomic_read(&w.tally.done), REQUESTS) ?:
		      EXPECT(w.wrong, 0) ?: EXPECT(atomic_read(&w.full) > 0, 1) ?:
		      EXPECT(w.told, atomic_read(&w.full));
	}
	pair_close(&w.pair);
	return err;
}

/* Who found a queue full that was only reserved hears when it is released, or goes. */
int test_space_released(void)
{
	struct mlx5_ulp_reservation all = {};
	static struct writer w;
	int i, err;

	err = writer_open(&w, 1) ?: pair_connect_receiver(&w.pair) ?:
	      pair_connect_sender(&w.pair, NULL) ?:
	      EXPECT(mlx5_ulp_reserve(w.pair.sender, &all, DEPTH), 0);
	if (!err) {
		for (i = 0; i < 3; i++)
			post_until_full(&w);
		err = EXPECT(atomic_read(&w.full), 3) ?: EXPECT(w.told, 0);
		mlx5_ulp_release(w.pair.sender, &all);
		err = err ?: tally_wait(&w.tally, 1, 20) ?: EXPECT(w.told, 1) ?:
		      EXPECT(mlx5_ulp_reserve(w.pair.sender, &all, DEPTH), 0);
	}
	w.held = true;
	w.left = 1;
	if (!err) {
		post_until_full(&w);
		err = EXPECT(atomic_read(&w.full), 4) ?: EXPECT(w.told, 1);
	}
	pair_close(&w.pair);
	return err ?: EXPECT(w.told, 2);
}

/*
 * Draining a full queue of which the last request is silent has to wait for room: that
 * is no post that found none.
 */
int test_drained_full(void)
{
	struct mlx5_ulp_queue_stats stats;
	static struct writer w;
	int i, err;

	/* What is posted is sent again by the time that it can be received. */
	err = writer_open(&w, 0) ?: pair_connect_sender_patiently(&w.pair);
	for (i = 0; !err && i < DEPTH; i++) {
		w.write.flags = i == DEPTH - 1 ? MLX5_ULP_UNSIGNALED : 0;
		err = EXPECT(mlx5_ulp_post_write(w.pair.sender, &w.write), 0);
	}
	err = err ?: pair_connect_receiver(&w.pair) ?:
	      EXPECT(mlx5_ulp_queue_drain(w.pair.sender), 0) ?:
	      EXPECT(atomic_read(&w.tally.done), DEPTH) ?: EXPECT(w.told, 0);
	if (!err) {
		mlx5_ulp_queue_query_stats(w.pair.sender, &stats);
		err = EXPECT(stats.full, 0) ?: EXPECT(stats.posted, DEPTH + 1);
	}
	pair_close(&w.pair);
	return err;
}
