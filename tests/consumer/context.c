// SPDX-License-Identifier: GPL-2.0
/*
 * Where calls are made: in a hard interrupt, and in the exit function of a consumer
 * whose device goes at the same time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/preempt.h>

#include "test.h"

enum { DEPTH = 8, PIECE = 64 };

/* Posts everything that may be called in any context, from an interrupt. */
struct interrupt {
	struct irq_work work;
	struct pair *pair;
	struct tally tally;
	int err;
};

static void post_in_interrupt(struct irq_work *work)
{
	struct interrupt *irq = container_of(work, struct interrupt, work);
	const struct mlx5_ulp_receive receive = {};
	struct mlx5_ulp_queue_stats stats;
	struct mlx5_ulp_reservation room = {};
	struct pair *pair = irq->pair;
	struct mlx5_ulp_work works[2];
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;

	write = pair_write(pair, &irq->tally, &sge, 0, PIECE);
	works[0] = (struct mlx5_ulp_work) {
		.request = &irq->tally.request, .opcode = MLX5_ULP_OP_SEND,
	};
	works[1] = works[0];
	works[1].opcode = MLX5_ULP_OP_WRITE;
	works[1].sge = &sge;
	works[1].num_sge = 1;
	works[1].remote_addr = write.remote_addr;
	works[1].rkey = write.rkey;
	irq->err = EXPECT(!in_hardirq(), false) ?:
		   EXPECT(mlx5_ulp_post_receives(pair->receiver, &receive, 1), 0) ?:
		   EXPECT(mlx5_ulp_post_write(pair->sender, &write), 0) ?:
		   EXPECT(mlx5_ulp_reserve(pair->sender, &room, 2), 0) ?:
		   EXPECT(mlx5_ulp_post_reserved(pair->sender, &room, works, 1), 0) ?:
		   (mlx5_ulp_release(pair->sender, &room), 0) ?:
		   EXPECT(mlx5_ulp_post(pair->sender, &works[1], 1), 0);
	mlx5_ulp_flush(pair->sender);
	mlx5_ulp_queue_query_stats(pair->sender, &stats);
	irq->err = irq->err ?: EXPECT(mlx5_ulp_queue_qpn(pair->sender) != 0, true) ?:
		   EXPECT(stats.posted, 3);
}

int test_in_interrupt(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH };
	struct interrupt irq = {};
	struct pair pair;
	int err;

	err = pair_open(&pair, PIECE, &attr) ?: pair_connect(&pair);
	if (err)
		return err;
	irq.pair = &pair;
	tally_init(&irq.tally);
	/* Not one that lockdep takes for an interrupt under PREEMPT_RT, too. */
	irq.work = IRQ_WORK_INIT(post_in_interrupt);
	irq_work_queue(&irq.work);
	irq_work_sync(&irq.work);
	err = irq.err ?: tally_wait(&irq.tally, 3, 30) ?:
	      EXPECT(atomic_read(&irq.tally.done), 3) ?: pair_compare(&pair, 0, PIECE);
	pair_close(&pair);
	return err;
}

/* A handle that is closed when the module is unloaded, and not sooner. */
static struct {
	struct mlx5_ulp_device *dev;
	int notices;
} unloading;

static void unloading_notice(void *context)
{
	unloading.notices++;
}

/* Leaves it open: see test_unloading_end(). */
int test_unloading(void)
{
	const struct mlx5_ulp_open_attr attr = {
		.removal = unloading_notice,
		.owner = THIS_MODULE,
	};

	unloading.dev = mlx5_ulp_open(test_src, &attr);
	return PTR_ERR_OR_ZERO(unloading.dev);
}

/*
 * Waits in the middle of its exit until the device goes, too: that cannot tell who
 * is being unloaded, and waits until it has closed its handle.
 */
void test_unloading_end(void)
{
	unsigned long end = jiffies + 60 * HZ;
	struct mlx5_ulp_device *other;

	if (IS_ERR_OR_NULL(unloading.dev))
		return;
	pr_info("unloading: begins\n");
	while (!IS_ERR(other = mlx5_ulp_open(test_src, NULL)) && time_before(jiffies, end)) {
		mlx5_ulp_close(other);
		msleep(20);
	}
	/* As long as it likes. */
	msleep(500);
	pr_info("unloading: other %d notices %d key %d device %d\n", PTR_ERR_OR_ZERO(other),
		unloading.notices, mlx5_ulp_local_key(unloading.dev) != 0,
		!!mlx5_ulp_dma_device(unloading.dev));
	mlx5_ulp_close(unloading.dev);
}
