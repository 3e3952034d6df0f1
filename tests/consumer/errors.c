// SPDX-License-Identifier: GPL-2.0
/*
 * What is refused, by the device and before it gets there.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/mlx5/cq.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "test.h"

enum { CHAIN = 8, BAD = 3, PIECE = 64 };

/* A request that knows its place. */
struct numbered {
	struct mlx5_ulp_request request;
	struct sequence *sequence;
	int number;
};

/* How the requests of a chain ended, in the order in which they did. */
struct sequence {
	struct numbered requests[CHAIN];
	int order[CHAIN], status[CHAIN];
	u8 syndrome[CHAIN];
	atomic_t ended;
};

static void sequence_done(struct mlx5_ulp_request *request,
			  const struct mlx5_ulp_completion *completion)
{
	struct numbered *n = container_of(request, struct numbered, request);
	struct sequence *s = n->sequence;
	int i = atomic_read(&s->ended);

	if (i < CHAIN) {
		s->order[i] = n->number;
		s->status[i] = completion->status;
		s->syndrome[i] = completion->syndrome;
	}
	atomic_inc_return_release(&s->ended);
}

/* What is wrong with request BAD. */
struct fault {
	u32 rkey, lkey;
	u64 remote_addr;
	/* Requests before BAD are not reported. */
	bool silent;
};

/*
 * What the queue counts of such a chain. Nothing waits to be reported at its end, so
 * draining has added no request.
 */
static int fault_counts(const struct mlx5_ulp_queue *queue)
{
	struct mlx5_ulp_queue_stats stats;

	mlx5_ulp_queue_query_stats(queue, &stats);
	return EXPECT(stats.posted, CHAIN) ?:
	       EXPECT(stats.completed, CHAIN) ?:
	       EXPECT(stats.errors, 1) ?:
	       EXPECT(stats.flushed, CHAIN - BAD - 1) ?:
	       EXPECT(stats.unexpected, 0);
}

/*
 * Posts a chain in which one request is bad. Those before it must be carried
 * out, it must fail with @syndrome, those behind it be flushed, all in order;
 * and then the queue must refuse.
 */
static int fault_run(struct pair *pair, const struct fault *fault, int status, u8 syndrome)
{
	struct mlx5_ulp_write writes[CHAIN];
	struct mlx5_ulp_sge sges[CHAIN];
	struct sequence *s;
	int i, err;

	s = kzalloc_obj(*s);
	if (!s)
		return -ENOMEM;
	for (i = 0; i < CHAIN; i++) {
		s->requests[i] = (struct numbered) {
			.request.done = sequence_done,
			.sequence = s,
			.number = i,
		};
		sges[i] = pair_sge(pair, i * PIECE, PIECE);
		writes[i] = (struct mlx5_ulp_write) {
			.request = &s->requests[i].request,
			.sge = &sges[i],
			.num_sge = 1,
			.flags = fault->silent && i < BAD ? MLX5_ULP_UNSIGNALED : 0,
			.remote_addr = pair_remote(pair, i * PIECE),
			.rkey = mlx5_ulp_region_key(pair->to),
		};
	}
	if (fault->rkey)
		writes[BAD].rkey = fault->rkey;
	if (fault->remote_addr)
		writes[BAD].remote_addr = fault->remote_addr;
	if (fault->lkey)
		sges[BAD].lkey = fault->lkey;

	err = EXPECT(mlx5_ulp_post_writes(pair->sender, writes, CHAIN), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair->sender), 0) ?:
	      EXPECT(atomic_read(&s->ended), CHAIN);
	for (i = 0; !err && i < CHAIN; i++) {
		err = EXPECT(s->order[i], i);
		if (i < BAD)
			err = err ?: EXPECT(s->status[i], 0);
		else if (i == BAD)
			err = err ?: EXPECT(s->status[i], status) ?:
			      EXPECT(s->syndrome[i], syndrome);
		else
			err = err ?: EXPECT(s->status[i], -ECANCELED) ?:
			      EXPECT(s->syndrome[i], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	}
	err = err ?: pair_compare(pair, 0, BAD * PIECE) ?:
	      EXPECT(mlx5_ulp_post_write(pair->sender, &writes[0]), -EPIPE);
	err = err ?: fault_counts(pair->sender);
	/* From the bad one on, nothing has arrived. */
	for (i = BAD * PIECE; !err && i < CHAIN * PIECE; i++)
		err = EXPECT(pair->to_memory[i], 0);
	/* Nothing of it is known to the queue any more, unless it is lost in flight. */
	mlx5_ulp_queue_destroy(pair->sender);
	pair->sender = NULL;
	kfree(s);
	return err;
}

static int fault_open(struct pair *pair)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 16 };

	return pair_open(pair, CHAIN * PIECE, &attr) ?: pair_connect(pair);
}

