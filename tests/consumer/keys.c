// SPDX-License-Identifier: GPL-2.0
/*
 * Keys: fast registration, invalidation by both ends, scatterlists, all memory.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/mlx5/cq.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

#include "test.h"

enum { PAGES = 4, BEGIN = 104, LENGTH = 3 * PAGE_SIZE, BYTES = 4 * PAGE_SIZE };

static const struct mlx5_ulp_queue_attr attr = {
	.depth = 16, .flags = MLX5_ULP_QUEUE_REGISTERS,
};

/* Pages that are not one behind the other, mapped for one of the devices. */
struct pages {
	struct page *page[PAGES];
	struct scatterlist sg[PAGES];
	struct device *device;
	int mapped;
};

static void pages_free(struct pages *pages)
{
	int i;

	if (pages->mapped)
		dma_unmap_sg(pages->device, pages->sg, PAGES, DMA_BIDIRECTIONAL);
	for (i = 0; i < PAGES; i++)
		if (pages->page[i])
			__free_page(pages->page[i]);
}

/* LENGTH bytes from offset BEGIN of the first page on. */
static int pages_alloc(struct pages *pages, struct mlx5_ulp_device *dev)
{
	int i;

	memset(pages, 0, sizeof(*pages));
	pages->device = mlx5_ulp_dma_device(dev);
	/* The first is allocated last: the list does not go up. */
	for (i = PAGES - 1; i >= 0; i--) {
		pages->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages->page[i])
			return -ENOMEM;
	}
	sg_init_table(pages->sg, PAGES);
	for (i = 0; i < PAGES; i++) {
		u32 begin = i ? 0 : BEGIN;
		u32 end = i < PAGES - 1 ? PAGE_SIZE : BEGIN;

		sg_set_page(&pages->sg[i], pages->page[i], end - begin, begin);
	}
	pages->mapped = dma_map_sg(pages->device, pages->sg, PAGES, DMA_BIDIRECTIONAL);
	return pages->mapped ? 0 : -EIO;
}

/* Whether they hold what is at the source, and nothing before or behind it. */
static int pages_compare(struct pages *pages, const struct pair *pair)
{
	int i;

	for (i = 0; i < BYTES; i++) {
		u8 is = ((u8 *)page_address(pages->page[i / PAGE_SIZE]))[i % PAGE_SIZE];
		bool inside = i >= BEGIN && i < BEGIN + LENGTH;
		u8 should = inside ? pair->from_memory[i - BEGIN] : 0;

		if (is != should)
			return FAIL("byte %d is %#x, should be %#x", i, is, should);
	}
	return 0;
}

/* Posts one request and waits for it. */
static int carry_out(struct mlx5_ulp_queue *queue, struct mlx5_ulp_work work)
{
	struct tally tally;

	tally_init(&tally);
	work.request = &tally.request;
	return EXPECT(mlx5_ulp_post(queue, &work, 1), 0) ?: tally_wait(&tally, 1, 20) ?:
	       tally.first_status;
}

static int carry_register(struct mlx5_ulp_queue *queue, struct mlx5_ulp_fast_region *region,
			  u32 access)
{
	return carry_out(queue, (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_REGISTER, .region = region, .access = access,
	});
}

/* WRITEs LENGTH bytes to @remote with @rkey. */
static int carry_write(struct pair *pair, u64 remote, u32 rkey)
{
	struct mlx5_ulp_sge sge = pair_sge(pair, 0, LENGTH);

	return carry_out(pair->sender, (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_WRITE, .sge = &sge, .num_sge = 1,
		.remote_addr = remote, .rkey = rkey,
	});
}

static void invalidated(struct mlx5_ulp_request *request,
			const struct mlx5_ulp_completion *completion);

static struct {
	struct mlx5_ulp_request request;
	u32 key;
	bool done;
} told = { .request.done = invalidated };

static void invalidated(struct mlx5_ulp_request *request,
			const struct mlx5_ulp_completion *completion)
{
	if (!completion->status && completion->flags == MLX5_ULP_WITH_INVALIDATE)
		told.key = completion->invalidated_key;
	told.done = true;
}

/* Twice around with one key: the peer makes it useless, then its owner does. */
static int register_and_invalidate(struct pair *pair, struct mlx5_ulp_fast_region *region,
				   struct pages *pages)
{
	const u32 access = MLX5_ULP_ACCESS_REMOTE_WRITE | MLX5_ULP_ACCESS_REMOTE_READ;
	const struct mlx5_ulp_receive receive = { .request = &told.request };
	struct mlx5_ulp_sge sge = pair_sge(pair, 0, LENGTH);
	u32 key, again;
	int err;

