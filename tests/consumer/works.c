// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of other kinds than WRITE: READs and atomics.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mlx5/cq.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "test.h"

enum { DEPTH = 64, PIECE = 3000, BYTES = DEPTH * PIECE, RANGES = 3 };

static const struct mlx5_ulp_queue_attr attr = { .depth = DEPTH, .max_sge = 31, .max_inline = 64 };

/* One request at @offset of both sides, with one range. */
static struct mlx5_ulp_work work_at(struct pair *pair, struct tally *tally, u32 opcode,
				    size_t offset, struct mlx5_ulp_sge *sge)
{
	return (struct mlx5_ulp_work) {
		.request = &tally->request,
		.sge = sge,
		.num_sge = 1,
		.remote_addr = pair_remote(pair, offset),
		.rkey = mlx5_ulp_region_key(pair->to),
		.opcode = opcode,
	};
}

/* READs what a WRITE of the same chain has brought there. */
static int written_and_read(struct pair *pair, struct tally *tally)
{
	struct mlx5_ulp_sge there = pair_sge(pair, 0, BYTES), back[RANGES];
	struct mlx5_ulp_work chain[] = {
		work_at(pair, tally, MLX5_ULP_OP_WRITE, 0, &there),
		work_at(pair, tally, MLX5_ULP_OP_READ, PIECE, back),
	};
	int i;

	/* The piece comes back in another order of its three thirds. */
	for (i = 0; i < RANGES; i++)
		back[i] = pair_sge(pair, (RANGES - 1 - i) * PIECE / RANGES, PIECE / RANGES);
	chain[1].num_sge = RANGES;
	return EXPECT(mlx5_ulp_post(pair->sender, chain, ARRAY_SIZE(chain)), 0) ?:
	       tally_wait(tally, 2, 20) ?:
	       EXPECT(atomic_read(&tally->done), 2);
}

/* READs all of it: more READs in one chain than can be under way. */
static int read_all(struct pair *pair, struct tally *tally)
{
	struct mlx5_ulp_work *chain = vcalloc(DEPTH, sizeof(*chain));
	struct mlx5_ulp_sge *ranges = vcalloc(DEPTH, sizeof(*ranges));
	int i, err = chain && ranges ? 0 : -ENOMEM;

	for (i = 0; !err && i < DEPTH; i++) {
		ranges[i] = pair_sge(pair, i * PIECE, PIECE);
		chain[i] = work_at(pair, tally, MLX5_ULP_OP_READ, i * PIECE, &ranges[i]);
		chain[i].flags = i % 4 == 3 ? 0 : MLX5_ULP_UNSIGNALED;
	}
	err = err ?: EXPECT(mlx5_ulp_post(pair->sender, chain, DEPTH), 0) ?:
	      tally_wait(tally, DEPTH, 20) ?:
	      EXPECT(atomic_read(&tally->done), DEPTH);
	vfree(chain);
	vfree(ranges);
	return err;
}

int test_read(void)
{
	struct tally tally;
	struct pair pair;
	u8 *sent;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair);
	if (err)
		goto close;
	sent = vmalloc(BYTES);
	if (!sent) {
		err = -ENOMEM;
		goto close;
	}
	memcpy(sent, pair.from_memory, BYTES);
	err = written_and_read(&pair, &tally);
	for (i = 0; !err && i < RANGES; i++)
		err = EXPECT(memcmp(pair.from_memory + (RANGES - 1 - i) * PIECE / RANGES,
				    sent + PIECE + i * PIECE / RANGES, PIECE / RANGES), 0);
	if (!err) {
		memset(pair.from_memory, 0, BYTES);
		tally_init(&tally);
		err = read_all(&pair, &tally) ?:
		      EXPECT(memcmp(pair.from_memory, sent, BYTES), 0);
	}
	vfree(sent);
close:
	pair_close(&pair);
	return err;
}

/* What the module refuses leaves nothing behind. */
int test_read_refusals(void)
{
	struct mlx5_ulp_sge sges[31];
	struct mlx5_ulp_limits limits;
	struct mlx5_ulp_work work;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr);
	if (err)
		goto close;
	mlx5_ulp_query_limits(pair.src, &limits);
	for (i = 0; i < ARRAY_SIZE(sges); i++)
		sges[i] = pair_sge(&pair, i * 8, 8);
	work = work_at(&pair, &tally, MLX5_ULP_OP_READ, 0, sges);
	err = EXPECT(limits.max_read_sge, 30) ?:
	      EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -ENOTCONN) ?:
	      pair_connect(&pair) ?:
	      EXPECT(mlx5_ulp_post(pair.sender, NULL, 0), 0);
	if (err)
		goto close;
	work.num_sge = 31;
	err = EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EMSGSIZE);
	work.num_sge = 30;
	work.flags = MLX5_ULP_INLINE;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EINVAL);
	work.flags = 1u << 31;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EINVAL);
	work.flags = 0;
	work.opcode = 1000;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EINVAL);
	work.opcode = MLX5_ULP_OP_FETCH_ADD;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EMSGSIZE);
	work.num_sge = 1;
	work.remote_addr += 4;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EINVAL);
	work.remote_addr -= 4;
	sges[0].length = 4;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EINVAL);
	/* All of it fits. */
	work.opcode = MLX5_ULP_OP_READ;
	work.num_sge = 30;
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), 1) ?:
	      EXPECT(atomic_read(&tally.ended), 1);
