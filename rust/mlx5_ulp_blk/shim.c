// SPDX-License-Identifier: GPL-2.0
/*
 * What the disk needs of the block layer that is inline, a macro, or not in the
 * kernel crate's bindings.
 */
#include <linux/blk-mq-dma.h>
#include <linux/blk-mq.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include "shim.h"

/* Most bytes of a request. */
#define MAX_BYTES SZ_1M

u32 mlx5_ulp_blk_what(const struct request *rq, u64 *offset, u32 *length)
{
	*offset = blk_rq_pos(rq) << SECTOR_SHIFT;
	*length = blk_rq_bytes(rq);
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return MLX5_ULP_BLK_READ;
	case REQ_OP_WRITE:
		return rq->cmd_flags & REQ_FUA ? MLX5_ULP_BLK_WRITE_FUA : MLX5_ULP_BLK_WRITE;
	case REQ_OP_FLUSH:
		return MLX5_ULP_BLK_FLUSH;
	default:
		return MLX5_ULP_BLK_OTHER;
	}
}

/*
 * blk-mq clears the flag when a tag becomes another request, and puts a request
 * that has it back without asking the scheduler.
 */
bool mlx5_ulp_blk_is_new(struct request *rq)
{
	if (rq->rq_flags & RQF_DONTPREP)
		return false;
	rq->rq_flags |= RQF_DONTPREP;
	return true;
}

static struct dma_iova_state *iova_state(struct mlx5_ulp_blk_iova *iova)
{
	BUILD_BUG_ON(sizeof(struct dma_iova_state) > sizeof(*iova));
	return (struct dma_iova_state *)iova->state;
}

void mlx5_ulp_blk_unmap(struct request *rq, struct device *dev,
			struct mlx5_ulp_blk_iova *iova,
			const struct mlx5_ulp_sge *sge, unsigned int count)
{
	size_t bytes = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		bytes += sge[i].length;
	if (blk_rq_dma_unmap(rq, dev, iova_state(iova), bytes, PCI_P2PDMA_MAP_NONE))
		return;
	for (i = 0; i < count; i++)
		dma_unmap_phys(dev, sge[i].addr, sge[i].length, rq_dma_dir(rq), 0);
}

int mlx5_ulp_blk_map(struct request *rq, struct device *dev, u32 lkey,
		     struct mlx5_ulp_blk_iova *iova, struct mlx5_ulp_sge *sge,
		     unsigned int room)
{
	struct dma_iova_state *state = iova_state(iova);
	struct blk_dma_iter iter;
	unsigned int count = 0;
	bool more;

	for (more = blk_rq_dma_map_iter_start(rq, dev, state, &iter); more;
	     more = !dma_use_iova(state) && blk_rq_dma_map_iter_next(rq, dev, &iter)) {
		/* The limits of the queue keep a request below. */
		if (WARN_ON_ONCE(count == room)) {
			dma_unmap_phys(dev, iter.addr, iter.len, rq_dma_dir(rq), 0);
			iter.status = BLK_STS_IOERR;
			break;
		}
		sge[count++] = (struct mlx5_ulp_sge) {
			.addr = iter.addr,
			.length = iter.len,
			.lkey = lkey,
		};
	}
	if (iter.status != BLK_STS_OK) {
		if (count)
			mlx5_ulp_blk_unmap(rq, dev, iova, sge, count);
		return blk_status_to_errno(iter.status);
	}
	return count;
}

static const struct block_device_operations fops = {
	.owner = THIS_MODULE,
};

struct gendisk *mlx5_ulp_blk_disk_alloc(struct blk_mq_tag_set *set, void *data,
					struct device *dev, unsigned int segments)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
		.logical_block_size = SECTOR_SIZE,
		.physical_block_size = PAGE_SIZE,
		.max_hw_sectors = min_t(size_t, MAX_BYTES, dma_max_mapping_size(dev)) >>
				  SECTOR_SHIFT,
		.max_segments = segments,
		.max_segment_size = min(dma_get_max_seg_size(dev), MAX_BYTES),
		/* A data segment of a WQE starts at any byte; the CPU copies by words. */
		.dma_alignment = 3,
	};
	struct gendisk *disk;

	disk = blk_mq_alloc_disk(set, &limits, data);
	if (!IS_ERR(disk))
		disk->fops = &fops;
	return disk;
}

int mlx5_ulp_blk_disk_add(struct gendisk *disk, const char *name, u64 bytes)
{
	strscpy(disk->disk_name, name, sizeof(disk->disk_name));
	set_capacity(disk, bytes >> SECTOR_SHIFT);
	return add_disk(disk);
}

void mlx5_ulp_blk_disk_settle(struct gendisk *disk)
{
	cancel_delayed_work_sync(&disk->queue->requeue_work);
}

struct workqueue_struct *mlx5_ulp_blk_workqueue(const char *name)
{
	return alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM, name);
}

void mlx5_ulp_blk_init_work(struct delayed_work *work,
			    void (*function)(struct work_struct *work))
{
	INIT_DELAYED_WORK(work, function);
}