	err = EXPECT(mlx5_ulp_fast_region_map(region, pages->sg, pages->mapped), 0) ?:
	      EXPECT(carry_register(pair->receiver, region, access), 0);
	key = mlx5_ulp_fast_region_key(region);
	err = err ?: EXPECT(carry_write(pair, mlx5_ulp_fast_region_address(region), key), 0) ?:
	      pages_compare(pages, pair);
	if (err)
		return err;
	/* Comes back as it went. */
	memset(pair->from_memory, 0, LENGTH);
	err = carry_out(pair->sender, (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_READ, .sge = &sge, .num_sge = 1, .rkey = key,
		.remote_addr = mlx5_ulp_fast_region_address(region),
	});
	err = err ?: pages_compare(pages, pair) ?:
	      EXPECT(mlx5_ulp_post_receives(pair->receiver, &receive, 1), 0) ?:
	      carry_out(pair->sender, (struct mlx5_ulp_work) {
			.opcode = MLX5_ULP_OP_SEND_INV, .invalidate_key = key,
	      }) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair->receiver), 0);
	while (!err && !READ_ONCE(told.done))
		cond_resched();
	err = err ?: EXPECT(told.key, key) ?:
	      EXPECT(mlx5_ulp_fast_region_map(region, pages->sg, pages->mapped), 0) ?:
	      EXPECT(carry_register(pair->receiver, region, access), 0);
	again = mlx5_ulp_fast_region_key(region);
	err = err ?: EXPECT(again >> 8, key >> 8) ?: EXPECT(again == key, 0) ?:
	      EXPECT(carry_write(pair, mlx5_ulp_fast_region_address(region), again), 0) ?:
	      carry_out(pair->receiver, (struct mlx5_ulp_work) {
			.opcode = MLX5_ULP_OP_INVALIDATE, .invalidate_key = again,
	      });
	/* Refused from here on. */
	return err ?: EXPECT(carry_write(pair, mlx5_ulp_fast_region_address(region), again),
			     -EREMOTEIO);
}

int test_registration(void)
{
	struct mlx5_ulp_fast_region *region = NULL;
	struct pages pages = {};
	struct pair pair;
	int err;

	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair) ?:
	      pages_alloc(&pages, pair.dst);
	if (!err) {
		region = mlx5_ulp_fast_region_create(pair.dst, PAGES);
		err = IS_ERR(region) ? FAIL("no fast region: %ld", PTR_ERR(region)) :
		      register_and_invalidate(&pair, region, &pages);
	}
	mlx5_ulp_queue_stop(pair.receiver);
	if (!IS_ERR_OR_NULL(region))
		mlx5_ulp_fast_region_destroy(region);
	pages_free(&pages);
	pair_close(&pair);
	return err;
}

/* A request that is posted behind a registration uses its key, whichever way it is posted. */
int test_registered_source(void)
{
	struct mlx5_ulp_fast_region *region = NULL;
	struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_REGISTER };
	struct mlx5_ulp_write write = { .num_sge = 1 };
	struct pages pages = {};
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair) ?:
	      pages_alloc(&pages, pair.src);
	if (err)
		goto close;
	for (i = 0; i < LENGTH; i++)
		((u8 *)page_address(pages.page[(BEGIN + i) / PAGE_SIZE]))
			[(BEGIN + i) % PAGE_SIZE] = pair.from_memory[i];
	region = mlx5_ulp_fast_region_create(pair.src, PAGES);
	if (IS_ERR(region)) {
		err = FAIL("no fast region: %ld", PTR_ERR(region));
		goto close;
	}
	err = EXPECT(mlx5_ulp_fast_region_map(region, pages.sg, pages.mapped), 0);
	sge = (struct mlx5_ulp_sge) {
		.addr = mlx5_ulp_fast_region_address(region),
		.length = LENGTH,
		.lkey = mlx5_ulp_fast_region_key(region),
	};
	work.region = region;
	work.flags = MLX5_ULP_UNSIGNALED | MLX5_ULP_MORE;
	write.sge = &sge;
	write.request = &tally.request;
	write.remote_addr = pair_remote(&pair, 0);
	write.rkey = mlx5_ulp_region_key(pair.to);
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0) ?:
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0) ?:
	      tally_wait(&tally, 2, 20) ?: EXPECT(atomic_read(&tally.done), 2) ?:
	      pair_compare(&pair, 0, LENGTH);
close:
	if (!IS_ERR_OR_NULL(region))
		mlx5_ulp_fast_region_destroy(region);
	pages_free(&pages);
	pair_close(&pair);
	return err;
}