close:
	pair_close(&pair);
	return err;
}

/* A READ does not write to memory that is registered for reading only. */
int test_read_protected(void)
{
	struct mlx5_ulp_region *constant;
	struct mlx5_ulp_work work;
	struct mlx5_ulp_sge sge;
	struct tally tally;
	struct pair pair;
	u8 before;
	int err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair);
	if (err)
		goto close;
	constant = mlx5_ulp_region_create(pair.src, pair.from_memory, BYTES,
					  MLX5_ULP_ACCESS_LOCAL);
	if (IS_ERR(constant)) {
		err = FAIL("no region: %ld", PTR_ERR(constant));
		goto close;
	}
	before = 0x5a;
	pair.from_memory[0] = before;
	sge = pair_sge(&pair, 0, PIECE);
	sge.lkey = mlx5_ulp_region_key(constant);
	work = work_at(&pair, &tally, MLX5_ULP_OP_READ, 0, &sge);
	err = EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0) ?:
	      tally_wait(&tally, 1, 20) ?:
	      EXPECT(atomic_read(&tally.failed), 1) ?:
	      EXPECT(tally.first_status, -EIO) ?:
	      EXPECT(tally.first_syndrome, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR) ?:
	      EXPECT(pair.from_memory[0], before) ?:
	      EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EPIPE);
	mlx5_ulp_region_destroy(constant);
close:
	pair_close(&pair);
	return err;
}

/* One atomic, and what was there before it. */
static int atomic(struct pair *pair, u32 opcode, u64 operand, u64 compare, u64 old)
{
	struct mlx5_ulp_sge sge = pair_sge(pair, 0, 8);
	struct mlx5_ulp_work work;
	struct tally tally;

	tally_init(&tally);
	work = work_at(pair, &tally, opcode, 64, &sge);
	work.operand = operand;
	work.compare = compare;
	return EXPECT(mlx5_ulp_post(pair->sender, &work, 1), 0) ?:
	       tally_wait(&tally, 1, 20) ?:
	       EXPECT(atomic_read(&tally.done), 1) ?:
	       EXPECT(*(u64 *)pair->from_memory, old);
}

int test_atomics(void)
{
	struct mlx5_ulp_work *chain = vcalloc(DEPTH, sizeof(*chain));
	struct mlx5_ulp_sge *ranges = vcalloc(DEPTH, sizeof(*ranges));
	struct tally tally;
	struct pair pair;
	u64 *there;
	int i, err;

	tally_init(&tally);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair) ?:
	      (chain && ranges ? 0 : -ENOMEM);
	if (err)
		goto close;
	there = (u64 *)(pair.to_memory + 64);
	*there = 0x1122334455667788;
	err = atomic(&pair, MLX5_ULP_OP_COMPARE_SWAP, 7, 8, 0x1122334455667788) ?:
	      EXPECT(READ_ONCE(*there), 0x1122334455667788) ?:
	      atomic(&pair, MLX5_ULP_OP_COMPARE_SWAP, 7, 0x1122334455667788,
		     0x1122334455667788) ?:
	      EXPECT(READ_ONCE(*there), 7) ?:
	      atomic(&pair, MLX5_ULP_OP_FETCH_ADD, -8ull, 0, 7) ?:
	      EXPECT(READ_ONCE(*there), -1ll) ?:
	      atomic(&pair, MLX5_ULP_OP_FETCH_ADD, 1, 0, -1ull) ?:
	      EXPECT(READ_ONCE(*there), 0);
	/* Many, each of which sees what those before it have left. */
	for (i = 0; !err && i < DEPTH; i++) {
		ranges[i] = pair_sge(&pair, i * 8, 8);
		chain[i] = work_at(&pair, &tally, MLX5_ULP_OP_FETCH_ADD, 64, &ranges[i]);
		chain[i].operand = 3;
	}
	err = err ?: EXPECT(mlx5_ulp_post(pair.sender, chain, DEPTH), 0) ?:
	      tally_wait(&tally, DEPTH, 20) ?:
	      EXPECT(READ_ONCE(*there), 3 * DEPTH);
	for (i = 0; !err && i < DEPTH; i++)
		err = EXPECT(((u64 *)pair.from_memory)[i], 3 * i);
close:
	pair_close(&pair);
	vfree(chain);
	vfree(ranges);
	return err;
}
