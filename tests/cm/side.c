// SPDX-License-Identifier: GPL-2.0
/*
 * The two sides of a connection.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "test.h"

static void side_event(void *context, enum mlx5_ulp_conn_event event, int status)
{
	struct side *side = context;

	switch (event) {
	case MLX5_ULP_CONN_ESTABLISHED:
		atomic_inc(&side->established);
		break;
	case MLX5_ULP_CONN_CLOSED:
		side->status = status;
		/* Last: who sees it may read the rest. */
		atomic_inc_return_release(&side->closed);
		break;
	case MLX5_ULP_CONN_TIMEWAIT_EXIT:
		atomic_inc(&side->timewait_exit);
		break;
	}
}

const struct mlx5_ulp_conn_ops side_ops = { .event = side_event };

static void request_done(struct mlx5_ulp_request *request,
			 const struct mlx5_ulp_completion *completion)
{
	struct side *side = container_of(request, struct side, request);

	if (!completion->status)
		atomic_inc(&side->done);
	else if (completion->status == -ECANCELED)
		atomic_inc(&side->flushed);
	else
		side->failure = completion->status;
	atomic_inc_return_release(&side->ended);
}

int side_open_on(struct side *side, struct mlx5_ulp_device *device)
{
	struct mlx5_ulp_queue_attr attr = {
		.depth = DEPTH,
		.access = MLX5_ULP_ACCESS_REMOTE_WRITE,
	};
	int err;

	side->device = device;
	if (IS_ERR(side->device))
		return FAIL("cannot open: %ld", PTR_ERR(side->device));
	side->request.done = request_done;
	side->memory = vmalloc(BYTES);
	if (!side->memory)
		return -ENOMEM;
	get_random_bytes(side->memory, BYTES);
	side->region = mlx5_ulp_region_create(side->device, side->memory, BYTES,
					      MLX5_ULP_ACCESS_REMOTE_WRITE);
	side->queue = mlx5_ulp_queue_create(side->device, &attr);
	err = PTR_ERR_OR_ZERO(side->region) ?: PTR_ERR_OR_ZERO(side->queue);
	return err ? FAIL("no region or queue: %d", err) : 0;
}

int side_open(struct side *side, struct ib_device *ibdev)
{
	return side_open_on(side, mlx5_ulp_open_ibdev(ibdev, NULL));
}

/* In the order that the interface asks for: the connection before its queue. */
void side_close(struct side *side)
{
	if (!IS_ERR_OR_NULL(side->conn))
		mlx5_ulp_conn_destroy(side->conn);
	if (!IS_ERR_OR_NULL(side->queue))
		mlx5_ulp_queue_destroy(side->queue);
	if (!IS_ERR_OR_NULL(side->region))
		mlx5_ulp_region_destroy(side->region);
	if (!IS_ERR_OR_NULL(side->device))
		mlx5_ulp_close(side->device);
	vfree(side->memory);
	side->conn = NULL;
	side->queue = NULL;
	side->region = NULL;
	side->device = NULL;
	side->memory = NULL;
}

void side_offer(struct side *side, struct memory *memory)
{
	memset(side->memory, 0, BYTES);
	memory->address = cpu_to_be64((uintptr_t)side->memory);
	memory->key = cpu_to_be32(mlx5_ulp_region_key(side->region));
	memory->bytes = cpu_to_be32(BYTES);
}

int side_write(struct side *side, const struct memory *to)
{
	int i, err = 0;

	for (i = 0; !err && i < DEPTH; i++) {
		struct mlx5_ulp_sge sge = {
			.addr = (u64)(uintptr_t)side->memory + i * PIECE,
			.length = PIECE,
			.lkey = mlx5_ulp_region_key(side->region),
		};
		struct mlx5_ulp_write write = {
			.request = &side->request,
			.sge = &sge,
			.num_sge = 1,
			/* Some silent ones among them: they have to end, too. */
			.flags = i % 4 == 1 ? MLX5_ULP_UNSIGNALED : 0,
			.remote_addr = be64_to_cpu(to->address) + i * PIECE,
			.rkey = be32_to_cpu(to->key),
		};

		err = EXPECT(mlx5_ulp_post_write(side->queue, &write), 0);
	}
	return err;
}

