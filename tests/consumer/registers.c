// SPDX-License-Identifier: GPL-2.0
/*
 * Queues whose doorbells the script looks at from the device's side.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/string.h>

#include "test.h"

enum { QUEUES = 4, WRITES = 10, PIECE = 8 };

static struct pair pairs[QUEUES];

/* One at a time, so that each is a doorbell. */
static int ring_each(struct pair *pair)
{
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	int i, err = 0;

	tally_init(&tally);
	write = pair_write(pair, &tally, &sge, 0, PIECE);
	for (i = 0; !err && i < WRITES; i++)
		err = EXPECT(mlx5_ulp_post_write(pair->sender, &write), 0) ?:
		      tally_wait(&tally, i + 1, 20);
	return err;
}

/* The queues stay until test_registers_end(). */
int test_registers(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 4 };
	int i, err = 0;

	for (i = 0; !err && i < QUEUES; i++)
		err = pair_open(&pairs[i], PIECE, &attr) ?: pair_connect(&pairs[i]) ?:
		      ring_each(&pairs[i]);
	if (err)
		test_registers_end();
	return err;
}

void test_registers_end(void)
{
	int i;

	for (i = 0; i < QUEUES; i++)
		pair_close(&pairs[i]);
}
