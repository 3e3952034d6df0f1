// SPDX-License-Identifier: GPL-2.0
/*
 * Posting and completing by <mlx5_ulp.h>.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <mlx5_ulp.h>

#include "bench.h"
#include "steps.h"

struct ulp_queue {
	struct bench_queue common;
	struct mlx5_ulp_queue *sender, *receiver;
	struct mlx5_ulp_request request;
	/* Its name, if it has one. */
	u32 qid;
};

static struct ulp_queue *ulp_queue(struct bench_queue *queue)
{
	return container_of(queue, struct ulp_queue, common);
}

static struct mlx5_ulp_device *src, *dst;
static struct mlx5_ulp_region *from, *to;
static void *from_memory, *to_memory;

void bench_ulp_close(void)
{
	if (!IS_ERR_OR_NULL(from))
		mlx5_ulp_region_destroy(from);
	if (!IS_ERR_OR_NULL(to))
		mlx5_ulp_region_destroy(to);
	if (!IS_ERR_OR_NULL(src))
		mlx5_ulp_close(src);
	if (!IS_ERR_OR_NULL(dst))
		mlx5_ulp_close(dst);
	vfree(from_memory);
	vfree(to_memory);
	from = NULL;
	to = NULL;
	src = NULL;
	dst = NULL;
	from_memory = NULL;
	to_memory = NULL;
}

int bench_ulp_open(void)
{
	int err;

	from_memory = vzalloc(BENCH_MEMORY);
	to_memory = vzalloc(BENCH_MEMORY);
	if (!from_memory || !to_memory) {
		bench_ulp_close();
		return -ENOMEM;
	}
	src = mlx5_ulp_open(bench_src, NULL);
	dst = mlx5_ulp_open(bench_dst, NULL);
	err = PTR_ERR_OR_ZERO(src) ?: PTR_ERR_OR_ZERO(dst);
	if (err) {
		bench_ulp_close();
		return err;
	}
	from = mlx5_ulp_region_create(src, from_memory, BENCH_MEMORY, MLX5_ULP_ACCESS_LOCAL);
	to = mlx5_ulp_region_create(dst, to_memory, BENCH_MEMORY, MLX5_ULP_ACCESS_REMOTE_WRITE);
	err = PTR_ERR_OR_ZERO(from) ?: PTR_ERR_OR_ZERO(to);
	if (err)
		bench_ulp_close();
	return err;
}

static void ulp_done(struct mlx5_ulp_request *request,
		     const struct mlx5_ulp_completion *completion)
{
	struct ulp_queue *queue = container_of(request, struct ulp_queue, request);

	queue->common.ended++;
	queue->common.status |= completion->status;
}

static void ulp_queue_destroy(struct bench_queue *common)
{
	struct ulp_queue *queue = ulp_queue(common);

	if (!IS_ERR_OR_NULL(queue->sender))
		mlx5_ulp_queue_destroy(queue->sender);
	if (!IS_ERR_OR_NULL(queue->receiver))
		mlx5_ulp_queue_destroy(queue->receiver);
	kfree(queue);
}

static int ulp_connect(struct mlx5_ulp_queue *queue, struct mlx5_ulp_queue *peer)
{
	const struct mlx5_ulp_connect_attr attr = {
		.gid_index = MLX5_ULP_GID_AUTO,
		.timeout = BENCH_TIMEOUT,
	};
	struct mlx5_ulp_address address;

	return mlx5_ulp_queue_address(peer, MLX5_ULP_GID_AUTO, &address) ?:
	       mlx5_ulp_queue_connect(queue, &address, &attr);
}

static struct bench_queue *ulp_create(u32 flags)
{
	/* Consumers name their queues one behind the other. */
	static u32 named;
	const struct mlx5_ulp_queue_attr sender = {
		.depth = BENCH_DEPTH,
		.max_inline = BENCH_INLINE,
		.flags = flags,
		.qid = flags & MLX5_ULP_QUEUE_NAMED ? mlx5_ulp_qid(0, named++) : 0,
	};
	const struct mlx5_ulp_queue_attr receiver = {
		.depth = 1,
		.access = MLX5_ULP_ACCESS_REMOTE_WRITE,
	};
	struct ulp_queue *queue;
	int err;

	queue = kzalloc_obj(*queue);
	if (!queue)
		return ERR_PTR(-ENOMEM);
	queue->request.done = ulp_done;
	queue->qid = sender.qid;
	queue->sender = mlx5_ulp_queue_create(src, &sender);
	queue->receiver = mlx5_ulp_queue_create(dst, &receiver);
	err = PTR_ERR_OR_ZERO(queue->sender) ?: PTR_ERR_OR_ZERO(queue->receiver);
	if (!err)
		err = ulp_connect(queue->receiver, queue->sender) ?:
		      ulp_connect(queue->sender, queue->receiver);
	if (err) {
		ulp_queue_destroy(&queue->common);
		return ERR_PTR(err);
	}
	return &queue->common;
}

