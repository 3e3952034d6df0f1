// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "test.h"

/* What may be done at the destination. */
enum {
	PEER_ACCESS = MLX5_ULP_ACCESS_REMOTE_WRITE | MLX5_ULP_ACCESS_REMOTE_READ |
		      MLX5_ULP_ACCESS_REMOTE_ATOMIC
};

/*
 * Opens both devices, registers @bytes of random memory at the source and of
 * zeroes at the destination, and makes the queues; @attr is for the sender.
 */
int pair_open(struct pair *pair, size_t bytes, const struct mlx5_ulp_queue_attr *attr)
{
	struct mlx5_ulp_queue_attr receiver = {
		.depth = 4,
		.flags = MLX5_ULP_QUEUE_REGISTERS,
		.access = PEER_ACCESS,
		.max_recv_depth = PAIR_RECEIVES,
		.max_recv_sge = PAIR_RECEIVE_RANGES,
	};
	int err = -ENOMEM;

	memset(pair, 0, sizeof(*pair));
	pair->bytes = bytes;
	pair->from_memory = vmalloc(bytes);
	pair->to_memory = vzalloc(bytes);
	if (!pair->from_memory || !pair->to_memory)
		goto fail;
	get_random_bytes(pair->from_memory, bytes);

	pair->src = mlx5_ulp_open(test_src, NULL);
	pair->dst = mlx5_ulp_open(test_dst, NULL);
	err = PTR_ERR_OR_ZERO(pair->src) ?: PTR_ERR_OR_ZERO(pair->dst);
	if (err)
		goto fail;

	pair->from = mlx5_ulp_region_create(pair->src, pair->from_memory, bytes,
					    MLX5_ULP_ACCESS_LOCAL_WRITE);
	pair->to = mlx5_ulp_region_create(pair->dst, pair->to_memory, bytes, PEER_ACCESS);
	pair->sender = mlx5_ulp_queue_create(pair->src, attr);
	pair->receiver = mlx5_ulp_queue_create(pair->dst, &receiver);
	err = PTR_ERR_OR_ZERO(pair->from) ?: PTR_ERR_OR_ZERO(pair->to) ?:
	      PTR_ERR_OR_ZERO(pair->sender) ?: PTR_ERR_OR_ZERO(pair->receiver);
	if (err)
		goto fail;
	return 0;

fail:
	pair_close(pair);
	return FAIL("a pair cannot be opened: %d", err);
}

void pair_close(struct pair *pair)
{
	if (!IS_ERR_OR_NULL(pair->sender))
		mlx5_ulp_queue_destroy(pair->sender);
	if (!IS_ERR_OR_NULL(pair->receiver))
		mlx5_ulp_queue_destroy(pair->receiver);
	if (!IS_ERR_OR_NULL(pair->from))
		mlx5_ulp_region_destroy(pair->from);
	if (!IS_ERR_OR_NULL(pair->to))
		mlx5_ulp_region_destroy(pair->to);
	if (!IS_ERR_OR_NULL(pair->src))
		mlx5_ulp_close(pair->src);
	if (!IS_ERR_OR_NULL(pair->dst))
		mlx5_ulp_close(pair->dst);
	vfree(pair->from_memory);
	vfree(pair->to_memory);
	memset(pair, 0, sizeof(*pair));
}

/* Connects @queue to @peer. */
static int pair_connect_to(struct mlx5_ulp_queue *queue, struct mlx5_ulp_queue *peer,
			   const struct mlx5_ulp_connect_attr *attr)
{
	struct mlx5_ulp_address address;
	int err;

	err = mlx5_ulp_queue_address(peer, MLX5_ULP_GID_AUTO, &address);
	if (err)
		return FAIL("no address: %d", err);
	err = mlx5_ulp_queue_connect(queue, &address, attr);
	if (err)
		return FAIL("cannot connect: %d", err);
	return 0;
}

int pair_connect_sender(struct pair *pair, const struct mlx5_ulp_connect_attr *attr)
{
	return pair_connect_to(pair->sender, pair->receiver, attr);
}

