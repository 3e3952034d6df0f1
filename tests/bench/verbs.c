// SPDX-License-Identifier: GPL-2.0
/*
 * Posting and completing by ib_post_send() and ib_poll_cq().
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/percpu.h>
#include <linux/slab.h>

#include "bench.h"
#include "steps.h"
#include "verbs.h"

struct verbs_queue {
	struct bench_queue common;
	struct ib_cq *cq;
	struct ib_qp *sender, *receiver;
	struct ib_cqe done;
};

static struct verbs_device src, dst;
/* Of all receivers, whom nothing completes. */
static struct ib_cq *receivers;

static struct verbs_queue *verbs_queue(struct bench_queue *queue)
{
	return container_of(queue, struct verbs_queue, common);
}

void bench_verbs_close(void)
{
	if (!IS_ERR_OR_NULL(receivers))
		ib_free_cq(receivers);
	receivers = NULL;
	verbs_device_close(&src, DMA_TO_DEVICE);
	verbs_device_close(&dst, DMA_FROM_DEVICE);
}

int bench_verbs_open(void)
{
	int err;

	err = verbs_device_open(&src, bench_src, DMA_TO_DEVICE) ?:
	      verbs_device_open(&dst, bench_dst, DMA_FROM_DEVICE);
	if (err)
		goto fail;
	receivers = ib_alloc_cq(dst.ibdev, NULL, 1, 0, IB_POLL_DIRECT);
	err = PTR_ERR_OR_ZERO(receivers);
	if (err)
		goto fail;
	return 0;

fail:
	bench_verbs_close();
	return err;
}

static void verbs_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct verbs_queue *queue = container_of(wc->wr_cqe, struct verbs_queue, done);

	/* Those before it, which nothing reports, have ended with it. */
	queue->common.ended += queue->common.signal;
	queue->common.status |= wc->status;
}

static void verbs_queue_destroy(struct bench_queue *common)
{
	struct verbs_queue *queue = verbs_queue(common);

	if (!IS_ERR_OR_NULL(queue->sender))
		ib_destroy_qp(queue->sender);
	if (!IS_ERR_OR_NULL(queue->receiver))
		ib_destroy_qp(queue->receiver);
	if (!IS_ERR_OR_NULL(queue->cq))
		ib_free_cq(queue->cq);
	kfree(queue);
}

static struct bench_queue *verbs_create(enum ib_poll_context context)
{
	struct ib_qp_init_attr attr = {
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.cap = {
			.max_send_wr = BENCH_DEPTH,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = BENCH_INLINE,
		},
	};
	struct verbs_queue *queue;
	int err;

	queue = kzalloc_obj(*queue);
	if (!queue)
		return ERR_PTR(-ENOMEM);
	queue->done.done = verbs_done;
	queue->cq = ib_alloc_cq(src.ibdev, queue, BENCH_DEPTH, 0, context);
	err = PTR_ERR_OR_ZERO(queue->cq);
	if (err)
		goto fail;
	attr.send_cq = queue->cq;
	attr.recv_cq = queue->cq;
	queue->sender = ib_create_qp(src.pd, &attr);
	attr.send_cq = receivers;
	attr.recv_cq = receivers;
	attr.cap.max_send_wr = 1;
	attr.cap.max_inline_data = 0;
	queue->receiver = ib_create_qp(dst.pd, &attr);
	err = PTR_ERR_OR_ZERO(queue->sender) ?: PTR_ERR_OR_ZERO(queue->receiver);
	if (err)
		goto fail;
	err = verbs_connect(queue->receiver, &dst, queue->sender, &src) ?:
	      verbs_connect(queue->sender, &src, queue->receiver, &dst);
	if (err)
		goto fail;
	return &queue->common;

fail:
	verbs_queue_destroy(&queue->common);
	return ERR_PTR(err);
}

static struct bench_queue *verbs_queue_create(void)
{
	return verbs_create(IB_POLL_DIRECT);
}

static struct bench_queue *verbs_events_queue_create(void)
{
	return verbs_create(IB_POLL_SOFTIRQ);
}

/* What a poster hands over at a time: too much for the stack. Each poster is bound to its CPU. */
struct verbs_chain {
	struct ib_rdma_wr wrs[BENCH_CHAIN];
	struct ib_sge sges[BENCH_CHAIN];
};

static DEFINE_PER_CPU(struct verbs_chain, verbs_chain);

static int verbs_post(struct bench_queue *common, const struct bench_write *writes,
		      unsigned int count)
{
	struct verbs_queue *queue = verbs_queue(common);
	struct verbs_chain *chain = this_cpu_ptr(&verbs_chain);
	struct ib_rdma_wr *wrs = chain->wrs;
	struct ib_sge *sges = chain->sges;
	unsigned int i;
	u32 ticks;
	int err;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ib_sge) {
			.addr = writes[i].inlined ? (u64)(uintptr_t)src.memory + writes[i].offset :
						    src.address + writes[i].offset,
			.length = writes[i].length,
			.lkey = src.pd->local_dma_lkey,
		};
		wrs[i] = (struct ib_rdma_wr) {
			.wr = {
				.next = i + 1 < count ? &wrs[i + 1].wr : NULL,
				.wr_cqe = &queue->done,
				.sg_list = &sges[i],
				.num_sge = 1,
				.opcode = IB_WR_RDMA_WRITE,
				.send_flags = (writes[i].inlined ? IB_SEND_INLINE : 0) |
					      (writes[i].signaled ? IB_SEND_SIGNALED : 0),
			},
			.remote_addr = dst.address + writes[i].offset,
			.rkey = dst.pd->unsafe_global_rkey,
		};
	}
	ticks = MEASURE(err = ib_post_send(queue->sender, &wrs[0].wr, NULL));
	return err ?: (int)ticks;
}

/* As the RDMA core does for consumers who do not poll themselves. */
static __always_inline void verbs_dispatch(struct ib_cq *cq, struct ib_wc *wcs, int n)
{
	int i;

	for (i = 0; i < n; i++)
		wcs[i].wr_cqe->done(cq, &wcs[i]);
}

static struct bench_polled verbs_poll(struct bench_queue *common, unsigned int budget)
{
	struct verbs_queue *queue = verbs_queue(common);
	static struct ib_wc wcs[BENCH_DEPTH];
	struct bench_polled polled;
	int n;

	polled.ticks = MEASURE(n = ib_poll_cq(queue->cq, budget, wcs));
	polled.dispatch = MEASURE(verbs_dispatch(queue->cq, wcs, n));
	return polled;
}

const struct bench_interface bench_verbs = {
	.name = "mlx5_ib",
	.queue_create = verbs_queue_create,
	.queue_destroy = verbs_queue_destroy,
	.post = verbs_post,
	.poll = verbs_poll,
};

const struct bench_interface bench_verbs_events = {
	.name = "mlx5_ib_events",
	.queue_create = verbs_events_queue_create,
	.queue_destroy = verbs_queue_destroy,
	.post = verbs_post,
};
