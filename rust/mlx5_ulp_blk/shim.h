/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the disk needs of the block layer that is inline, a macro, or not in the
 * kernel crate's bindings.
 */
#ifndef MLX5_ULP_BLK_SHIM_H
#define MLX5_ULP_BLK_SHIM_H

#include "../mlx5_ulp_api/cm/bindings.h"

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

/*
 * Before put_disk() of a disk that was deleted, or not added, and has no requests: the
 * work item in its queue does not run, nor will it. del_gendisk() has cancelled it, but
 * blk_mq_kick_requeue_list() may have come later.
 */
void mlx5_ulp_blk_disk_settle(struct gendisk *disk);

/* Its own queue of work, that makes progress when memory is short. */
struct workqueue_struct *mlx5_ulp_blk_workqueue(const char *name);
void mlx5_ulp_blk_init_work(struct delayed_work *work,
			    void (*function)(struct work_struct *work));

#endif /* MLX5_ULP_BLK_SHIM_H */