/* For a peer that does not answer: it is asked again after 4 s, so nothing completes. */
int pair_connect_sender_patiently(struct pair *pair)
{
	const struct mlx5_ulp_connect_attr attr = {
		.gid_index = MLX5_ULP_GID_AUTO,
		.timeout = 20,
	};

	return pair_connect_sender(pair, &attr);
}

int pair_connect_receiver(struct pair *pair)
{
	return pair_connect_to(pair->receiver, pair->sender, NULL);
}

int pair_connect(struct pair *pair)
{
	return pair_connect_receiver(pair) ?: pair_connect_sender(pair, NULL);
}

/* A range of the destination, for receives. */
struct mlx5_ulp_sge pair_room(const struct pair *pair, size_t offset, u32 length)
{
	return (struct mlx5_ulp_sge) {
		.addr = pair_remote(pair, offset),
		.length = length,
		.lkey = mlx5_ulp_region_key(pair->to),
	};
}

/* A range of the source. */
struct mlx5_ulp_sge pair_sge(const struct pair *pair, size_t offset, u32 length)
{
	return (struct mlx5_ulp_sge) {
		.addr = (u64)(uintptr_t)pair->from_memory + offset,
		.length = length,
		.lkey = mlx5_ulp_region_key(pair->from),
	};
}

/* An address of the destination. */
u64 pair_remote(const struct pair *pair, size_t offset)
{
	return (u64)(uintptr_t)pair->to_memory + offset;
}

struct mlx5_ulp_write pair_write(const struct pair *pair, struct tally *tally,
				 struct mlx5_ulp_sge *sge, size_t offset, u32 length)
{
	*sge = pair_sge(pair, offset, length);
	return (struct mlx5_ulp_write) {
		.request = &tally->request,
		.sge = sge,
		.num_sge = 1,
		.remote_addr = pair_remote(pair, offset),
		.rkey = mlx5_ulp_region_key(pair->to),
	};
}

/* Whether a range has arrived. */
int pair_compare(const struct pair *pair, size_t offset, size_t length)
{
	size_t i;

	for (i = offset; i < offset + length; i++)
		if (READ_ONCE(pair->to_memory[i]) != pair->from_memory[i])
			return FAIL("byte %zu of the destination is %#x, should be %#x",
				    i, pair->to_memory[i], pair->from_memory[i]);
	return 0;
}

static void tally_done(struct mlx5_ulp_request *request,
		       const struct mlx5_ulp_completion *completion)
{
	struct tally *tally = container_of(request, struct tally, request);

	if (!completion->status) {
		atomic_inc(&tally->done);
	} else if (completion->status == -ECANCELED) {
		atomic_inc(&tally->flushed);
	} else {
		if (atomic_inc_return(&tally->failed) == 1) {
			tally->first_status = completion->status;
			tally->first_syndrome = completion->syndrome;
		}
	}
	/* Last: who sees it may read the rest. */
	atomic_inc_return_release(&tally->ended);
}

void tally_init(struct tally *tally)
{
	memset(tally, 0, sizeof(*tally));
	tally->request.done = tally_done;
}

int tally_wait(struct tally *tally, int count, int seconds)
{
	unsigned long end = jiffies + seconds * HZ;

	while (atomic_read_acquire(&tally->ended) < count) {
		if (time_after(jiffies, end))
			return FAIL("%d of %d requests have ended after %d s",
				    atomic_read(&tally->ended), count, seconds);
		fsleep(500);
	}
	return 0;
}

int post_with_room(struct mlx5_ulp_queue *queue, const struct mlx5_ulp_write *writes,
		   unsigned int count)
{
	unsigned long end = jiffies + 60 * HZ;
	int err;

	while ((err = mlx5_ulp_post_writes(queue, writes, count)) == -EAGAIN) {
		if (time_after(jiffies, end))
			return FAIL("the queue is full for a minute");
		fsleep(100);
	}
	return err;
}

int post_patiently(struct mlx5_ulp_queue *queue, const struct mlx5_ulp_write *writes,
		   unsigned int count)
{
	int err = post_with_room(queue, writes, count);

	return err ? FAIL("a post is refused: %d", err) : 0;
}
