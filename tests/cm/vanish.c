// SPDX-License-Identifier: GPL-2.0
/*
 * Peers that are not there any more, and say nothing; addresses that are elsewhere.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>

#include "test.h"

/* Writes until a request is not answered. It fails, and takes those behind it with it. */
static int write_until_unanswered(struct pair *pair)
{
	struct side *client = &pair->client;
	int failed = 0, err = 0;

	while (!err && !failed) {
		fsleep(20 * USEC_PER_MSEC);
		err = side_write(client, &pair->memory) ?:
		      EXPECT(mlx5_ulp_queue_drain(client->queue), 0);
		failed = atomic_read(&client->ended) - atomic_read(&client->done);
	}
	return err ?: EXPECT(client->failure, -ETIMEDOUT) ?:
	       EXPECT(failed - atomic_read(&client->flushed), 1);
}

/*
 * A request is answered, and neither is the answer: both ends give up by themselves, as
 * does @leaver, whose peer does not answer that it leaves.
 */
static int unanswered(struct server *server, struct side *client, struct side *leaver)
{
	struct mlx5_ulp_write nothing = {};
	struct connecting connecting;
	int err, status;

	err = server_open(server) ?: side_resolve(client);
	if (err)
		return err;
	connect_begin(&connecting, client);
	err = wait_for("requests", &server->requests, 1);
	mlx5_ulp_conn_disconnect(leaver->conn);
	status = connect_end(&connecting);
	return err ?: EXPECT(status, -ETIMEDOUT) ?:
	       EXPECT(mlx5_ulp_conn_reject_reason(client->conn), 0) ?:
	       EXPECT(atomic_read(&client->closed), 0) ?:
	       EXPECT(mlx5_ulp_post_write(client->queue, &nothing), -EPIPE) ?:
	       wait_for("accepted closed", &server->side.closed, 1) ?:
	       EXPECT(server->side.status, -ETIMEDOUT) ?:
	       EXPECT(atomic_read(&server->side.established), 0) ?:
	       EXPECT(mlx5_ulp_post_write(server->side.queue, &nothing), -EPIPE) ?:
	       wait_for("leaver closed", &leaver->closed, 1) ?:
	       EXPECT(leaver->status, 0);
}

/*
 * To be run while somebody sees to it, once the log says so, that of the messages of the
 * connection manager the first arrives and no other, and nothing of the queue whose number
 * is in the log.
 */
int test_vanish(void)
{
	struct server server = {};
	struct side side = {};
	struct pair pair;
	int err;

	err = pair_open(&pair);
	if (err)
		return err;
	mlx5_ulp_unlisten(pair.server.listener);
	pair.server.listener = NULL;
	pr_info("vanish: connected to queue %u\n", mlx5_ulp_queue_qpn(pair.server.side.queue));
	err = write_until_unanswered(&pair) ?:
	      /* That is for the consumer to see: no event says it. */
	      EXPECT(atomic_read(&pair.client.closed), 0) ?:
	      unanswered(&server, &side, &pair.client) ?:
	      EXPECT(atomic_read(&pair.server.side.closed), 0);
	side_close(&side);
	server_close(&server);
	pair_close(&pair);
	return err;
}

/*
 * To be run while somebody, once the log says so, gives the address of the server to
 * another machine.
 */
int test_moved(void)
{
	struct side *client, *server;
	struct pair pair;
	int err;

	err = pair_open(&pair);
	if (err)
		return err;
	client = &pair.client;
	server = &pair.server.side;
	pr_info("moved: connected\n");
	err = wait_for("client closed", &client->closed, 1) ?:
	      EXPECT(client->status, -ETIMEDOUT) ?:
	      EXPECT(mlx5_ulp_post_write(client->queue, &(struct mlx5_ulp_write) {}), -EPIPE) ?:
	      EXPECT(atomic_read(&server->closed), 0);
	side_close(client);
	err = err ?: wait_for("server closed", &server->closed, 1) ?:
	      EXPECT(server->status, -ECONNRESET);
	pair_close(&pair);
	return err;
}

/*
 * To be run while somebody, once the log says so, moves the address of both sides to
 * another device.
 */
int test_readdressed(void)
{
	struct mlx5_ulp_write nothing = {};
	struct side *client, *server;
	struct pair pair;
	int err;

	err = pair_open(&pair);
	if (err)
		return err;
	client = &pair.client;
	server = &pair.server.side;
	pr_info("readdressed: connected\n");
	err = wait_for("client closed", &client->closed, 1) ?:
	      wait_for("server closed", &server->closed, 1) ?:
	      EXPECT(client->status, -ENETRESET) ?:
	      EXPECT(server->status, -ENETRESET) ?:
	      EXPECT(mlx5_ulp_post_write(client->queue, &nothing), -EPIPE) ?:
	      EXPECT(mlx5_ulp_post_write(server->queue, &nothing), -EPIPE);
	pair_close(&pair);
	return err;
}
