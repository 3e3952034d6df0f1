// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that end with work in flight: each request ends once.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/string.h>

#include "test.h"

/*
 * A connection whose server does not answer any more, while its connection
 * manager does not say so yet; and requests on their way to it.
 */
static int open_busy(struct pair *pair)
{
	int err;

	err = pair_open(pair);
	if (err)
		return err;
	err = EXPECT(mlx5_ulp_queue_disconnect(pair->server.side.queue), 0) ?:
	      side_write(&pair->client, &pair->memory) ?:
	      EXPECT(atomic_read(&pair->client.ended), 0);
	if (err)
		pair_close(pair);
	return err;
}

/* All have ended once, without the consumer doing anything for it, and none as if it was done. */
static int ended(struct side *side)
{
	return wait_for("ended", &side->ended, DEPTH) ?:
	       EXPECT(atomic_read(&side->done), 0) ?:
	       EXPECT(atomic_read(&side->flushed), DEPTH);
}

/* The busy side ends it. */
int test_leave_busy(void)
{
	struct pair pair;
	int err;

	err = open_busy(&pair);
	if (err)
		return err;
	mlx5_ulp_conn_disconnect(pair.client.conn);
	err = ended(&pair.client) ?:
	      wait_for("client closed", &pair.client.closed, 1) ?:
	      wait_for("server closed", &pair.server.side.closed, 1) ?:
	      EXPECT(pair.client.status, 0) ?:
	      EXPECT(pair.server.side.status, -ECONNRESET);
	pair_close(&pair);
	return err ?: EXPECT(atomic_read(&pair.client.ended), DEPTH);
}

/* Its peer ends it. */
int test_left_busy(void)
{
	struct pair pair;
	int err;

	err = open_busy(&pair);
	if (err)
		return err;
	mlx5_ulp_conn_disconnect(pair.server.side.conn);
	err = wait_for("client closed", &pair.client.closed, 1) ?:
	      ended(&pair.client) ?:
	      wait_for("server closed", &pair.server.side.closed, 1) ?:
	      EXPECT(pair.client.status, -ECONNRESET) ?:
	      EXPECT(pair.server.side.status, 0);
	pair_close(&pair);
	return err ?: EXPECT(atomic_read(&pair.client.ended), DEPTH);
}

/* It is destroyed as it is. */
int test_destroy_busy(void)
{
	struct side *client;
	struct pair pair;
	int err;

	err = open_busy(&pair);
	if (err)
		return err;
	client = &pair.client;
	mlx5_ulp_conn_destroy(client->conn);
	client->conn = NULL;
	err = ended(client) ?:
	      wait_for("server closed", &pair.server.side.closed, 1) ?:
	      EXPECT(atomic_read(&client->timewait_exit), 0);
	pair_close(&pair);
	return err ?: EXPECT(atomic_read(&client->ended), DEPTH);
}

/* What stays, with work in flight, until the module is unloaded. */
static struct pair stay;
static bool staying;

int test_stay(void)
{
	int err;

	err = open_busy(&stay);
	staying = !err;
	return err;
}

/* Gives everything back and says how it ended. */
void test_stay_end(void)
{
	struct side *client = &stay.client, *server = &stay.server.side;

	if (!staying)
		return;
	/* On removal both hear of it, whoever is first; else nobody has. */
	pr_info("stay: closed %d %d status %d %d\n", atomic_read(&client->closed),
		atomic_read(&server->closed), client->status, server->status);
	pair_close(&stay);
	pr_info("stay: ended %d flushed %d\n", atomic_read(&client->ended),
		atomic_read(&client->flushed));
}
