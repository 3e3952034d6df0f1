// SPDX-License-Identifier: GPL-2.0
/*
 * Connections by rdma_cm, without its structures.
 */
#include <linux/inet.h>
#include <linux/in6.h>
#include <net/net_namespace.h>

#include <mlx5_ulp_cm.h>

#include "shim.h"

/* For the address, and again for the route. */
#define RESOLVE_MS 2000
/* Requests that wait for the decision. */
#define BACKLOG 128

static_assert(MLX5_ULP_BLK_REQUEST_DATA == MLX5_ULP_CM_REQUEST_DATA);
static_assert(MLX5_ULP_BLK_ANSWER_DATA == MLX5_ULP_CM_ANSWER_DATA);

static void lost(void *context, enum mlx5_ulp_conn_event event, int status)
{
	if (event == MLX5_ULP_CONN_CLOSED)
		mlx5_ulp_blk_lost(context);
}

static void served(void *context, enum mlx5_ulp_conn_event event, int status)
{
	if (event == MLX5_ULP_CONN_ESTABLISHED)
		mlx5_ulp_blk_joined(context);
	else if (event == MLX5_ULP_CONN_CLOSED)
		mlx5_ulp_blk_parted(context);
}

static const struct mlx5_ulp_conn_ops lost_ops = { .event = lost };
static const struct mlx5_ulp_conn_ops served_ops = { .event = served };

struct mlx5_ulp_conn *mlx5_ulp_blk_resolve(const char *address, const char *port,
					   void *context)
{
	struct sockaddr_storage peer;
	int err;

	err = inet_pton_with_scope(&init_net, AF_UNSPEC, address, port, &peer);
	if (err)
		return ERR_PTR(err);
	return mlx5_ulp_conn_resolve(&init_net, NULL, (struct sockaddr *)&peer, RESOLVE_MS,
				     &lost_ops, context);
}

int mlx5_ulp_blk_connect(struct mlx5_ulp_conn *conn, struct mlx5_ulp_queue *queue,
			 const void *request, u8 length, void *answer,
			 unsigned int timeout_ms)
{
	const struct mlx5_ulp_conn_data data = { .data = request, .length = length };

	return mlx5_ulp_conn_connect(conn, queue, &data, answer, timeout_ms);
}

void mlx5_ulp_blk_disconnect(struct mlx5_ulp_conn *conn)
{
	mlx5_ulp_conn_disconnect(conn);
}

void mlx5_ulp_blk_destroy(struct mlx5_ulp_conn *conn)
{
	mlx5_ulp_conn_destroy(conn);
}

static int request(void *context, struct mlx5_ulp_conn_request *request)
{
	struct mlx5_ulp_blk_guest guest = {
		.conn = request->conn,
		.data = request->data.data,
		.length = request->data.length,
	};
	int err = mlx5_ulp_blk_request(context, &guest);

	if (err)
		return err;
	request->queue = guest.queue;
	request->ops = &served_ops;
	request->context = guest.context;
	request->answer.data = guest.answer;
	request->answer.length = guest.answer_length;
	return 0;
}

static const struct mlx5_ulp_listen_ops listen_ops = { .request = request };

struct mlx5_ulp_listener *mlx5_ulp_blk_listen(u16 port, void *context)
{
	const struct sockaddr_in6 any = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_ANY_INIT,
	};

	return mlx5_ulp_listen(&init_net, (const struct sockaddr *)&any, BACKLOG, &listen_ops,
			       context);
}

void mlx5_ulp_blk_unlisten(struct mlx5_ulp_listener *listener)
{
	mlx5_ulp_unlisten(listener);
}
