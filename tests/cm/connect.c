// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that work.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/string.h>

#include "test.h"

/*
 * One side listens, the other connects; private data goes both ways; what the
 * one writes is at the other. Both hear of the end, and of the end of time-wait.
 */
static int connect_once(struct pair *pair)
{
	struct side *client = &pair->client, *server = &pair->server.side;

	return side_write(client, &pair->memory) ?:
	       EXPECT(mlx5_ulp_queue_drain(client->queue), 0) ?:
	       EXPECT(atomic_read(&client->done), DEPTH) ?:
	       EXPECT(memcmp(client->memory, server->memory, BYTES), 0) ?:
	       EXPECT(atomic_read(&client->closed), 0) ?:
	       EXPECT(atomic_read(&server->closed), 0) ?:
	       (mlx5_ulp_conn_disconnect(client->conn), 0) ?:
	       wait_for("client closed", &client->closed, 1) ?:
	       wait_for("server closed", &server->closed, 1) ?:
	       EXPECT(client->status, 0) ?:
	       EXPECT(server->status, -ECONNRESET);
}

int test_connect(void)
{
	struct pair pair;
	int err;

	err = pair_open(&pair);
	if (err)
		return err;
	err = connect_once(&pair) ?:
	      wait_for("end of time-wait", &pair.client.timewait_exit, 1) ?:
	      wait_for("end of time-wait", &pair.server.side.timewait_exit, 1) ?:
	      EXPECT(mlx5_ulp_conn_reject_reason(pair.client.conn), 0);
	/* Of no use any more, and no harm. */
	mlx5_ulp_conn_disconnect(pair.client.conn);
	err = err ?: EXPECT(side_write(&pair.client, &pair.memory), -EPROTO) ?:
	      EXPECT(atomic_read(&pair.client.closed), 1);
	pair_close(&pair);
	return err;
}

/* Connections one behind the other: numbers of queues come again soon. */
int test_again(void)
{
	struct pair pair;
	int i, err = 0;

	for (i = 0; !err && i < 5; i++) {
		err = pair_open(&pair);
		if (err)
			break;
		err = connect_once(&pair);
		pair_close(&pair);
	}
	return err;
}