/* What the module refuses, and what the device does. */
int test_registration_refusals(void)
{
	const struct mlx5_ulp_queue_attr plain = { .depth = 16, .max_sge = 6 };
	struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_REGISTER };
	struct mlx5_ulp_fast_region *region = NULL, *none;
	struct pages pages = {};
	struct pair pair;
	int err;

	err = pair_open(&pair, BYTES, &plain) ?: pair_connect(&pair) ?:
	      pages_alloc(&pages, pair.dst);
	if (err)
		goto close;
	none = mlx5_ulp_fast_region_create(pair.dst, 0);
	err = EXPECT(PTR_ERR_OR_ZERO(none), -EINVAL);
	none = mlx5_ulp_fast_region_create(pair.dst, MLX5_ULP_MAX_FAST_PAGES + 1);
	err = err ?: EXPECT(PTR_ERR_OR_ZERO(none), -EINVAL);
	region = mlx5_ulp_fast_region_create(pair.dst, PAGES - 1);
	if (IS_ERR(region))
		err = FAIL("no fast region: %ld", PTR_ERR(region));
	if (err)
		goto close;
	err = EXPECT(mlx5_ulp_post(pair.receiver, &work, 1), -EINVAL);
	work.region = region;
	err = err ?: EXPECT(mlx5_ulp_post(pair.receiver, &work, 1), -EINVAL) ?:
	      EXPECT(mlx5_ulp_fast_region_map(region, pages.sg, pages.mapped), -EMSGSIZE) ?:
	      EXPECT(mlx5_ulp_fast_region_map(region, pages.sg, 0), -EINVAL);
	/* A hole behind the first entry. */
	sg_dma_len(&pages.sg[0]) -= 8;
	err = err ?: EXPECT(mlx5_ulp_fast_region_map(region, pages.sg, 2), -EINVAL);
	sg_dma_len(&pages.sg[0]) += 8;
	err = err ?: EXPECT(mlx5_ulp_post(pair.receiver, &work, 1), -EINVAL) ?:
	      EXPECT(mlx5_ulp_fast_region_map(region, pages.sg, PAGES - 1), 0);
	work.access = 1 << 10;
	err = err ?: EXPECT(mlx5_ulp_post(pair.receiver, &work, 1), -EINVAL);
	work.access = 0;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EMSGSIZE) ?:
	      EXPECT(carry_register(pair.receiver, region, 0), 0) ?:
	      EXPECT(carry_register(pair.receiver, region, 0), -EIO);
close:
	if (!IS_ERR_OR_NULL(region))
		mlx5_ulp_fast_region_destroy(region);
	pages_free(&pages);
	pair_close(&pair);
	return err;
}

/* A list registered by a command; the same memory by a key to all memory. */
int test_regions(void)
{
	struct mlx5_ulp_region *region = NULL, *none;
	struct pages pages = {};
	struct pair pair;
	u32 key = 0;
	int i, err;

	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair) ?:
	      pages_alloc(&pages, pair.dst);
	if (err)
		goto close;
	none = mlx5_ulp_region_create_sg(pair.dst, pages.sg, 0, 0);
	err = EXPECT(PTR_ERR_OR_ZERO(none), -EINVAL);
	region = mlx5_ulp_region_create_sg(pair.dst, pages.sg, pages.mapped,
					   MLX5_ULP_ACCESS_REMOTE_WRITE);
	if (IS_ERR(region))
		err = FAIL("no region: %ld", PTR_ERR(region));
	err = err ?: EXPECT(carry_write(&pair, mlx5_ulp_region_address(region),
					mlx5_ulp_region_key(region)), 0) ?:
	      pages_compare(&pages, &pair);
	for (i = 0; i < PAGES; i++)
		memset(page_address(pages.page[i]), 0, PAGE_SIZE);
	err = err ?: EXPECT(mlx5_ulp_unsafe_global_key(pair.dst, 1 << 10, &key), -EINVAL) ?:
	      EXPECT(mlx5_ulp_unsafe_global_key(pair.dst, MLX5_ULP_ACCESS_REMOTE_WRITE, &key), 0);
	for (i = 0; !err && i < PAGES; i++) {
		struct mlx5_ulp_sge sge = pair_sge(&pair, i ? i * PAGE_SIZE - BEGIN : 0,
						   sg_dma_len(&pages.sg[i]));

		err = carry_out(pair.sender, (struct mlx5_ulp_work) {
			.opcode = MLX5_ULP_OP_WRITE, .sge = &sge, .num_sge = 1, .rkey = key,
			.remote_addr = sg_dma_address(&pages.sg[i]),
		});
	}
	err = err ?: pages_compare(&pages, &pair);
close:
	if (!IS_ERR_OR_NULL(region))
		mlx5_ulp_region_destroy(region);
	pages_free(&pages);
	pair_close(&pair);
	return err;
}

/* The device refuses to destroy keys: the caller hears of it, and gives the memory up. */
int test_kept_region(void)
{
	struct mlx5_ulp_fast_region *fast;
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_device *dev;
	void *memory;
	int err;

	dev = mlx5_ulp_open(test_src, NULL);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	memory = (void *)get_zeroed_page(GFP_KERNEL);
	region = mlx5_ulp_region_create(dev, memory, PAGE_SIZE, MLX5_ULP_ACCESS_REMOTE_WRITE);
	fast = mlx5_ulp_fast_region_create(dev, 1);
	if (IS_ERR(region) || IS_ERR(fast))
		err = FAIL("no regions: %pe, %pe", region, fast);
	else
		err = EXPECT(!mlx5_ulp_region_destroy(region), false) ?:
		      EXPECT(!mlx5_ulp_fast_region_destroy(fast), false);
	mlx5_ulp_close(dev);
	return err;
}
