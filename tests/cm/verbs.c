// SPDX-License-Identifier: GPL-2.0
/*
 * A peer of the verbs interface: a QP of mlx5_ib that rdma_cm makes and moves, as
 * kernel consumers have them. It knows nothing of mlx5_ulp.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "test.h"

struct verbs {
	struct rdma_cm_id *listen, *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	u8 *bytes;
	u64 dma;
	/* What it tells of its memory, and what it was told of that of its peer. */
	struct memory memory, told;
	struct ib_cqe cqe;
	struct completion written;
	enum ib_wc_status status;
	/* Result of the last step of connecting. */
	struct completion step;
	int result;
	atomic_t established, disconnected;
};

static void verbs_written(struct ib_cq *cq, struct ib_wc *wc)
{
	struct verbs *verbs = container_of(wc->wr_cqe, struct verbs, cqe);

	verbs->status = wc->status;
	complete(&verbs->written);
}

/* The objects that a consumer of verbs needs, on the device of @id. */
static int verbs_make(struct verbs *verbs, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int err;

	/* To all memory: this is a test. */
	verbs->pd = ib_alloc_pd(id->device, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(verbs->pd))
		return PTR_ERR(verbs->pd);
	verbs->cq = ib_alloc_cq_any(id->device, NULL, 8, IB_POLL_SOFTIRQ);
	if (IS_ERR(verbs->cq)) {
		err = PTR_ERR(verbs->cq);
		goto no_cq;
	}
	verbs->bytes = kzalloc(BYTES, GFP_KERNEL);
	if (!verbs->bytes) {
		err = -ENOMEM;
		goto no_memory;
	}
	verbs->dma = ib_dma_map_single(id->device, verbs->bytes, BYTES, DMA_BIDIRECTIONAL);
	err = ib_dma_mapping_error(id->device, verbs->dma);
	if (err)
		goto no_mapping;
	attr.send_cq = verbs->cq;
	attr.recv_cq = verbs->cq;
	err = rdma_create_qp(id, verbs->pd, &attr);
	if (err)
		goto no_qp;
	verbs->id = id;
	verbs->memory.address = cpu_to_be64(verbs->dma);
	verbs->memory.key = cpu_to_be32(verbs->pd->unsafe_global_rkey);
	verbs->memory.bytes = cpu_to_be32(BYTES);
	return 0;

no_qp:
	ib_dma_unmap_single(id->device, verbs->dma, BYTES, DMA_BIDIRECTIONAL);
no_mapping:
	kfree(verbs->bytes);
no_memory:
	ib_free_cq(verbs->cq);
no_cq:
	ib_dealloc_pd(verbs->pd);
	return err;
}

static void verbs_end(struct verbs *verbs)
{
	if (!IS_ERR_OR_NULL(verbs->listen))
		rdma_destroy_id(verbs->listen);
	if (!verbs->id)
		return;
	rdma_destroy_qp(verbs->id);
	ib_dma_unmap_single(verbs->id->device, verbs->dma, BYTES, DMA_BIDIRECTIONAL);
	kfree(verbs->bytes);
	ib_free_cq(verbs->cq);
	ib_dealloc_pd(verbs->pd);
	rdma_destroy_id(verbs->id);
}

static int verbs_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct verbs *verbs = id->context;
	struct rdma_conn_param param = {
		.private_data = &verbs->memory,
		.private_data_len = sizeof(verbs->memory),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	int err;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (verbs->id)
			return -EBUSY;
		err = verbs_make(verbs, id) ?: rdma_accept(id, &param);
		/* rdma_cm destroys what it is told to; the QP is to be gone then. */
		if (err && verbs->id)
			return 0;
		return err;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		verbs->result = rdma_resolve_route(id, 10 * MSEC_PER_SEC);
		if (verbs->result)
			complete(&verbs->step);
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		verbs->result = verbs_make(verbs, id) ?: rdma_connect_locked(id, &param);
		if (verbs->result)
			complete(&verbs->step);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (event->param.conn.private_data)
			memcpy(&verbs->told, event->param.conn.private_data, sizeof(verbs->told));
		atomic_inc(&verbs->established);
		complete(&verbs->step);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		atomic_inc(&verbs->disconnected);
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	default:
		verbs->result = -EPROTO;
		complete(&verbs->step);
		return 0;
	}
}

