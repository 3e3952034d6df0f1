/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Rust cannot reach: inline functions and macros of the kernel's headers,
 * each made callable by a function of the same meaning.
 */
#ifndef MLX5_ULP_SHIM_H
#define MLX5_ULP_SHIM_H

#include <linux/dma-mapping.h>
#include <linux/jump_label.h>
#include <linux/mlx5/cq.h>
#include <linux/mlx5/driver.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

/* The mlx5 device below @ibdev, or NULL if there is none or it isn't a PCI function. */
struct mlx5_core_dev *mlx5_ulp_shim_mdev(const struct ib_device *ibdev);

/* The RDMA device to which a sysfs attribute's @dev belongs. */
struct ib_device *mlx5_ulp_shim_to_ibdev(struct device *dev);

void *mlx5_ulp_shim_client_data(struct ib_device *ibdev, struct ib_client *client);

/* Say, rate-limited, why a value that was written to a file of @device was refused. */
void mlx5_ulp_shim_refused(const char *device, const char *file, const char *reason);

/* Say, rate-limited, that the function @call was called with a handle that is none, and by whom. */
void mlx5_ulp_shim_stale(const char *call);

/* Module parameters, see module_params.c. */
extern char *mlx5_ulp_param_doorbell_mode;
extern char *mlx5_ulp_param_doorbell_batch;
extern char *mlx5_ulp_param_doorbell_max_batch;
extern char *mlx5_ulp_param_doorbell_max_hold_us;
extern char *mlx5_ulp_param_cq_moderation;
extern char *mlx5_ulp_param_vf_qid_cache_size;
extern char *mlx5_ulp_param_latency_stats;
extern char *mlx5_ulp_param_prefetch;
extern char *mlx5_ulp_param_blueflame;
extern char *mlx5_ulp_param_max_inline;
extern char *mlx5_ulp_param_wqe_compression;
extern char *mlx5_ulp_param_wqe_alignment;

/*
 * Map the page at @addr, which is in the linear map or from vmalloc; @dir is of
 * enum dma_data_direction. -EINVAL if there is no page, -EIO if the device cannot
 * reach it, -EOPNOTSUPP if it reaches a bounce buffer in its place.
 */
int mlx5_ulp_shim_map_page(struct device *dev, const void *addr,
			   unsigned int dir, dma_addr_t *dma);

/* Pages of a range: how many, where it begins in the first, bytes. */
struct mlx5_ulp_pages {
	u32 count;
	u64 offset;
	u64 length;
};

/*
 * Write the DMA addresses of the pages of a mapped scatterlist to @pages, up to
 * @room of them, and count them all. -EINVAL if it has a hole: an entry that
 * doesn't begin or end at a page's, but at the ends of the list; or if it is
 * empty.
 */
int mlx5_ulp_shim_sg_pages(struct scatterlist *sgl, unsigned int nents, u64 *pages,
			   u32 room, struct mlx5_ulp_pages *range);

/*
 * What mlx5_core_destroy_cq() does after its command, for a queue whose command
 * failed: when this returns, no callback of @cq runs or is going to.
 */
void mlx5_ulp_shim_cq_quiesce(struct mlx5_core_cq *cq);

/* What mlx5_cmd_is_down() of mlx5_core says, which it keeps to itself. */
bool mlx5_ulp_shim_is_down(const struct mlx5_core_dev *mdev);

/* The physical function of @pdev, itself if it is one; the port above, or NULL. */
struct pci_dev *mlx5_ulp_shim_physfn(struct pci_dev *pdev);
struct pci_dev *mlx5_ulp_shim_upstream(struct pci_dev *pdev);

/* domain << 16 | bus << 8 | device << 3 | function */
u32 mlx5_ulp_shim_pci_address(struct pci_dev *pdev);

unsigned int mlx5_ulp_shim_online_cpus(void);

void mlx5_ulp_shim_tracepoint_synchronize(void);

/*
 * arch_spin_lock() and arch_spin_unlock(): the owner keeps interrupts off. The
 * latter then restores them. See sync.rs.
 */
void mlx5_ulp_shim_lock_init(spinlock_t *lock);
void mlx5_ulp_shim_spin_wait(spinlock_t *lock);
void mlx5_ulp_shim_spin_release(spinlock_t *lock, unsigned long flags);

/* local_irq_save() and local_irq_restore(), which say so to who checks or traces. */
unsigned long mlx5_ulp_shim_irq_save(void);
void mlx5_ulp_shim_irq_restore(unsigned long flags);

/*
 * What sync.rs writes out inline depends on where the kernel runs: called before
 * the first lock is taken. -EOPNOTSUPP where a CPU's interrupts are not turned off
 * by its own instruction (Xen PV).
 */
int mlx5_ulp_shim_prepare_locks(void);

/* MLX5_TERMINATE_SCATTER_LIST_LKEY as a number, for Rust to compare. */
enum { MLX5_ULP_TERMINATE_LKEY = 0x100 };

/* Softirqs off and on again on this CPU; nests. */
void mlx5_ulp_shim_bh_disable(void);
void mlx5_ulp_shim_bh_enable(void);

/* Entries of a QID translation cache, a power of two from 8 to 65536: see Kbuild. */
enum { MLX5_ULP_VF_QID_CACHE_ENTRIES = MLX5_VF_QID_CACHE_SIZE };

/*
 * Per-CPU words: @size bytes of them, zeroed; one of this CPU counted up; those of
 * all CPUs at @offset added.
 */
void *mlx5_ulp_shim_percpu_alloc(size_t size);
void mlx5_ulp_shim_percpu_free(void *base);
void mlx5_ulp_shim_percpu_inc(void *word);
u64 mlx5_ulp_shim_percpu_sum(const void *base, size_t offset);

/* Latencies are measured while this is enabled; see observe/latency.rs. */
struct mlx5_ulp_static_key {
	struct static_key_false key;
};

extern struct mlx5_ulp_static_key mlx5_ulp_latency_key;

/* Enabled where a hypervisor has to hear of unlocking. */
extern struct mlx5_ulp_static_key mlx5_ulp_paravirtual_key;

/* One more who wants it enabled, or one less. */
void mlx5_ulp_shim_latency(bool on);

/*
 * Enabled while somebody wants to know of each post and of each completion: by
 * a tracepoint, or to measure latencies. So the usual way has one branch for all.
 */
extern struct mlx5_ulp_static_key mlx5_ulp_posting_key;
extern struct mlx5_ulp_static_key mlx5_ulp_completing_key;

/* Number of this CPU, for a caller that stays on it. */
unsigned int mlx5_ulp_shim_cpu(void);

/* The device's free-running clock. */
u64 mlx5_ulp_shim_device_clock(struct mlx5_core_dev *mdev);

#endif /* MLX5_ULP_SHIM_H */
