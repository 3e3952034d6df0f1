// SPDX-License-Identifier: GPL-2.0
/*
 * What both sides do.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/string.h>
#include <linux/vmalloc.h>

#include "rping.h"

/*
 * Nothing to be done: when a connection ends, the request and the receive under
 * way complete, and who waits for them sees the error.
 */
static void ping_event(void *context, enum mlx5_ulp_conn_event event, int status)
{
	if (event == MLX5_ULP_CONN_CLOSED)
		pr_debug("closed: %d\n", status);
}

const struct mlx5_ulp_conn_ops ping_ops = { .event = ping_event };

static void ping_done(struct mlx5_ulp_request *request,
		      const struct mlx5_ulp_completion *completion)
{
	struct ping *ping = container_of(request, struct ping, request);

	ping->status = completion->status;
	complete(&ping->done);
}

static void ping_received(struct mlx5_ulp_request *request,
			  const struct mlx5_ulp_completion *completion)
{
	struct ping *ping = container_of(request, struct ping, receive);

	ping->receive_status = completion->status;
	ping->receive_length = completion->length;
	complete(&ping->received);
}

static struct mlx5_ulp_sge ping_sge(const struct ping *ping, const void *memory, u32 length)
{
	return (struct mlx5_ulp_sge) {
		.addr = (uintptr_t)memory,
		.length = length,
		.lkey = mlx5_ulp_region_key(ping->region),
	};
}

static int post_receive(struct ping *ping)
{
	struct mlx5_ulp_sge sge = ping_sge(ping, &ping->buffers->receive, sizeof(struct info));
	const struct mlx5_ulp_receive receive = {
		.request = &ping->receive,
		.sge = &sge,
		.num_sge = 1,
	};

	return mlx5_ulp_post_receives(ping->queue, &receive, 1);
}

int ping_open(struct ping *ping, struct ib_device *ibdev)
{
	const struct mlx5_ulp_queue_attr attr = {
		.depth = 4,
		.max_recv_depth = 2,
		.access = MLX5_ULP_ACCESS_REMOTE_READ | MLX5_ULP_ACCESS_REMOTE_WRITE,
	};

	ping->request.done = ping_done;
	ping->receive.done = ping_received;
	init_completion(&ping->done);
	init_completion(&ping->received);
	ping->buffers = vzalloc(sizeof(*ping->buffers));
	if (!ping->buffers)
		return -ENOMEM;
	ping->device = mlx5_ulp_open_ibdev(ibdev, NULL);
	if (IS_ERR(ping->device))
		return PTR_ERR(ping->device);
	ping->region = mlx5_ulp_region_create(ping->device, ping->buffers, sizeof(*ping->buffers),
					      MLX5_ULP_ACCESS_LOCAL_WRITE |
					      MLX5_ULP_ACCESS_REMOTE_READ |
					      MLX5_ULP_ACCESS_REMOTE_WRITE);
	if (IS_ERR(ping->region))
		return PTR_ERR(ping->region);
	ping->queue = mlx5_ulp_queue_create(ping->device, &attr);
	if (IS_ERR(ping->queue))
		return PTR_ERR(ping->queue);
	return post_receive(ping);
}

/* Also what ping_open() has left when it failed. */
void ping_close(struct ping *ping)
{
	if (!IS_ERR_OR_NULL(ping->conn))
		mlx5_ulp_conn_destroy(ping->conn);
	if (!IS_ERR_OR_NULL(ping->queue))
		mlx5_ulp_queue_destroy(ping->queue);
	/* Memory that the device may still reach is not freed. */
	if (!IS_ERR_OR_NULL(ping->region) && mlx5_ulp_region_destroy(ping->region))
		ping->buffers = NULL;
	if (!IS_ERR_OR_NULL(ping->device))
		mlx5_ulp_close(ping->device);
	vfree(ping->buffers);
	memset(ping, 0, sizeof(*ping));
}

/* Posts a request and waits for its end. */
static int carry_out(struct ping *ping, const struct mlx5_ulp_work *work)
{
	int err = mlx5_ulp_post(ping->queue, work, 1);

	if (err)
		return err;
	wait_for_completion(&ping->done);
	return ping->status;
}

int ping_tell(struct ping *ping, const void *buffer, u32 size)
{
	struct info *info = &ping->buffers->send;
	struct mlx5_ulp_sge sge = ping_sge(ping, info, sizeof(*info));
	const struct mlx5_ulp_work work = {
		.opcode = MLX5_ULP_OP_SEND,
		.request = &ping->request,
		.sge = &sge,
		.num_sge = 1,
	};

	info->address = cpu_to_be64((uintptr_t)buffer);
	info->key = cpu_to_be32(mlx5_ulp_region_key(ping->region));
	info->size = cpu_to_be32(size);
	return carry_out(ping, &work);
}

int ping_hear(struct ping *ping, struct info *info)
{
	wait_for_completion(&ping->received);
	if (ping->receive_status)
		return ping->receive_status;
	if (ping->receive_length != sizeof(*info))
		return -EPROTO;
	*info = ping->buffers->receive;
	return post_receive(ping);
}

int ping_move(struct ping *ping, u32 opcode, const struct info *remote, u32 size)
{
	struct mlx5_ulp_sge sge = ping_sge(ping, ping->buffers->sink, size);
	const struct mlx5_ulp_work work = {
		.opcode = opcode,
		.request = &ping->request,
		.sge = &sge,
		.num_sge = 1,
		.remote_addr = be64_to_cpu(remote->address),
		.rkey = be32_to_cpu(remote->key),
	};

	return carry_out(ping, &work);
}
