// SPDX-License-Identifier: GPL-2.0
/*
 * A queue whose completion queue breaks while its device works: what its peer sends
 * then does not reach the memory of receives that have ended.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>

#include "test.h"

enum { RECEIVES = 4, PIECE = 256 };

static struct {
	struct pair pair;
	struct tally receives;
	bool open;
} broken;

/* The receives wait for the news that the completion queue of their queue is broken. */
int test_broken(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = RECEIVES };
	struct pair *pair = &broken.pair;
	int i, err;

	tally_init(&broken.receives);
	err = pair_open(pair, RECEIVES * PIECE, &attr) ?: pair_connect(pair);
	for (i = 0; !err && i < RECEIVES; i++) {
		struct mlx5_ulp_sge sge = pair_room(pair, i * PIECE, PIECE);
		const struct mlx5_ulp_receive receive = {
			.request = &broken.receives.request,
			.sge = &sge,
			.num_sge = 1,
		};

		err = EXPECT(mlx5_ulp_post_receives(pair->receiver, &receive, 1), 0);
	}
	if (err)
		pair_close(pair);
	broken.open = !err;
	return err;
}

/* Nobody drains: the receives end by themselves, and nothing comes to their memory any more. */
static int broken_check(struct pair *pair)
{
	struct mlx5_ulp_sge sge = pair_sge(pair, 0, PIECE);
	struct mlx5_ulp_work send = {
		.opcode = MLX5_ULP_OP_SEND,
		.sge = &sge,
		.num_sge = 1,
	};
	struct tally sends;
	int err, i;

	tally_init(&sends);
	send.request = &sends.request;
	err = tally_wait(&broken.receives, RECEIVES, 60) ?:
	      EXPECT(atomic_read(&broken.receives.flushed), RECEIVES) ?:
	      EXPECT(mlx5_ulp_post_receives(pair->receiver, &(struct mlx5_ulp_receive) {}, 1),
		     -EPIPE) ?:
	      EXPECT(mlx5_ulp_post(pair->sender, &send, 1), 0) ?:
	      tally_wait(&sends, 1, 120) ?:
	      EXPECT(atomic_read(&sends.failed), 1);
	for (i = 0; !err && i < RECEIVES * PIECE; i++)
		err = EXPECT(READ_ONCE(pair->to_memory[i]), 0);
	return err ?: EXPECT(mlx5_ulp_queue_drain(pair->receiver), 0);
}

void test_broken_end(void)
{
	int err;

	if (!broken.open)
		return;
	err = broken_check(&broken.pair);
	pair_close(&broken.pair);
	pr_info("broken, at the end: %s (%d)\n", err ? "not ok" : "ok", err);
}
