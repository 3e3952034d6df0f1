/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of rping (librdmacm, examples/rping.c), on queues of mlx5_ulp.
 *
 * All messages are a struct info. The client tells of the buffer that it has
 * filled; the server READs it and says so; the client tells of its other buffer;
 * the server WRITEs there what it has read and says so; the client compares.
 */
#ifndef MLX5_ULP_RPING_H
#define MLX5_ULP_RPING_H

#include <linux/completion.h>
#include <linux/printk.h>
#include <linux/socket.h>
#include <mlx5_ulp_cm.h>

/* Largest buffer, as of the program. */
#define RPING_MAX_SIZE (64 * 1024)

struct info {
	__be64 address;
	__be32 key;
	__be32 size;
};

/* What the device reads and writes. */
struct buffers {
	struct info send, receive;
	char source[RPING_MAX_SIZE];
	char sink[RPING_MAX_SIZE];
};

/* One side of a connection. */
struct ping {
	struct mlx5_ulp_device *device;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_queue *queue;
	struct mlx5_ulp_conn *conn;
	struct buffers *buffers;
	/* One request and one receive are under way at most. */
	struct mlx5_ulp_request request, receive;
	struct completion done, received;
	int status, receive_status;
	u32 receive_length;
};

extern const struct mlx5_ulp_conn_ops ping_ops;

/* Opens @ibdev, and makes what is needed; the first receive is posted. */
int ping_open(struct ping *ping, struct ib_device *ibdev);
void ping_close(struct ping *ping);

/* Sends a message that tells of @buffer, %NULL for one that tells of nothing. */
int ping_tell(struct ping *ping, const void *buffer, u32 size);
/* Waits for a message, and makes room for the next. */
int ping_hear(struct ping *ping, struct info *info);
/* READs @size bytes to the sink, or WRITEs them from there; @opcode is of &enum mlx5_ulp_opcode. */
int ping_move(struct ping *ping, u32 opcode, const struct info *remote, u32 size);

int client_run(const struct sockaddr *address, u32 size, unsigned int count);
int server_start(const struct sockaddr *address);
void server_stop(void);

#endif /* MLX5_ULP_RPING_H */