int test_bad_rkey(void)
{
	struct fault fault = {};
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	/* The same index, another variant. */
	fault.rkey = mlx5_ulp_region_key(pair.to) ^ 0x80;
	err = fault_run(&pair, &fault, -EREMOTEIO, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	pair_close(&pair);
	return err;
}

int test_bad_bounds(void)
{
	struct fault fault = {};
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	/* The last byte is one behind the end. */
	fault.remote_addr = pair_remote(&pair, CHAIN * PIECE - PIECE + 1);
	err = fault_run(&pair, &fault, -EREMOTEIO, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	pair_close(&pair);
	return err;
}

/* Writes into a region that the peer may not write. */
int test_bad_right(void)
{
	struct mlx5_ulp_region *region;
	struct fault fault = {};
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	region = mlx5_ulp_region_create(pair.dst, pair.to_memory, pair.bytes,
					MLX5_ULP_ACCESS_REMOTE_READ);
	if (IS_ERR(region)) {
		err = FAIL("no region: %ld", PTR_ERR(region));
	} else {
		fault.rkey = mlx5_ulp_region_key(region);
		err = fault_run(&pair, &fault, -EREMOTEIO,
				MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
		mlx5_ulp_region_destroy(region);
	}
	pair_close(&pair);
	return err;
}

/* Writes into a region of another protection domain. */
int test_bad_domain(void)
{
	struct mlx5_ulp_region *region;
	struct mlx5_ulp_device *other;
	struct fault fault = {};
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	other = mlx5_ulp_open(test_dst, NULL);
	if (IS_ERR(other)) {
		err = FAIL("cannot open a second time: %ld", PTR_ERR(other));
		goto close;
	}
	region = mlx5_ulp_region_create(other, pair.to_memory, pair.bytes,
					MLX5_ULP_ACCESS_REMOTE_WRITE);
	if (IS_ERR(region)) {
		err = FAIL("no region: %ld", PTR_ERR(region));
	} else {
		fault.rkey = mlx5_ulp_region_key(region);
		err = fault_run(&pair, &fault, -EREMOTEIO,
				MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
		mlx5_ulp_region_destroy(region);
	}
	mlx5_ulp_close(other);
close:
	pair_close(&pair);
	return err;
}

int test_bad_lkey(void)
{
	struct fault fault = {};
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	fault.lkey = mlx5_ulp_region_key(pair.from) ^ 0x80;
	err = fault_run(&pair, &fault, -EIO, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	pair_close(&pair);
	return err;
}

/* Requests that nothing reported before the first error were carried out. */
int test_silent_before_error(void)
{
	struct fault fault = { .silent = true };
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	fault.rkey = mlx5_ulp_region_key(pair.to) ^ 0x80;
	err = fault_run(&pair, &fault, -EREMOTEIO, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	pair_close(&pair);
	return err;
}

/* Waits for @condition, which the device brings about; 0, or an error after a minute. */
#define EVENTUALLY(condition) ({					\
	int __tries = 60 * 50;						\
									\
	while (!(condition) && --__tries)				\
		msleep(20);						\
	__tries ? 0 : FAIL("never: %s (%s:%d)", #condition, __func__, __LINE__); \
})

/*
 * A queue fails because its peer did wrong, when all that it had posted has been
 * carried out and nothing of it reported: no completion entry will come by
 * itself. Draining must end all the same, and tell what was carried out.
 */
int test_silent_before_bad_peer(void)
{
	struct mlx5_ulp_write silent, bad, probe;
	struct tally mine, peers;
	struct mlx5_ulp_sge sge;
	struct pair pair;
	int err = fault_open(&pair);

	if (err)
		return err;
	tally_init(&mine);
	tally_init(&peers);
	sge = pair_sge(&pair, 0, PIECE);
	silent = (struct mlx5_ulp_write) {
		.request = &mine.request,
		.sge = &sge,
		.num_sge = 1,
		.flags = MLX5_ULP_UNSIGNALED,
		.remote_addr = pair_remote(&pair, 0),
		.rkey = mlx5_ulp_region_key(pair.to),
	};
	bad = (struct mlx5_ulp_write) {
		.request = &peers.request,
		.sge = &(struct mlx5_ulp_sge) {
			.addr = pair_remote(&pair, 0),
			.length = PIECE,
			.lkey = mlx5_ulp_region_key(pair.to),
		},
		.num_sge = 1,
		.remote_addr = pair_remote(&pair, 0),
		.rkey = mlx5_ulp_region_key(pair.to) ^ 0x80,
	};
	/* Refused in any case, and by what it is refused it tells the state of the queue. */
	probe = silent;
	probe.flags = ~0;
	err = EXPECT(mlx5_ulp_post_write(pair.sender, &silent), 0) ?:
	      EVENTUALLY(!memcmp(pair.to_memory, pair.from_memory, PIECE)) ?:
	      EXPECT(mlx5_ulp_post_write(pair.receiver, &bad), 0) ?:
	      tally_wait(&peers, 1, 60) ?:
	      EXPECT(peers.first_status, -EREMOTEIO) ?:
	      EVENTUALLY(mlx5_ulp_post_write(pair.sender, &probe) == -EPIPE) ?:
	      EXPECT(atomic_read(&mine.ended), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&mine.done), 1) ?:
	      EXPECT(atomic_read(&mine.ended), 1);
	pair_close(&pair);
	return err;
}

/* What a queue is not made with. */
static int refuse_queue(struct pair *pair, struct mlx5_ulp_queue_attr attr, long want)
{
	struct mlx5_ulp_queue *queue = mlx5_ulp_queue_create(pair->src, &attr);

	if (!IS_ERR(queue)) {
		mlx5_ulp_queue_destroy(queue);
		return FAIL("a queue was made of depth %u, %u ranges, %u inline bytes",
			    attr.depth, attr.max_sge, attr.max_inline);
	}
	return EXPECT(PTR_ERR(queue), want);
}

/* What is refused before the device hears of it. */
int test_refusals(void)
{
	const struct mlx5_ulp_queue_attr attr = { .depth = 4 };
	struct mlx5_ulp_limits limits;
	struct mlx5_ulp_write write;
	struct mlx5_ulp_sge sge;
	struct mlx5_ulp_address address;
	struct tally tally;
	struct pair pair;
	int err;

	err = EXPECT(PTR_ERR_OR_ZERO(mlx5_ulp_open("none", NULL)), -ENODEV) ?:
	      EXPECT(PTR_ERR_OR_ZERO(mlx5_ulp_open("", NULL)), -ENODEV) ?:
	      EXPECT(PTR_ERR_OR_ZERO(mlx5_ulp_open(NULL, NULL)), -EINVAL) ?:
	      pair_open(&pair, 4096, &attr);
	if (err)
		return err;

	tally_init(&tally);
	sge = pair_sge(&pair, 0, 64);
	write = (struct mlx5_ulp_write) {
		.request = &tally.request,
		.sge = &sge,
		.num_sge = 1,
		.remote_addr = pair_remote(&pair, 0),
		.rkey = mlx5_ulp_region_key(pair.to),
	};
	mlx5_ulp_query_limits(pair.src, &limits);

	err = refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {}, -EINVAL) ?:
	      refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {
			.depth = limits.max_depth + 1 }, -EINVAL) ?:
	      refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {
			.depth = ~0U }, -EINVAL) ?:
	      refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {
			.depth = 1, .max_sge = limits.max_sge + 1 }, -EINVAL) ?:
	      refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {
			.depth = 1, .max_inline = limits.max_inline + 1 }, -EINVAL) ?:
	      refuse_queue(&pair, (struct mlx5_ulp_queue_attr) {
			.depth = 1, .access = 1 << 7 }, -EINVAL) ?:
	      EXPECT(PTR_ERR_OR_ZERO(mlx5_ulp_region_create(pair.src, pair.from_memory, 0, 0)),
		     -EINVAL) ?:
	      EXPECT(PTR_ERR_OR_ZERO(mlx5_ulp_region_create(pair.src, pair.from_memory, 64,
							    1 << 7)), -EINVAL) ?:
	      EXPECT(mlx5_ulp_queue_address(pair.sender, 255, &address), -ENOENT) ?:
	      EXPECT(mlx5_ulp_queue_address(pair.sender, 256, &address), -ENOENT) ?:
	      EXPECT(mlx5_ulp_queue_address(pair.sender, MLX5_ULP_GID_AUTO, &address), 0) ?:
	      /* Before it is connected. */
	      EXPECT(mlx5_ulp_post_write(pair.sender, &write), -ENOTCONN);
	address.mtu = 1000;
	err = err ?: EXPECT(mlx5_ulp_queue_connect(pair.sender, &address, NULL), -EINVAL) ?:
	      pair_connect(&pair);
	address.mtu = 1024;
	err = err ?: EXPECT(mlx5_ulp_queue_connect(pair.sender, &address, NULL), -EISCONN);
	write.flags = 1 << 20;
	err = err ?: EXPECT(mlx5_ulp_post_write(pair.sender, &write), -EINVAL);
	/* Nothing of all that was posted. */
	write.flags = 0;
	err = err ?: EXPECT(mlx5_ulp_post_write(pair.sender, &write), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.ended), 1) ?:
	      EXPECT(atomic_read(&tally.done), 1);
	pair_close(&pair);
	return err;
}
