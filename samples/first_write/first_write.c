// SPDX-License-Identifier: GPL-2.0
/*
 * A first RDMA WRITE: from memory of one device to memory of another one of this
 * machine.
 *
 *	insmod first_write.ko from=mlx5_0 to=mlx5_1
 *
 * Documentation/tutorial.rst goes through it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <mlx5_ulp.h>

#define LENGTH 4096

static char *from = "mlx5_0";
module_param(from, charp, 0444);
MODULE_PARM_DESC(from, "RDMA device that writes");

static char *to = "mlx5_1";
module_param(to, charp, 0444);
MODULE_PARM_DESC(to, "RDMA device whose memory is written");

/* One end: a device, memory that it reaches, a queue. */
struct end {
	struct mlx5_ulp_device *dev;
	char *memory;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_queue *queue;
};

/* A request, and how it ended. */
struct greeting {
	struct mlx5_ulp_request request;
	struct completion ended;
	int status;
};

static int end_open(struct end *end, const char *name, unsigned int access)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 16, .access = access };

	end->memory = kzalloc(LENGTH, GFP_KERNEL);
	if (!end->memory)
		return -ENOMEM;
	end->dev = mlx5_ulp_open(name, NULL);
	if (IS_ERR(end->dev))
		return PTR_ERR(end->dev);
	end->region = mlx5_ulp_region_create(end->dev, end->memory, LENGTH, access);
	if (IS_ERR(end->region))
		return PTR_ERR(end->region);
	end->queue = mlx5_ulp_queue_create(end->dev, &attr);
	return PTR_ERR_OR_ZERO(end->queue);
}

/* As far as it was opened. */
static void end_close(struct end *end)
{
	if (!IS_ERR_OR_NULL(end->queue))
		mlx5_ulp_queue_destroy(end->queue);
	/* Memory that the device may still reach is not freed. */
	if (!IS_ERR_OR_NULL(end->region) && mlx5_ulp_region_destroy(end->region))
		end->memory = NULL;
	if (!IS_ERR_OR_NULL(end->dev))
		mlx5_ulp_close(end->dev);
	kfree(end->memory);
}

/* Between two machines, the address would travel from one to the other. */
static int connect(struct end *end, const struct end *peer)
{
	struct mlx5_ulp_address address;
	int err;

	err = mlx5_ulp_queue_address(peer->queue, MLX5_ULP_GID_AUTO, &address);
	if (err)
		return err;
	return mlx5_ulp_queue_connect(end->queue, &address, NULL);
}

static void greeting_done(struct mlx5_ulp_request *request,
			  const struct mlx5_ulp_completion *completion)
{
	struct greeting *greeting = container_of(request, struct greeting, request);

	greeting->status = completion->status;
	complete(&greeting->ended);
}

static int greet(const struct end *source, const struct end *target)
{
	struct greeting greeting = { .request.done = greeting_done };
	const struct mlx5_ulp_sge sge = {
		.addr = (uintptr_t)source->memory,
		.length = LENGTH,
		.lkey = mlx5_ulp_region_key(source->region),
	};
	const struct mlx5_ulp_write write = {
		.request = &greeting.request,
		.sge = &sge,
		.num_sge = 1,
		.flags = MLX5_ULP_LAST,
		.remote_addr = (uintptr_t)target->memory,
		.rkey = mlx5_ulp_region_key(target->region),
	};
	int err;

	init_completion(&greeting.ended);
	err = mlx5_ulp_post_write(source->queue, &write);
	if (err)
		return err;
	wait_for_completion(&greeting.ended);
	return greeting.status;
}

static int __init first_write_init(void)
{
	struct end source = {}, target = {};
	int err;

	err = end_open(&source, from, MLX5_ULP_ACCESS_LOCAL) ?:
	      end_open(&target, to, MLX5_ULP_ACCESS_REMOTE_WRITE) ?:
	      connect(&source, &target) ?: connect(&target, &source);
	if (!err) {
		strscpy(source.memory, "hello, world", LENGTH);
		err = greet(&source, &target);
	}
	if (err)
		pr_err("%s to %s: error %d\n", from, to, err);
	else
		pr_info("%s has '%s'\n", to, target.memory);
	end_close(&source);
	end_close(&target);
	return err;
}

static void __exit first_write_exit(void)
{
}

module_init(first_write_init);
module_exit(first_write_exit);
MODULE_DESCRIPTION("A first RDMA WRITE through mlx5_ulp");
MODULE_LICENSE("GPL");
