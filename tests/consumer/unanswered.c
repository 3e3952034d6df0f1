// SPDX-License-Identifier: GPL-2.0
/*
 * A queue and a region on each device, given back by a task of its own: whoever does
 * not hear that an object is destroyed keeps nobody else waiting.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>

#include "test.h"

enum { DEVICES = 4 };

static struct tenant {
	struct mlx5_ulp_device *device;
	struct mlx5_ulp_queue *queue;
	struct mlx5_ulp_region *region;
	void *memory;
	struct work_struct leave;
} tenants[DEVICES];

static void tenant_leave(struct work_struct *work)
{
	struct tenant *t = container_of(work, struct tenant, leave);

	if (!IS_ERR_OR_NULL(t->queue))
		mlx5_ulp_queue_destroy(t->queue);
	if (!IS_ERR_OR_NULL(t->region) && mlx5_ulp_region_destroy(t->region))
		t->memory = NULL;
	if (!IS_ERR_OR_NULL(t->device))
		mlx5_ulp_close(t->device);
	free_page((unsigned long)t->memory);
}

static int tenant_enter(struct tenant *t, int number)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 16 };
	char name[16];

	INIT_WORK(&t->leave, tenant_leave);
	snprintf(name, sizeof(name), "mlx5_%d", number);
	t->memory = (void *)get_zeroed_page(GFP_KERNEL);
	if (!t->memory)
		return -ENOMEM;
	t->device = mlx5_ulp_open(name, NULL);
	if (IS_ERR(t->device))
		return FAIL("cannot open %s: %pe", name, t->device);
	t->queue = mlx5_ulp_queue_create(t->device, &attr);
	t->region = mlx5_ulp_region_create(t->device, t->memory, PAGE_SIZE,
					   MLX5_ULP_ACCESS_REMOTE_WRITE);
	if (IS_ERR(t->queue) || IS_ERR(t->region))
		return FAIL("%s: no queue or region: %pe, %pe", name, t->queue, t->region);
	return 0;
}

/* They stay until test_unanswered_end(). */
int test_unanswered(void)
{
	int i, err = 0;

	for (i = 0; !err && i < DEVICES; i++)
		err = tenant_enter(&tenants[i], i);
	if (err)
		test_unanswered_end();
	return err;
}

void test_unanswered_end(void)
{
	int i;

	for (i = 0; i < DEVICES; i++)
		if (tenants[i].leave.func)
			schedule_work(&tenants[i].leave);
	for (i = 0; i < DEVICES; i++)
		if (tenants[i].leave.func)
			flush_work(&tenants[i].leave);
}
