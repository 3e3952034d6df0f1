// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that are refused.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irqflags.h>
#include <linux/string.h>
#include <rdma/ib_cm.h>

#include "test.h"

/* Connects @side; what is said and what is answered, and why it is refused. */
static int connect(struct side *side, u8 *answer, int *reason)
{
	const struct mlx5_ulp_conn_data request = { .data = "knock", .length = 6 };
	int err, status;

	err = side_resolve(side);
	if (err)
		return err;
	status = mlx5_ulp_conn_connect(side->conn, side->queue, &request, answer, 0);
	/* In any context. */
	local_irq_disable();
	*reason = mlx5_ulp_conn_reject_reason(side->conn);
	local_irq_enable();
	/* A queue that was meant for it takes no posts, and no other peer. */
	return EXPECT(status, -ECONNREFUSED) ?:
	       EXPECT(mlx5_ulp_post_write(side->queue, &(struct mlx5_ulp_write) {}), -EPIPE) ?:
	       EXPECT(atomic_read(&side->closed), 0);
}

/* The consumer refuses, with private data; then nobody listens at all. */
int test_refuse(void)
{
	struct server server = { .refuse = true };
	u8 answer[MLX5_ULP_CM_ANSWER_DATA];
	struct side side = {};
	int reason, err;

	err = server_open(&server);
	if (err)
		return err;
	err = connect(&side, answer, &reason) ?:
	      EXPECT(reason, IB_CM_REJ_CONSUMER_DEFINED) ?:
	      EXPECT(memcmp(answer, "go away", 8), 0) ?:
	      EXPECT(memcmp(server.said, "knock", 6), 0) ?:
	      EXPECT(atomic_read(&server.requests), 1);
	side_close(&side);
	server_close(&server);
	err = err ?: connect(&side, answer, &reason) ?:
	      EXPECT(reason, IB_CM_REJ_INVALID_SERVICE_ID);
	side_close(&side);
	return err;
}

/* A port is listened on once; then it is free again. */
int test_listen_twice(void)
{
	struct mlx5_ulp_listener *second;
	struct server server = {};
	int i, err = 0;

	for (i = 0; !err && i < 2; i++) {
		err = server_open(&server);
		if (err)
			return err;
		second = mlx5_ulp_listen(&init_net, (struct sockaddr *)&test_address, 4,
					 &server_ops, &server);
		err = EXPECT(PTR_ERR_OR_ZERO(second), -EADDRINUSE);
		if (!IS_ERR(second))
			mlx5_ulp_unlisten(second);
		server_close(&server);
	}
	return err;
}

/* What is asked for wrongly is refused, and what was there goes on. */
int test_misuse(void)
{
	struct mlx5_ulp_conn_data too_much = { .data = "", .length = MLX5_ULP_CM_REQUEST_DATA + 1 };
	struct sockaddr_storage nowhere = { .ss_family = AF_UNIX };
	struct mlx5_ulp_conn *conn;
	struct side *client;
	struct pair pair;
	int err;

	conn = mlx5_ulp_conn_resolve(&init_net, NULL, (struct sockaddr *)&nowhere, 1000,
				     &side_ops, NULL);
	if (!IS_ERR(conn))
		return FAIL("an address of no network is resolved");
	err = pair_open(&pair);
	if (err)
		return err;
	client = &pair.client;
	err = EXPECT(mlx5_ulp_conn_connect(client->conn, client->queue, &too_much, NULL, 0),
		     -EMSGSIZE) ?:
	      EXPECT(mlx5_ulp_conn_connect(client->conn, client->queue, NULL, NULL, 0), -EINVAL) ?:
	      /* Connected as it is. */
	      EXPECT(mlx5_ulp_queue_connect_verbs(client->queue, &(struct ib_qp_attr) {},
						  IB_QP_STATE), -EINVAL) ?:
	      side_write(client, &pair.memory) ?:
	      EXPECT(mlx5_ulp_queue_drain(client->queue), 0) ?:
	      EXPECT(atomic_read(&client->done), DEPTH);
	pair_close(&pair);
	return err;
}

/* Connections and listeners that were given back already: refused, and nothing is touched. */
int test_stale(void)
{
	struct server server = {};
	struct side side = {};
	struct mlx5_ulp_listener *listener;
	struct mlx5_ulp_conn *conn;
	int err;

	err = server_open(&server);
	if (err)
		return err;
	listener = server.listener;
	conn = resolve(&side);
	server_close(&server);
	if (IS_ERR(conn))
		return FAIL("cannot resolve: %ld", PTR_ERR(conn));
	mlx5_ulp_conn_destroy(conn);

	mlx5_ulp_unlisten(listener);
	mlx5_ulp_conn_disconnect(conn);
	err = EXPECT(mlx5_ulp_conn_connect(conn, NULL, NULL, NULL, 0), -EBADF);
	mlx5_ulp_conn_destroy(conn);
	return err;
}