static void verbs_init(struct verbs *verbs)
{
	memset(verbs, 0, sizeof(*verbs));
	verbs->cqe.done = verbs_written;
	init_completion(&verbs->written);
	init_completion(&verbs->step);
}

/* We connect to it, write to its memory, and leave. */
int test_to_verbs(void)
{
	const struct mlx5_ulp_conn_data request = { .data = "hello", .length = 6 };
	u8 answer[MLX5_ULP_CM_ANSWER_DATA];
	struct side side = {};
	struct memory to;
	struct verbs verbs;
	int err;

	verbs_init(&verbs);
	err = listen_to(&verbs.listen, verbs_handler, &verbs) ?: side_resolve(&side) ?:
	      EXPECT(mlx5_ulp_conn_connect(side.conn, side.queue, &request, answer, 0), 0);
	if (!err) {
		memcpy(&to, answer, sizeof(to));
		err = side_write(&side, &to) ?:
		      EXPECT(mlx5_ulp_queue_drain(side.queue), 0) ?:
		      EXPECT(atomic_read(&side.done), DEPTH) ?:
		      EXPECT(memcmp(side.memory, verbs.bytes, BYTES), 0) ?:
		      (mlx5_ulp_conn_disconnect(side.conn), 0) ?:
		      wait_for("closed", &side.closed, 1) ?:
		      EXPECT(side.status, 0) ?:
		      wait_for("disconnected", &verbs.disconnected, 1);
	}
	side_close(&side);
	verbs_end(&verbs);
	return err;
}

/* It writes its memory to the server's. */
static int verbs_write(struct verbs *verbs)
{
	struct ib_sge sge = {
		.addr = verbs->dma,
		.length = BYTES,
		.lkey = verbs->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &verbs->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = be64_to_cpu(verbs->told.address),
		.rkey = be32_to_cpu(verbs->told.key),
	};
	int err;

	err = EXPECT(ib_post_send(verbs->id->qp, &wr.wr, NULL), 0);
	if (!err && !wait_for_completion_timeout(&verbs->written, PATIENCE * HZ))
		err = FAIL("a WRITE of verbs does not end");
	return err ?: EXPECT(verbs->status, IB_WC_SUCCESS);
}

/* It connects to us, writes to our memory, and we leave. */
int test_from_verbs(void)
{
	struct server server = {};
	struct rdma_cm_id *id;
	struct verbs verbs;
	int err;

	err = server_open(&server);
	if (err)
		return err;
	verbs_init(&verbs);
	id = rdma_create_id(&init_net, verbs_handler, &verbs, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id)) {
		server_close(&server);
		return PTR_ERR(id);
	}
	err = EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&test_address,
				       10 * MSEC_PER_SEC), 0);
	if (!err && !wait_for_completion_timeout(&verbs.step, PATIENCE * HZ))
		err = FAIL("verbs do not connect");
	err = err ?: EXPECT(verbs.result, 0) ?:
	      EXPECT(atomic_read(&verbs.established), 1) ?:
	      wait_for("established", &server.side.established, 1);
	if (!err) {
		memset(verbs.bytes, 0x5a, BYTES);
		err = verbs_write(&verbs) ?:
		      EXPECT(memcmp(verbs.bytes, server.side.memory, BYTES), 0) ?:
		      (mlx5_ulp_conn_disconnect(server.side.conn), 0) ?:
		      wait_for("closed", &server.side.closed, 1) ?:
		      EXPECT(server.side.status, 0) ?:
		      wait_for("disconnected", &verbs.disconnected, 1);
	}
	if (!verbs.id)
		rdma_destroy_id(id);
	verbs_end(&verbs);
	server_close(&server);
	return err;
}
