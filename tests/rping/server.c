// SPDX-License-Identifier: GPL-2.0
/*
 * The server: reads, and writes back. One client at a time; others are refused.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "rping.h"

static struct {
	struct mlx5_ulp_listener *listener;
	struct ping ping;
	struct work_struct serve;
	/* Whether @ping has a client. */
	atomic_t busy;
	/* Held while @ping is taken down. */
	struct mutex closing;
} server;

static int one(struct ping *ping)
{
	struct info remote;
	int err;
	u32 size;

	err = ping_hear(ping, &remote);
	if (err)
		return err;
	size = be32_to_cpu(remote.size);
	/* The peer says it, and may say anything. */
	if (!size || size > RPING_MAX_SIZE)
		return -EPROTO;
	return ping_move(ping, MLX5_ULP_OP_READ, &remote, size) ?:
	       ping_tell(ping, NULL, 0) ?:
	       ping_hear(ping, &remote) ?:
	       ping_move(ping, MLX5_ULP_OP_WRITE, &remote,
			 strnlen(ping->buffers->sink, size - 1) + 1) ?:
	       ping_tell(ping, NULL, 0);
}

/* As long as the client likes; its leaving ends the receive that is waited for. */
static void serve(struct work_struct *work)
{
	unsigned int number = 0;
	int err;

	while (!(err = one(&server.ping)))
		number++;
	pr_info("server: %u pings (%d)\n", number, err);
	mutex_lock(&server.closing);
	ping_close(&server.ping);
	mutex_unlock(&server.closing);
	atomic_set_release(&server.busy, 0);
}

static int request(void *context, struct mlx5_ulp_conn_request *request)
{
	int err;

	if (atomic_cmpxchg(&server.busy, 0, 1))
		return -EBUSY;
	err = ping_open(&server.ping, mlx5_ulp_conn_ibdev(request->conn));
	if (err) {
		ping_close(&server.ping);
		atomic_set_release(&server.busy, 0);
		return err;
	}
	server.ping.conn = request->conn;
	request->queue = server.ping.queue;
	request->ops = &ping_ops;
	request->context = &server.ping;
	/* It waits for the first message, and when it comes the client is ready. */
	schedule_work(&server.serve);
	return 0;
}

static const struct mlx5_ulp_listen_ops listen_ops = { .request = request };

int server_start(const struct sockaddr *address)
{
	mutex_init(&server.closing);
	INIT_WORK(&server.serve, serve);
	server.listener = mlx5_ulp_listen(&init_net, address, 4, &listen_ops, NULL);
	return PTR_ERR_OR_ZERO(server.listener);
}

void server_stop(void)
{
	mlx5_ulp_unlisten(server.listener);
	/* Nobody comes any more. Who is there is sent away, which ends the work. */
	mutex_lock(&server.closing);
	if (server.ping.queue)
		mlx5_ulp_queue_disconnect(server.ping.queue);
	mutex_unlock(&server.closing);
	flush_work(&server.serve);
}
