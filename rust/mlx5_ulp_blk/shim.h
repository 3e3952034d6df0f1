/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the disk needs of the block layer that is inline, a macro, or not in the
 * kernel crate's bindings.
 */
#ifndef MLX5_ULP_BLK_SHIM_H
#define MLX5_ULP_BLK_SHIM_H

#include <linux/types.h>

#include <mlx5_ulp.h>

struct blk_mq_tag_set;
struct delayed_work;
struct gendisk;
struct request;
struct work_struct;
struct workqueue_struct;

/* What a request asks for. */
enum mlx5_ulp_blk_op {
	MLX5_ULP_BLK_READ,
	MLX5_ULP_BLK_WRITE,
	/* A WRITE that is in the target's memory before it ends. */
	MLX5_ULP_BLK_WRITE_FUA,
	MLX5_ULP_BLK_FLUSH,
	MLX5_ULP_BLK_OTHER,
};

/* Returns one of enum mlx5_ulp_blk_op, and where on the disk, both in bytes. */
u32 mlx5_ulp_blk_what(const struct request *rq, u64 *offset, u32 *length);

/* Whether a request has come to the driver for the first time; later no more. */
bool mlx5_ulp_blk_is_new(struct request *rq);

/* How a mapping has to be undone; struct dma_iova_state. */
struct mlx5_ulp_blk_iova {
	u64 state[2];
};

/*
 * Maps the segments of a request for the device, and lists them with the key.
 * Returns how many there are, at most room, or an error number.
 */
int mlx5_ulp_blk_map(struct request *rq, struct device *dev, u32 lkey,
		     struct mlx5_ulp_blk_iova *iova, struct mlx5_ulp_sge *sge,
		     unsigned int room);
void mlx5_ulp_blk_unmap(struct request *rq, struct device *dev,
			struct mlx5_ulp_blk_iova *iova,
			const struct mlx5_ulp_sge *sge, unsigned int count);

/* The disk is alive from mlx5_ulp_blk_disk_add() to del_gendisk(). */
struct gendisk *mlx5_ulp_blk_disk_alloc(struct blk_mq_tag_set *set, void *data,
					struct device *dev, unsigned int segments);
int mlx5_ulp_blk_disk_add(struct gendisk *disk, const char *name, u64 bytes);

/* Its own queue of work, that makes progress when memory is short. */
struct workqueue_struct *mlx5_ulp_blk_workqueue(const char *name);
void mlx5_ulp_blk_init_work(struct delayed_work *work,
			    void (*function)(struct work_struct *work));

/* ------------------------------------------------ connections by rdma_cm -- */

struct mlx5_ulp_conn;

/* Bytes of private data: of a request, and room for those of an answer. */
#define MLX5_ULP_BLK_REQUEST_DATA	56
#define MLX5_ULP_BLK_ANSWER_DATA	196

/*
 * Finds the way to a peer. When a connection of it ends, mlx5_ulp_blk_lost() is
 * called.
 */
struct mlx5_ulp_conn *mlx5_ulp_blk_resolve(const char *address, const char *port,
					   void *context);
int mlx5_ulp_blk_connect(struct mlx5_ulp_conn *conn, struct mlx5_ulp_queue *queue,
			 const void *request, u8 length, void *answer,
			 unsigned int timeout_ms);
void mlx5_ulp_blk_disconnect(struct mlx5_ulp_conn *conn);
void mlx5_ulp_blk_destroy(struct mlx5_ulp_conn *conn);

/* Somebody wants to connect. */
struct mlx5_ulp_blk_guest {
	/* In. */
	struct mlx5_ulp_conn *conn;
	const void *data;
	u8 length;
	/* Out. */
	struct mlx5_ulp_queue *queue;
	void *context;
	const void *answer;
	u8 answer_length;
};

struct mlx5_ulp_listener;
struct mlx5_ulp_listener *mlx5_ulp_blk_listen(u16 port, void *context);
void mlx5_ulp_blk_unlisten(struct mlx5_ulp_listener *listener);

/* In Rust. Whether to accept; of a listener. */
int mlx5_ulp_blk_request(void *context, struct mlx5_ulp_blk_guest *guest);
/* In Rust. Who was accepted has heard of it. */
void mlx5_ulp_blk_joined(void *context);
/* In Rust. A connection that was accepted has ended. */
void mlx5_ulp_blk_parted(void *context);
/* In Rust. A connection of ours has ended. */
void mlx5_ulp_blk_lost(void *context);

#endif /* MLX5_ULP_BLK_SHIM_H */
