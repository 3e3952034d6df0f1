// SPDX-License-Identifier: GPL-2.0

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bottom_half.h>
#include <linux/build_bug.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/mlx5/qp.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include <trace/events/mlx5_ulp.h>

#include "api/stale.h"
#include "shim.h"

static_assert(cpu_to_be32(MLX5_ULP_TERMINATE_LKEY) == MLX5_TERMINATE_SCATTER_LIST_LKEY);

struct mlx5_core_dev *mlx5_ulp_shim_mdev(const struct ib_device *ibdev)
{
	struct device *parent = ibdev->dev.parent;
	struct mlx5_core_dev *mdev;

	/*
	 * Below a sub-function is an auxiliary device, whose driver data is
	 * another struct. Only the driver of the PCI function itself puts its
	 * mlx5_core_dev there.
	 */
	if (!parent || !dev_is_pci(parent) || !parent->driver ||
	    strcmp(parent->driver->name, "mlx5_core"))
		return NULL;

	mdev = pci_get_drvdata(to_pci_dev(parent));
	return mdev && mdev->pdev == to_pci_dev(parent) ? mdev : NULL;
}

struct ib_device *mlx5_ulp_shim_to_ibdev(struct device *dev)
{
	return rdma_device_to_ibdev(dev);
}

void *mlx5_ulp_shim_client_data(struct ib_device *ibdev, struct ib_client *client)
{
	return ib_get_client_data(ibdev, client);
}

void mlx5_ulp_shim_refused(const char *device, const char *file, const char *reason)
{
	pr_notice_ratelimited("%s: %s: value refused: %s\n", device, file, reason);
}

void mlx5_ulp_shim_stale(const char *call)
{
	mlx5_ulp_report_stale(call);
}

int mlx5_ulp_shim_map_page(struct device *dev, const void *addr,
			   unsigned int dir, dma_addr_t *dma)
{
	struct page *page = NULL;

	if (is_vmalloc_addr(addr))
		page = vmalloc_to_page(addr);
	else if (virt_addr_valid(addr))
		page = virt_to_page(addr);
	if (!page)
		return -EINVAL;

	*dma = dma_map_page(dev, page, 0, PAGE_SIZE, dir);
	if (dma_mapping_error(dev, *dma))
		return -EIO;
	/*
	 * Nobody copies between the page and a bounce buffer as long as it stays
	 * mapped. With DMA debugging the answer is yes for all that an IOMMU maps.
	 */
	if (!IS_ENABLED(CONFIG_DMA_API_DEBUG) && dma_need_sync(dev, *dma)) {
		dma_unmap_page(dev, *dma, PAGE_SIZE, dir);
		return -EOPNOTSUPP;
	}
	return 0;
}

int mlx5_ulp_shim_sg_pages(struct scatterlist *sgl, unsigned int nents, u64 *pages,
			   u32 room, struct mlx5_ulp_pages *range)
{
	struct scatterlist *sg;
	unsigned int i;

	memset(range, 0, sizeof(*range));
	for_each_sg(sgl, sg, nents, i) {
		u64 start = sg_dma_address(sg), end = start + sg_dma_len(sg), page;

		if (start == end || (i && offset_in_page(start)) ||
		    (i + 1 < nents && offset_in_page(end)))
			return -EINVAL;
		if (!i)
			range->offset = offset_in_page(start);
		for (page = start - offset_in_page(start); page < end; page += PAGE_SIZE) {
			if (range->count < room)
				pages[range->count] = page;
			range->count++;
		}
		range->length += end - start;
	}
	return range->count ? 0 : -EINVAL;
}

void mlx5_ulp_shim_cq_quiesce(struct mlx5_core_cq *cq)
{
	synchronize_irq(cq->irqn);
	mlx5_cq_put(cq);
	wait_for_completion(&cq->free);
}

bool mlx5_ulp_shim_is_down(const struct mlx5_core_dev *mdev)
{
	return pci_channel_offline(mdev->pdev) ||
	       READ_ONCE(mdev->cmd.state) != MLX5_CMDIF_STATE_UP ||
	       READ_ONCE(mdev->state) == MLX5_DEVICE_STATE_INTERNAL_ERROR;
}

void mlx5_ulp_shim_lock_init(spinlock_t *lock)
{
	spin_lock_init(lock);
}

void mlx5_ulp_shim_spin_wait(spinlock_t *lock)
{
	arch_spin_lock(&lock->rlock.raw_lock);
}

void mlx5_ulp_shim_spin_release(spinlock_t *lock, unsigned long flags)
{
	arch_spin_unlock(&lock->rlock.raw_lock);
	local_irq_restore(flags);
}

