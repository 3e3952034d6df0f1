// SPDX-License-Identifier: GPL-2.0
/*
 * The client: fills, tells, compares.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "rping.h"

/* A text that fills the buffer: the server goes by its length. */
static void fill(char *buffer, u32 size, unsigned int number)
{
	u32 i = scnprintf(buffer, size, "rdma-ping-%u: ", number);

	for (; i < size - 1; i++)
		buffer[i] = 'A' + (number + i) % 58;
	buffer[size - 1] = 0;
}

static int one(struct ping *ping, u32 size, unsigned int number)
{
	struct buffers *buffers = ping->buffers;
	struct info go_on;
	int err;

	fill(buffers->source, size, number);
	memset(buffers->sink, 0, size);
	err = ping_tell(ping, buffers->source, size) ?:
	      ping_hear(ping, &go_on) ?:
	      ping_tell(ping, buffers->sink, size) ?:
	      ping_hear(ping, &go_on);
	if (!err && memcmp(buffers->source, buffers->sink, size)) {
		pr_info("ping %u: what came back differs\n", number);
		err = -EBADMSG;
	}
	return err;
}

int client_run(const struct sockaddr *address, u32 size, unsigned int count)
{
	unsigned int number = 0;
	struct ping *ping;
	int err;

	ping = kzalloc_obj(*ping);
	if (!ping)
		return -ENOMEM;
	ping->conn = mlx5_ulp_conn_resolve(&init_net, NULL, address, 10 * MSEC_PER_SEC,
					   &ping_ops, ping);
	err = PTR_ERR_OR_ZERO(ping->conn);
	if (!err)
		err = ping_open(ping, mlx5_ulp_conn_ibdev(ping->conn)) ?:
		      mlx5_ulp_conn_connect(ping->conn, ping->queue, NULL, NULL, 0);
	while (!err && number < count) {
		err = one(ping, size, number);
		if (!err)
			number++;
	}
	pr_info("client: %u of %u pings (%d)\n", number, count, err);
	ping_close(ping);
	kfree(ping);
	return err;
}
