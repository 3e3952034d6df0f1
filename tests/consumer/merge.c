// SPDX-License-Identifier: GPL-2.0
/*
 * Adjacent WRITEs, which become one WQE if the script that loads this has said so.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/slab.h>
#include <linux/string.h>

#include "test.h"

/* Requests that must end in the order in which they were posted. */
struct row {
	struct tally tally;
	struct row_entry {
		struct mlx5_ulp_request request;
		struct row *row;
		int index;
	} entries[64];
	int next;
	bool disorder;
};

static void row_done(struct mlx5_ulp_request *request,
		     const struct mlx5_ulp_completion *completion)
{
	struct row_entry *entry = container_of(request, struct row_entry, request);
	struct row *row = entry->row;

	if (entry->index != row->next++)
		row->disorder = true;
	row->tally.request.done(&row->tally.request, completion);
}

static int row_post(struct pair *pair, struct row *row, int count, u32 rkey, u32 flags)
{
	enum { PAGE = 4096 };
	struct mlx5_ulp_write writes[16];
	struct mlx5_ulp_sge sges[16];
	int i;

	for (i = 0; i < count; i++) {
		struct row_entry *entry = &row->entries[row->next + i];

		entry->request.done = row_done;
		entry->row = row;
		entry->index = row->next + i;
		writes[i] = pair_write(pair, &row->tally, &sges[i], i * PAGE, PAGE);
		/* Contiguous at the peer, in reverse order of pages here. */
		sges[i] = pair_sge(pair, (count - 1 - i) * PAGE, PAGE);
		writes[i].request = &entry->request;
		writes[i].rkey = rkey;
		writes[i].flags = i < count - 1 ? flags : 0;
	}
	return mlx5_ulp_post_writes(pair->sender, writes, count);
}

/*
 * 16 pages of one contiguous range at the peer, then the same with a wrong key:
 * each request ends once and in order.
 */
int test_merged(void)
{
	enum { PAGES = 16, PAGE = 4096 };
	const struct mlx5_ulp_queue_attr attr = { .depth = 64 };
	struct pair pair;
	struct row *row;
	int i, err;

	row = kzalloc_obj(*row);
	if (!row)
		return -ENOMEM;
	err = pair_open(&pair, PAGES * PAGE, &attr) ?: pair_connect(&pair);
	tally_init(&row->tally);
	err = err ?: EXPECT(row_post(&pair, row, PAGES, mlx5_ulp_region_key(pair.to),
				     MLX5_ULP_UNSIGNALED), 0) ?:
	      tally_wait(&row->tally, PAGES, 20) ?:
	      EXPECT(atomic_read(&row->tally.done), PAGES) ?: EXPECT(row->disorder, 0);
	for (i = 0; !err && i < PAGES; i++)
		if (memcmp(pair.to_memory + i * PAGE,
			   pair.from_memory + (PAGES - 1 - i) * PAGE, PAGE))
			err = FAIL("page %d differs", i);
	err = err ?: EXPECT(row_post(&pair, row, PAGES, mlx5_ulp_region_key(pair.to) ^ 1, 0), 0) ?:
	      tally_wait(&row->tally, 2 * PAGES, 20) ?:
	      EXPECT(atomic_read(&row->tally.ended), 2 * PAGES) ?:
	      EXPECT(atomic_read(&row->tally.done), PAGES) ?:
	      EXPECT(row->tally.first_status, -EREMOTEIO) ?: EXPECT(row->disorder, 0);
	pair_close(&pair);
	kfree(row);
	return err;
}