unsigned long mlx5_ulp_shim_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void mlx5_ulp_shim_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

struct mlx5_ulp_static_key mlx5_ulp_paravirtual_key = { STATIC_KEY_FALSE_INIT };

int mlx5_ulp_shim_prepare_locks(void)
{
#ifdef CONFIG_X86
	if (cpu_feature_enabled(X86_FEATURE_XENPV))
		return -EOPNOTSUPP;
#ifdef CONFIG_PARAVIRT_SPINLOCKS
	/* On hardware both are paravirt_nop(). Where waiters sleep, unlocking wakes them. */
	if ((void *)pv_ops_lock.wait != (void *)pv_ops_lock.kick)
		static_branch_enable(&mlx5_ulp_paravirtual_key.key);
#endif
#endif
	return 0;
}

void mlx5_ulp_shim_bh_disable(void)
{
	local_bh_disable();
}

void mlx5_ulp_shim_bh_enable(void)
{
	local_bh_enable();
}

struct pci_dev *mlx5_ulp_shim_physfn(struct pci_dev *pdev)
{
	return pci_physfn(pdev);
}

struct pci_dev *mlx5_ulp_shim_upstream(struct pci_dev *pdev)
{
	return pci_upstream_bridge(pdev);
}

u32 mlx5_ulp_shim_pci_address(struct pci_dev *pdev)
{
	return (u32)pci_domain_nr(pdev->bus) << 16 | pci_dev_id(pdev);
}

unsigned int mlx5_ulp_shim_online_cpus(void)
{
	return num_online_cpus();
}

void mlx5_ulp_shim_tracepoint_synchronize(void)
{
	tracepoint_synchronize_unregister();
}

void *mlx5_ulp_shim_percpu_alloc(size_t size)
{
	return (void *)(__force unsigned long)__alloc_percpu(size, sizeof(u64));
}

void mlx5_ulp_shim_percpu_free(void *base)
{
	free_percpu((void __percpu *)(__force unsigned long)base);
}

void mlx5_ulp_shim_percpu_inc(void *word)
{
	this_cpu_inc(*(u64 __percpu *)(__force unsigned long)word);
}

u64 mlx5_ulp_shim_percpu_sum(const void *base, size_t offset)
{
	const char __percpu *words = (const char __percpu *)(__force unsigned long)base;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*(const u64 *)(per_cpu_ptr(words, cpu) + offset));
	return sum;
}

struct mlx5_ulp_static_key mlx5_ulp_latency_key = { STATIC_KEY_FALSE_INIT };

struct mlx5_ulp_static_key mlx5_ulp_posting_key = { STATIC_KEY_FALSE_INIT };
struct mlx5_ulp_static_key mlx5_ulp_completing_key = { STATIC_KEY_FALSE_INIT };

/* Called when a tracepoint gets its first listener, and when it has lost the last. */
int mlx5_ulp_watch_posting(void)
{
	static_branch_inc(&mlx5_ulp_posting_key.key);
	return 0;
}

void mlx5_ulp_unwatch_posting(void)
{
	static_branch_dec(&mlx5_ulp_posting_key.key);
}

int mlx5_ulp_watch_completing(void)
{
	static_branch_inc(&mlx5_ulp_completing_key.key);
	return 0;
}

void mlx5_ulp_unwatch_completing(void)
{
	static_branch_dec(&mlx5_ulp_completing_key.key);
}

void mlx5_ulp_shim_latency(bool on)
{
	if (on) {
		static_branch_inc(&mlx5_ulp_latency_key.key);
		static_branch_inc(&mlx5_ulp_posting_key.key);
		static_branch_inc(&mlx5_ulp_completing_key.key);
	} else {
		static_branch_dec(&mlx5_ulp_completing_key.key);
		static_branch_dec(&mlx5_ulp_posting_key.key);
		static_branch_dec(&mlx5_ulp_latency_key.key);
	}
}

unsigned int mlx5_ulp_shim_cpu(void)
{
	return raw_smp_processor_id();
}

u64 mlx5_ulp_shim_device_clock(struct mlx5_core_dev *mdev)
{
	u32 high, low, again;

	high = ioread32be(&mdev->iseg->internal_timer_h);
	low = ioread32be(&mdev->iseg->internal_timer_l);
	again = ioread32be(&mdev->iseg->internal_timer_h);
	/* The low half has wrapped around in between. */
	if (high != again)
		low = ioread32be(&mdev->iseg->internal_timer_l);
	return (u64)again << 32 | low;
}