static struct bench_queue *ulp_queue_create(void)
{
	return ulp_create(MLX5_ULP_QUEUE_POLLED);
}

static struct bench_queue *ulp_events_queue_create(void)
{
	return ulp_create(MLX5_ULP_QUEUE_SHARED);
}

static struct bench_queue *ulp_exclusive_queue_create(void)
{
	return ulp_create(MLX5_ULP_QUEUE_EXCLUSIVE | MLX5_ULP_QUEUE_POLLED);
}

static struct bench_queue *ulp_named_queue_create(void)
{
	return ulp_create(MLX5_ULP_QUEUE_NAMED);
}

/* What a consumer hands in, made of @writes. */
struct ulp_chain {
	struct mlx5_ulp_write writes[BENCH_CHAIN];
	struct mlx5_ulp_sge sges[BENCH_CHAIN];
};

static __always_inline void ulp_prepare(struct ulp_queue *queue, struct ulp_chain *chain,
					const struct bench_write *writes, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		chain->sges[i] = (struct mlx5_ulp_sge) {
			.addr = (u64)(uintptr_t)from_memory + writes[i].offset,
			.length = writes[i].length,
			.lkey = mlx5_ulp_region_key(from),
		};
		chain->writes[i] = (struct mlx5_ulp_write) {
			.request = &queue->request,
			.sge = &chain->sges[i],
			.num_sge = 1,
			.flags = (writes[i].inlined ? MLX5_ULP_INLINE : 0) |
				 (writes[i].signaled ? 0 : MLX5_ULP_UNSIGNALED),
			.remote_addr = (u64)(uintptr_t)to_memory + writes[i].offset,
			.rkey = mlx5_ulp_region_key(to),
		};
	}
}

static int ulp_post(struct bench_queue *common, const struct bench_write *writes,
		    unsigned int count)
{
	struct ulp_queue *queue = ulp_queue(common);
	struct ulp_chain chain;
	u32 ticks;
	int err;

	ulp_prepare(queue, &chain, writes, count);
	if (count == 1)
		ticks = MEASURE(err = mlx5_ulp_post_write(queue->sender, chain.writes));
	else
		ticks = MEASURE(err = mlx5_ulp_post_writes(queue->sender, chain.writes, count));
	return err ?: (int)ticks;
}

static int ulp_exclusive_post(struct bench_queue *common, const struct bench_write *writes,
			      unsigned int count)
{
	struct ulp_queue *queue = ulp_queue(common);
	struct mlx5_ulp_exclusive *exclusive = mlx5_ulp_queue_exclusive(queue->sender);
	struct ulp_chain chain;
	u32 ticks;
	int err;

	ulp_prepare(queue, &chain, writes, count);
	ticks = MEASURE(err = mlx5_ulp_exclusive_post_writes(exclusive, chain.writes, count));
	return err ?: (int)ticks;
}

static struct bench_polled ulp_poll(struct bench_queue *common, unsigned int budget)
{
	struct ulp_queue *queue = ulp_queue(common);
	struct bench_polled polled = {};

	polled.ticks = MEASURE(mlx5_ulp_poll(queue->sender, budget));
	return polled;
}

/* Finds a queue by its name, in place of a post. */
static int ulp_find(struct bench_queue *common, const struct bench_write *writes,
		    unsigned int count)
{
	struct ulp_queue *queue = ulp_queue(common);
	struct mlx5_ulp_device *dev = src;
	struct mlx5_ulp_queue *found;
	u32 qid = queue->qid;
	u32 ticks;

	rcu_read_lock();
	/* Who looks it up has both at hand. */
	asm volatile ("" : "+D" (dev), "+S" (qid));
	ticks = MEASURE(found = mlx5_ulp_queue_find(dev, qid));
	rcu_read_unlock();
	common->ended += count;
	return found == queue->sender ? (int)ticks : -ENOENT;
}

const struct bench_interface bench_ulp = {
	.name = "mlx5_ulp",
	.queue_create = ulp_queue_create,
	.queue_destroy = ulp_queue_destroy,
	.post = ulp_post,
	.poll = ulp_poll,
};

const struct bench_interface bench_ulp_exclusive = {
	.name = "mlx5_ulp_exclusive",
	.one_poster = true,
	.queue_create = ulp_exclusive_queue_create,
	.queue_destroy = ulp_queue_destroy,
	.post = ulp_exclusive_post,
	.poll = ulp_poll,
};

const struct bench_interface bench_ulp_events = {
	.name = "mlx5_ulp_events",
	.queue_create = ulp_events_queue_create,
	.queue_destroy = ulp_queue_destroy,
	.post = ulp_post,
};

const struct bench_interface bench_ulp_find = {
	.name = "mlx5_ulp_find",
	.queue_create = ulp_named_queue_create,
	.queue_destroy = ulp_queue_destroy,
	.post = ulp_find,
};