int wait_for(const char *what, const atomic_t *count, int should)
{
	unsigned long end = jiffies + PATIENCE * HZ;

	while (atomic_read_acquire(count) < should) {
		if (time_after(jiffies, end))
			return FAIL("%s: %d of %d after %d s", what, atomic_read(count), should,
				    PATIENCE);
		fsleep(500);
	}
	return atomic_read(count) == should ? 0 : FAIL("%s: %d, should be %d", what,
						       atomic_read(count), should);
}

static int server_request(void *context, struct mlx5_ulp_conn_request *request)
{
	struct server *server = context;
	struct side *side = &server->side;

	memcpy(server->said, request->data.data, min(request->data.length, sizeof(server->said)));
	atomic_inc_return_release(&server->requests);
	if (server->refuse) {
		request->answer.data = "go away";
		request->answer.length = 8;
		return -EBUSY;
	}
	if (side->conn || side_open(side, mlx5_ulp_conn_ibdev(request->conn)))
		return -EBUSY;
	side_offer(side, &server->memory);
	request->queue = side->queue;
	request->ops = &side_ops;
	request->context = side;
	request->answer.data = &server->memory;
	request->answer.length = sizeof(server->memory);
	side->conn = request->conn;
	return 0;
}

int listen_to(struct rdma_cm_id **id, rdma_cm_event_handler handler, void *context)
{
	*id = rdma_create_id(&init_net, handler, context, RDMA_PS_TCP, IB_QPT_RC);
	return EXPECT(PTR_ERR_OR_ZERO(*id), 0) ?:
	       EXPECT(rdma_bind_addr(*id, (struct sockaddr *)&test_address), 0) ?:
	       EXPECT(rdma_listen(*id, 1), 0);
}

const struct mlx5_ulp_listen_ops server_ops = { .request = server_request };

int server_open(struct server *server)
{
	server->listener = mlx5_ulp_listen(&init_net, (struct sockaddr *)&test_address, 4,
					   &server_ops, server);
	return IS_ERR(server->listener) ?
	       FAIL("cannot listen: %ld", PTR_ERR(server->listener)) : 0;
}

void server_close(struct server *server)
{
	if (!IS_ERR_OR_NULL(server->listener))
		mlx5_ulp_unlisten(server->listener);
	server->listener = NULL;
	side_close(&server->side);
}

/* The way to the server. */
struct mlx5_ulp_conn *resolve(struct side *side)
{
	return mlx5_ulp_conn_resolve(&init_net, NULL, (struct sockaddr *)&test_address,
				     10 * MSEC_PER_SEC, &side_ops, side);
}

int side_resolve(struct side *side)
{
	side->conn = resolve(side);
	if (IS_ERR(side->conn))
		return FAIL("cannot resolve: %ld", PTR_ERR(side->conn));
	return side_open(side, mlx5_ulp_conn_ibdev(side->conn));
}

int pair_open(struct pair *pair)
{
	const struct mlx5_ulp_conn_data request = { .data = "hello", .length = 6 };
	const struct memory *told = &pair->server.memory;
	struct side *client = &pair->client;
	u8 answer[MLX5_ULP_CM_ANSWER_DATA];
	int err;

	memset(pair, 0, sizeof(*pair));
	err = server_open(&pair->server) ?: side_resolve(client) ?:
	      EXPECT(mlx5_ulp_conn_connect(client->conn, client->queue, &request, answer, 0), 0);
	if (!err) {
		memcpy(&pair->memory, answer, sizeof(*told));
		err = EXPECT(memcmp(pair->server.said, "hello", 6), 0) ?:
		      EXPECT(memcmp(&pair->memory, told, sizeof(*told)), 0) ?:
		      EXPECT(answer[sizeof(answer) - 1], 0) ?:
		      wait_for("established", &pair->server.side.established, 1) ?:
		      EXPECT(atomic_read(&client->established), 0);
	}
	if (err)
		pair_close(pair);
	return err;
}

void pair_close(struct pair *pair)
{
	side_close(&pair->client);
	server_close(&pair->server);
}
