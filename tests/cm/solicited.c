// SPDX-License-Identifier: GPL-2.0
/*
 * A peer of the verbs interface that wants to hear of solicited messages only.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "test.h"

struct listener {
	struct rdma_cm_id *listen, *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct completion heard;
	/* Events, and what was there when they came. */
	int events, messages;
};

static void listener_event(struct ib_cq *cq, void *context)
{
	struct listener *l = context;
	struct ib_wc wc;

	while (ib_poll_cq(cq, 1, &wc) > 0)
		if (wc.status == IB_WC_SUCCESS)
			l->messages++;
	l->events++;
	complete(&l->heard);
}

/* A QP with two receives, of which solicited messages alone make an event. */
static int listener_make(struct listener *l, struct rdma_cm_id *id)
{
	const struct ib_cq_init_attr cq_attr = { .cqe = 8 };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	const struct ib_recv_wr wr = {};
	int err;

	l->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(l->pd))
		return PTR_ERR(l->pd);
	l->cq = ib_create_cq(id->device, listener_event, NULL, l, &cq_attr);
	if (IS_ERR(l->cq)) {
		err = PTR_ERR(l->cq);
		goto no_cq;
	}
	attr.send_cq = l->cq;
	attr.recv_cq = l->cq;
	err = rdma_create_qp(id, l->pd, &attr);
	if (err)
		goto no_qp;
	l->id = id;
	return ib_post_recv(id->qp, &wr, NULL) ?: ib_post_recv(id->qp, &wr, NULL) ?:
	       ib_req_notify_cq(l->cq, IB_CQ_SOLICITED);

no_qp:
	ib_destroy_cq(l->cq);
no_cq:
	ib_dealloc_pd(l->pd);
	return err;
}

static int listener_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct listener *l = id->context;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	int err;

	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		rdma_disconnect(id);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	err = l->id ? -EBUSY : listener_make(l, id) ?: rdma_accept(id, &param);
	/* rdma_cm destroys what it is told to; the QP is to be gone then. */
	return l->id ? 0 : err;
}

static void listener_end(struct listener *l)
{
	if (!IS_ERR_OR_NULL(l->listen))
		rdma_destroy_id(l->listen);
	if (!l->id)
		return;
	rdma_destroy_qp(l->id);
	ib_destroy_cq(l->cq);
	ib_dealloc_pd(l->pd);
	rdma_destroy_id(l->id);
}

/* Sends a message of nothing, which has arrived when this returns. */
static int send(struct side *side, u32 flags)
{
	const struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_SEND, .flags = flags };

	return EXPECT(mlx5_ulp_post(side->queue, &work, 1), 0) ?:
	       EXPECT(mlx5_ulp_queue_drain(side->queue), 0);
}

int test_solicited(void)
{
	struct listener l = {};
	struct side side = {};
	int err;

	init_completion(&l.heard);
	err = listen_to(&l.listen, listener_handler, &l) ?: side_resolve(&side) ?:
	      EXPECT(mlx5_ulp_conn_connect(side.conn, side.queue, NULL, NULL, 0), 0) ?:
	      send(&side, 0) ?: send(&side, MLX5_ULP_SOLICITED);
	if (!err && !wait_for_completion_timeout(&l.heard, PATIENCE * HZ))
		err = FAIL("a solicited message makes no event");
	/* An event of the first would have found that one. */
	err = err ?: EXPECT(l.events, 1) ?: EXPECT(l.messages, 2);
	side_close(&side);
	listener_end(&l);
	return err;
}
