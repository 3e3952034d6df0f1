// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that are given up before they are made.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/ktime.h>

#include "test.h"

enum {
	/* In so many steps the time up to giving up grows to what a connection takes. */
	STEPS = 8,
	/* So many have to be made before the end, of at most so many. */
	MADE = 2,
	ROUNDS = 200,
};

static void connect(struct work_struct *work)
{
	struct connecting *connecting = container_of(work, struct connecting, work);
	struct side *side = connecting->side;
	ktime_t start = ktime_get();

	connecting->status = mlx5_ulp_conn_connect(side->conn, side->queue, NULL, NULL, 0);
	connecting->us = ktime_us_delta(ktime_get(), start);
}

void connect_begin(struct connecting *connecting, struct side *side)
{
	connecting->side = side;
	INIT_WORK_ONSTACK(&connecting->work, connect);
	schedule_work(&connecting->work);
}

int connect_end(struct connecting *connecting)
{
	flush_work(&connecting->work);
	destroy_work_on_stack(&connecting->work);
	return connecting->status;
}

/* Connects @side, which is given up after so many microseconds, or not at all. */
static void connect_for(struct connecting *connecting, struct side *side, s64 us)
{
	connect_begin(connecting, side);
	if (us >= 0) {
		fsleep(us);
		mlx5_ulp_conn_disconnect(side->conn);
	}
	connect_end(connecting);
}

/* It will not be connected, its queue takes no posts, and there is no event. */
static int is_given_up(struct side *side)
{
	return EXPECT(mlx5_ulp_conn_connect(side->conn, side->queue, NULL, NULL, 0), -ECANCELED) ?:
	       EXPECT(mlx5_ulp_queue_disconnect(side->queue), 0) ?:
	       EXPECT(mlx5_ulp_post_write(side->queue, &(struct mlx5_ulp_write) {}), -EPIPE) ?:
	       EXPECT(atomic_read(&side->closed), 0) ?:
	       EXPECT(atomic_read(&side->timewait_exit), 0);
}

/* Before anybody is asked. */
int test_cancel_first(void)
{
	struct server server = {};
	struct side side = {};
	int err;

	err = server_open(&server);
	if (err)
		return err;
	err = side_resolve(&side);
	if (!err) {
		mlx5_ulp_conn_disconnect(side.conn);
		err = is_given_up(&side) ?: EXPECT(atomic_read(&server.requests), 0);
	}
	side_close(&side);
	server_close(&server);
	return err;
}

/* To be run while nothing arrives. */
int test_cancel_unanswered(void)
{
	struct connecting connecting;
	struct side side = {};
	int err;

	err = side_resolve(&side);
	if (!err) {
		connect_for(&connecting, &side, 200 * USEC_PER_MSEC);
		err = EXPECT(connecting.status, -ECANCELED) ?: is_given_up(&side);
	}
	side_close(&side);
	return err;
}

/* While the peer answers. It is connected, and that is ended like any other, or it never was. */
static int cancel_answered_once(struct connecting *connecting, s64 us)
{
	struct pair pair = {};
	struct side *client = &pair.client, *server = &pair.server.side;
	int err;

	err = server_open(&pair.server);
	if (err)
		return err;
	err = side_resolve(client);
	if (!err) {
		connect_for(connecting, client, us);
		if (us < 0)
			err = EXPECT(connecting->status, 0);
		else if (!connecting->status)
			err = wait_for("client closed", &client->closed, 1) ?:
			      EXPECT(client->status, 0);
		else
			err = EXPECT(connecting->status, -ECANCELED) ?: is_given_up(client);
	}
	/* A peer that knows of the connection hears of its end. */
	if (!err && us >= 0 && atomic_read(&server->established))
		err = wait_for("server closed", &server->closed, 1);
	pair_close(&pair);
	return err;
}

int test_cancel_answered(void)
{
	struct connecting connecting;
	int rounds = 0, made = 0, err;
	s64 step;

	err = cancel_answered_once(&connecting, -1);
	step = connecting.us / STEPS;
	for (; !err && made < MADE && rounds < ROUNDS; rounds++) {
		err = cancel_answered_once(&connecting, step * rounds);
		made += !connecting.status;
	}
	pr_info("cancel_answered: %d of %d made, in steps of %lld us\n", made, rounds, step);
	return err ?: EXPECT(made, MADE);
}
