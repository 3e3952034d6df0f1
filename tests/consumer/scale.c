// SPDX-License-Identifier: GPL-2.0
/*
 * Many queues on one device.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "test.h"

enum { QUEUES = 1024 };

static int connect(struct mlx5_ulp_queue *queue, struct mlx5_ulp_queue *peer)
{
	struct mlx5_ulp_address address;

	return mlx5_ulp_queue_address(peer, MLX5_ULP_GID_AUTO, &address) ?:
	       mlx5_ulp_queue_connect(queue, &address, NULL);
}

/*
 * As many queues of usual size as a busy target has, each with its own name and
 * peer: each is found and writes to its own place.
 */
int test_scale(void)
{
	const struct mlx5_ulp_queue_attr first = { .depth = 1 };
	struct mlx5_ulp_queue **senders, **receivers;
	struct mlx5_ulp_queue_attr attr = {
		.depth = 256,
		.flags = MLX5_ULP_QUEUE_NAMED,
	};
	struct mlx5_ulp_queue_attr peer = {
		.depth = 1,
		.access = MLX5_ULP_ACCESS_REMOTE_WRITE,
	};
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	senders = vcalloc(QUEUES, sizeof(*senders));
	receivers = vcalloc(QUEUES, sizeof(*receivers));
	if (!senders || !receivers) {
		vfree(senders);
		vfree(receivers);
		return -ENOMEM;
	}
	tally_init(&tally);
	err = pair_open(&pair, QUEUES * sizeof(u64), &first);
	for (i = 0; !err && i < QUEUES; i++) {
		attr.qid = mlx5_ulp_qid(i % 8, i / 8);
		attr.vector = i;
		peer.vector = i;
		senders[i] = mlx5_ulp_queue_create(pair.src, &attr);
		receivers[i] = mlx5_ulp_queue_create(pair.dst, &peer);
		err = PTR_ERR_OR_ZERO(senders[i]) ?: PTR_ERR_OR_ZERO(receivers[i]) ?:
		      connect(receivers[i], senders[i]) ?: connect(senders[i], receivers[i]);
		if (err)
			err = FAIL("queue %d: %d", i, err);
	}
	for (i = 0; !err && i < QUEUES; i++) {
		struct mlx5_ulp_queue *queue;

		queue = mlx5_ulp_queue_find(pair.src, mlx5_ulp_qid(i % 8, i / 8));
		if (queue != senders[i]) {
			err = FAIL("queue %d is not found", i);
			break;
		}
		sge = pair_sge(&pair, i * sizeof(u64), sizeof(u64));
		write = (struct mlx5_ulp_write) {
			.request = &tally.request,
			.sge = &sge,
			.num_sge = 1,
			.remote_addr = pair_remote(&pair, i * sizeof(u64)),
			.rkey = mlx5_ulp_region_key(pair.to),
		};
		err = EXPECT(mlx5_ulp_post_write(queue, &write), 0);
	}
	err = err ?: tally_wait(&tally, QUEUES, 120) ?:
	      EXPECT(atomic_read(&tally.done), QUEUES) ?:
	      pair_compare(&pair, 0, QUEUES * sizeof(u64));
	for (i = 0; i < QUEUES; i++) {
		if (!IS_ERR_OR_NULL(senders[i]))
			mlx5_ulp_queue_destroy(senders[i]);
		if (!IS_ERR_OR_NULL(receivers[i]))
			mlx5_ulp_queue_destroy(receivers[i]);
	}
	pair_close(&pair);
	vfree(senders);
	vfree(receivers);
	return err;
}
