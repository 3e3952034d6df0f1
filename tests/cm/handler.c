// SPDX-License-Identifier: GPL-2.0
/*
 * Consumers with an rdma_cm event handler of their own, at both ends: what they call
 * at which event.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/string.h>

#include "test.h"

struct handler {
	struct rdma_cm_id *listen, *id;
	struct side side;
	/* What it tells of its memory, and what it was told of that of its peer. */
	struct memory memory, told;
	/* The end of connecting, and its result. */
	struct completion step;
	int result;
};

static int handler_connect(struct handler *handler, struct rdma_cm_id *id)
{
	struct rdma_conn_param param;

	mlx5_ulp_cm_param(handler->side.queue, id, NULL, &param);
	/* Nobody has answered yet. */
	return EXPECT(mlx5_ulp_cm_ready(handler->side.queue, id, NULL), -EINVAL) ?:
	       rdma_connect_locked(id, &param);
}

static int handler_accept(struct handler *handler, struct rdma_cm_id *id,
			  const struct rdma_conn_param *offer)
{
	struct side *side = &handler->side;
	struct rdma_conn_param param;
	int err;

	if (handler->id)
		return -EBUSY;
	err = side_open_on(side, mlx5_ulp_open_cm_id(id, NULL));
	if (err)
		return err;
	side_offer(side, &handler->memory);
	mlx5_ulp_cm_param(side->queue, id, offer, &param);
	param.private_data = &handler->memory;
	param.private_data_len = sizeof(handler->memory);
	err = mlx5_ulp_cm_ready(side->queue, id, &param) ?: rdma_accept(id, &param);
	/* If it fails, rdma_cm destroys it, and the peer hears of that. */
	if (!err)
		handler->id = id;
	return err;
}

static int handler_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct handler *handler = id->context;
	struct side *side = &handler->side;
	int err;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return handler_accept(handler, id, &event->param.conn);
	case RDMA_CM_EVENT_ESTABLISHED:
		atomic_inc(&side->established);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		mlx5_ulp_queue_disconnect(side->queue);
		rdma_disconnect(id);
		atomic_inc(&side->closed);
		return 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = side_open_on(side, mlx5_ulp_open_cm_id(id, NULL)) ?:
		      rdma_resolve_route(id, 10 * MSEC_PER_SEC);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = handler_connect(handler, id);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		memcpy(&handler->told, event->param.conn.private_data, sizeof(handler->told));
		err = mlx5_ulp_cm_ready(side->queue, id, NULL) ?: rdma_accept(id, NULL);
		break;
	default:
		err = FAIL("event %d, status %d", event->event, event->status);
	}
	if (err || event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		handler->result = err;
		complete(&handler->step);
	}
	return 0;
}

static void handler_end(struct handler *handler)
{
	if (!IS_ERR_OR_NULL(handler->listen))
		rdma_destroy_id(handler->listen);
	if (!IS_ERR_OR_NULL(handler->id))
		rdma_destroy_id(handler->id);
	side_close(&handler->side);
}

int test_handler(void)
{
	struct sockaddr *address = (struct sockaddr *)&test_address;
	struct handler server = {}, client = {};
	struct side *side = &client.side;
	int err;

	init_completion(&server.step);
	init_completion(&client.step);
	client.id = rdma_create_id(&init_net, handler_event, &client, RDMA_PS_TCP, IB_QPT_RC);
	err = EXPECT(PTR_ERR_OR_ZERO(client.id), 0) ?:
	      listen_to(&server.listen, handler_event, &server) ?:
	      EXPECT(PTR_ERR(mlx5_ulp_open_cm_id(client.id, NULL)), -ENODEV) ?:
	      EXPECT(rdma_resolve_addr(client.id, NULL, address, 10 * MSEC_PER_SEC), 0);
	if (!err) {
		wait_for_completion(&client.step);
		err = EXPECT(client.result, 0) ?:
		      wait_for("established", &server.side.established, 1);
	}
	err = err ?: side_write(side, &client.told) ?:
	      EXPECT(mlx5_ulp_queue_drain(side->queue), 0) ?:
	      EXPECT(atomic_read(&side->done), DEPTH) ?:
	      EXPECT(memcmp(side->memory, server.side.memory, BYTES), 0) ?:
	      EXPECT(mlx5_ulp_queue_disconnect(side->queue), 0) ?:
	      EXPECT(rdma_disconnect(client.id), 0) ?:
	      wait_for("the peer has left", &server.side.closed, 1);
	handler_end(&client);
	handler_end(&server);
	return err;
}
