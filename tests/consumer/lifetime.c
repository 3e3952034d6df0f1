// SPDX-License-Identifier: GPL-2.0
/*
 * Ends in the middle of work.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "test.h"

enum { DEPTH = 16, PIECE = 64 };

/* Posts as many as fit, to a peer that does not answer. */
static int fill(struct pair *pair, struct tally *tally)
{
	int i, err = 0;

	for (i = 0; !err && i < DEPTH; i++) {
		struct mlx5_ulp_sge sge;
		struct mlx5_ulp_write write = pair_write(pair, tally, &sge, i * PIECE, PIECE);

		write.flags = i % 2 ? MLX5_ULP_UNSIGNALED : 0;
		err = EXPECT(mlx5_ulp_post_write(pair->sender, &write), 0);
	}
	return err;
}

/* A pair of which only the sender is connected: nothing completes. */
static int open_stuck(struct pair *pair)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };

	return pair_open(pair, DEPTH * PIECE, &attr) ?: pair_connect_sender_patiently(pair);
}

/* Each request ends once, before the queue is gone. */
int test_destroy_in_flight(void)
{
	struct tally tally;
	struct pair pair;
	int err;

	tally_init(&tally);
	err = open_stuck(&pair) ?: fill(&pair, &tally) ?:
	      EXPECT(atomic_read(&tally.ended), 0);
	pair_close(&pair);
	return err ?: EXPECT(atomic_read(&tally.ended), DEPTH) ?:
	       EXPECT(atomic_read(&tally.flushed), DEPTH);
}

/* The handle of the device goes first; its queues and regions still work. */
int test_close_order(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct tally tally;
	struct pair pair;
	int err;

	tally_init(&tally);
	err = pair_open(&pair, DEPTH * PIECE, &attr) ?: pair_connect(&pair);
	if (!err) {
		mlx5_ulp_close(pair.src);
		mlx5_ulp_close(pair.dst);
		pair.src = NULL;
		pair.dst = NULL;
		/* All that is the queues' affair goes on. */
		err = fill(&pair, &tally);
		mlx5_ulp_flush(pair.sender);
		err = err ?: EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
		      EXPECT(atomic_read(&tally.done), DEPTH) ?:
		      pair_compare(&pair, 0, DEPTH * PIECE);
	}
	pair_close(&pair);
	return err;
}

/* What stays, with work in flight, until the module is unloaded. */
static struct {
	struct pair pair;
	struct tally tally, receives;
	struct mlx5_ulp_fast_region *region;
	struct mlx5_ulp_device *watch;
	int notices, early, held, late_region;
	bool open;
} stay;

static void removal(void *context)
{
	struct mlx5_ulp_region *region;

	/* Everything still works, nothing has ended by itself. */
	pr_info("stay: the device goes, %d of %d have ended\n",
		atomic_read(&stay.tally.ended), DEPTH);
	stay.notices++;
	stay.early += atomic_read(&stay.tally.ended);
	/* By who calls this: the one that loads modules has let go. */
	stay.held += module_refcount(THIS_MODULE);
	/* Too late to be given back in time; the firmware would make the key. */
	region = mlx5_ulp_region_create(stay.watch, stay.pair.from_memory, PIECE, 0);
	stay.late_region = PTR_ERR_OR_ZERO(region);
}

/* Receives that no message comes for, and a key that is made after the queues. */
static int stay_receive(void)
{
	const struct mlx5_ulp_receive receive = { .request = &stay.receives.request };
	int i, err = 0;

	tally_init(&stay.receives);
	for (i = 0; !err && i < PAIR_RECEIVES; i++)
		err = EXPECT(mlx5_ulp_post_receives(stay.pair.receiver, &receive, 1), 0);
	stay.region = mlx5_ulp_fast_region_create(stay.pair.src, 1);
	if (IS_ERR(stay.region)) {
		err = FAIL("no fast region: %ld", PTR_ERR(stay.region));
		stay.region = NULL;
	}
	return err;
}

/*
 * Leaves requests in flight, a pinned queue and the module loaded. Now the device may go, or
 * the module: see test_stay_end().
 */
int test_stay(void)
{
	const struct mlx5_ulp_open_attr attr = {
		.removal = removal,
		.owner = THIS_MODULE,
	};
	int err;

	tally_init(&stay.tally);
	err = open_stuck(&stay.pair);
	if (err)
		return err;
	err = fill(&stay.pair, &stay.tally) ?: stay_receive() ?:
	      EXPECT(mlx5_ulp_queue_pin(stay.pair.sender), 0);
	if (!err) {
		stay.watch = mlx5_ulp_open(test_src, &attr);
		if (IS_ERR(stay.watch)) {
			err = FAIL("cannot open a second time: %ld", PTR_ERR(stay.watch));
			stay.watch = NULL;
		}
	}
	if (err) {
		if (stay.region)
			mlx5_ulp_fast_region_destroy(stay.region);
		pair_close(&stay.pair);
	}
	stay.open = !err;
	return err;
}

/* Gives everything back and says how it ended. */
void test_stay_end(void)
{
	struct mlx5_ulp_sge sge;
	struct mlx5_ulp_write write;
	int late, map;

	if (!stay.open)
		return;
	sge = (struct mlx5_ulp_sge) { .length = PIECE };
	write = (struct mlx5_ulp_write) { .sge = &sge, .num_sge = 1 };
	late = mlx5_ulp_post_write(stay.pair.sender, &write);
	map = mlx5_ulp_fast_region_map(stay.region, NULL, 0);
	pair_close(&stay.pair);
	/* In any order. */
	mlx5_ulp_fast_region_destroy(stay.region);
	mlx5_ulp_close(stay.watch);
	pr_info("stay: ended %d flushed %d notices %d early %d held %d region %d late post %d map %d receives %d\n",
		atomic_read(&stay.tally.ended), atomic_read(&stay.tally.flushed),
		stay.notices, stay.early, stay.held, stay.late_region, late, map,
		atomic_read(&stay.receives.flushed));
}
