/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mlx5_ulp_cm: connects queues of mlx5_ulp through rdma_cm, with any peer.
 *
 * Two ways, which need not be mixed:
 *
 * Consumers with an rdma_cm event handler of their own (NVMe-oF and the like)
 * leave id->qp empty and call three functions at three events:
 *
 *	RDMA_CM_EVENT_ROUTE_RESOLVED	mlx5_ulp_cm_param(), rdma_connect_locked()
 *	RDMA_CM_EVENT_CONNECT_RESPONSE	mlx5_ulp_cm_ready(), rdma_accept(id, NULL)
 *	RDMA_CM_EVENT_CONNECT_REQUEST	mlx5_ulp_cm_param(), mlx5_ulp_cm_ready(),
 *					rdma_accept(id, &param)
 *
 * and, as rdma_cm does not know the queue, mlx5_ulp_queue_disconnect() before
 * rdma_disconnect(), and whenever an event says that the connection has ended.
 *
 * Others take a connection object, which does all that: see <mlx5_ulp_conn.h>, which
 * this file includes and which needs nothing of rdma_cm.
 */
#ifndef MLX5_ULP_CM_H
#define MLX5_ULP_CM_H

#include <mlx5_ulp.h>
#include <mlx5_ulp_conn.h>
#include <rdma/rdma_cm.h>

/**
 * mlx5_ulp_open_cm_id() - take hold of the device of an rdma_cm_id
 * @id: the identifier, bound to a device (its address is resolved, or it came
 *	with a request)
 * @attr: removal notice, or %NULL for none
 *
 * As mlx5_ulp_open(). Beside the removal notice the handler of @id gets
 * %RDMA_CM_EVENT_DEVICE_REMOVAL, sooner or later than the notice.
 *
 * Context: May sleep.
 * Return: as mlx5_ulp_open(); %-ENODEV if @id has no device.
 */
static inline struct mlx5_ulp_device *
mlx5_ulp_open_cm_id(const struct rdma_cm_id *id, const struct mlx5_ulp_open_attr *attr)
{
	return id->device ? mlx5_ulp_open_ibdev(id->device, attr) : ERR_PTR(-ENODEV);
}

/**
 * mlx5_ulp_cm_param() - what to say of a queue when connecting or accepting
 * @queue: the queue
 * @id: the identifier, bound to the device of the queue
 * @offer: when accepting: what came with the request (param.conn of the event);
 *	%NULL when connecting
 * @param: filled in, all of it
 *
 * Sets the number of the QP; the READs and atomics that either side may have
 * under way: the most that the device can do, when accepting no more than what
 * the peer wants to send and can serve; and seven retries, which for a peer
 * without a receive means for ever. The private data is left empty, for the
 * caller to set.
 *
 * Context: Any context.
 */
void mlx5_ulp_cm_param(const struct mlx5_ulp_queue *queue, const struct rdma_cm_id *id,
		       const struct rdma_conn_param *offer, struct rdma_conn_param *param);

/**
 * mlx5_ulp_cm_ready() - connect a queue as an rdma_cm_id says
 * @queue: the queue, not connected yet
 * @id: the identifier
 * @param: when accepting: what rdma_accept() will be called with; %NULL when the
 *	response to a request of ours has come
 *
 * The queue may be posted to when this returns. Who accepts must not do so before
 * %RDMA_CM_EVENT_ESTABLISHED: the peer may not be ready. (It may be, and send,
 * before that event is delivered.)
 *
 * Context: May sleep; from the event handler of @id.
 * Return: 0, %-EINVAL when @id is not at a step of a connection over RoCE v2 on
 * the queue's device, or as mlx5_ulp_queue_connect_verbs().
 */
int mlx5_ulp_cm_ready(struct mlx5_ulp_queue *queue, struct rdma_cm_id *id,
		      const struct rdma_conn_param *param);

#endif /* MLX5_ULP_CM_H */
