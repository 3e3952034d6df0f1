/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the interface of <mlx5_ulp_cm.h>, each a function that returns 0 when
 * all is as it should be.
 */
#ifndef MLX5_ULP_CM_TEST_H
#define MLX5_ULP_CM_TEST_H

#include <linux/atomic.h>
#include <linux/inet.h>
#include <linux/workqueue.h>
#include <mlx5_ulp_cm.h>

#include "expect.h"

enum {
	DEPTH = 16,
	PIECE = 4096,
	BYTES = DEPTH * PIECE,
	/* Until a peer has to do something, however slow the machine. */
	PATIENCE = 60,
};

/* Where the listening side listens, and the other connects to. */
extern struct sockaddr_storage test_address;

/* What the accepting side tells of its memory, as private data. */
struct memory {
	__be64 address;
	__be32 key;
	__be32 bytes;
};

/* One side of a connection: its device, memory, queue, and what it has heard. */
struct side {
	struct mlx5_ulp_device *device;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_queue *queue;
	struct mlx5_ulp_conn *conn;
	u8 *memory;
	atomic_t established, closed, timewait_exit;
	int status;
	/* How requests have ended. */
	struct mlx5_ulp_request request;
	atomic_t ended, done, flushed;
	/* Of one that has failed by itself. */
	int failure;
};

extern const struct mlx5_ulp_conn_ops side_ops;

/* Opens @ibdev, and makes memory and a queue on it; or takes a device that is open, or an error. */
int side_open(struct side *side, struct ib_device *ibdev);
int side_open_on(struct side *side, struct mlx5_ulp_device *device);
void side_close(struct side *side);
/* Empties its memory, and says where it is. */
void side_offer(struct side *side, struct memory *memory);
/* Posts a WRITE of each piece of its memory to the peer's. */
int side_write(struct side *side, const struct memory *to);

/* Waits until it is that many. */
int wait_for(const char *what, const atomic_t *count, int should);

/* A listening side, which accepts one peer and tells it of its memory. */
struct server {
	struct mlx5_ulp_listener *listener;
	struct side side;
	struct memory memory;
	atomic_t requests;
	/* Instead of accepting. */
	bool refuse;
	/* What the peer has said. */
	char said[MLX5_ULP_CM_REQUEST_DATA];
};

extern const struct mlx5_ulp_listen_ops server_ops;

int server_open(struct server *server);
void server_close(struct server *server);

/* Both sides of a connection. */
struct pair {
	struct server server;
	struct side client;
	struct memory memory;
};

int pair_open(struct pair *pair);
void pair_close(struct pair *pair);

/* The way to the server, and then what @side has on the device that it leads through. */
struct mlx5_ulp_conn *resolve(struct side *side);
int side_resolve(struct side *side);

/* A side that is connected by another task, on the stack. */
struct connecting {
	struct work_struct work;
	struct side *side;
	int status;
	/* How long that took. */
	s64 us;
};

void connect_begin(struct connecting *connecting, struct side *side);
/* Waits for the end, and returns what mlx5_ulp_conn_connect() said. */
int connect_end(struct connecting *connecting);

/* Has @handler wait for peers; @id is what to destroy, or an error. */
int listen_to(struct rdma_cm_id **id, rdma_cm_event_handler handler, void *context);

/* connect.c */
int test_connect(void);
int test_again(void);

/* verbs.c */
int test_to_verbs(void);
int test_from_verbs(void);

/* handler.c */
int test_handler(void);

/* refuse.c */
int test_refuse(void);
int test_listen_twice(void);
int test_misuse(void);
int test_stale(void);

/* network.c */
int test_network(void);

/* solicited.c */
int test_solicited(void);

/* cancel.c */
int test_cancel_first(void);
int test_cancel_unanswered(void);
int test_cancel_answered(void);

/* vanish.c */
int test_vanish(void);
int test_moved(void);
int test_readdressed(void);

/* end.c */
int test_leave_busy(void);
int test_left_busy(void);
int test_destroy_busy(void);
int test_stay(void);
void test_stay_end(void);

#endif /* MLX5_ULP_CM_TEST_H */
