// SPDX-License-Identifier: GPL-2.0
/*
 * Messages: SENDs, WRITEs with immediate data, and the receives that they need.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/mlx5/cq.h>
#include <linux/string.h>

#include "test.h"

enum { DEPTH = 64, PIECE = 2048, BYTES = DEPTH * PIECE };

static const struct mlx5_ulp_queue_attr attr = {
	.depth = DEPTH, .max_sge = 4, .max_inline = 64,
};

/* What receives have brought, in the order in which they completed. */
struct inbox {
	struct mlx5_ulp_request request;
	struct mlx5_ulp_completion got[PAIR_RECEIVES];
	atomic_t count;
};

static void inbox_done(struct mlx5_ulp_request *request,
		       const struct mlx5_ulp_completion *completion)
{
	struct inbox *inbox = container_of(request, struct inbox, request);
	int i = atomic_read(&inbox->count);

	if (i < PAIR_RECEIVES)
		inbox->got[i] = *completion;
	atomic_inc_return_release(&inbox->count);
}

static void inbox_init(struct inbox *inbox)
{
	memset(inbox, 0, sizeof(*inbox));
	inbox->request.done = inbox_done;
}

static int inbox_wait(struct inbox *inbox, int count)
{
	int i;

	for (i = 0; i < 40000 && atomic_read_acquire(&inbox->count) < count; i++)
		fsleep(500);
	return EXPECT(atomic_read(&inbox->count), count);
}

/* Posts a receive of up to three ranges of @length bytes at @offset. */
static int post_receive(struct pair *pair, struct inbox *inbox, size_t offset, u32 length,
			u32 ranges)
{
	struct mlx5_ulp_sge sges[PAIR_RECEIVE_RANGES];
	const struct mlx5_ulp_receive receive = {
		.request = &inbox->request, .sge = sges, .num_sge = ranges,
	};
	int i;

	for (i = 0; i < ranges; i++)
		sges[i] = pair_room(pair, offset + i * length, length);
	return mlx5_ulp_post_receives(pair->receiver, &receive, 1);
}

/* Whether receive @i brought @length bytes, with @flags, @imm. */
static int brought(const struct inbox *inbox, int i, u32 length, u8 flags, u32 imm)
{
	const struct mlx5_ulp_completion *got = &inbox->got[i];

	return EXPECT(got->status, 0) ?: EXPECT(got->length, length) ?:
	       EXPECT(got->flags, flags) ?: EXPECT(got->imm, imm) ?:
	       EXPECT(got->invalidated_key, 0);
}

/* Each kind once, to receives that were posted before the queue was connected. */
int test_messages(void)
{
	struct mlx5_ulp_sge two[2], one, rest;
	struct mlx5_ulp_work chain[4] = {};
	struct mlx5_ulp_queue_stats stats;
	struct inbox inbox;
	struct tally tally;
	struct pair pair;
	u8 small[24] = "carried in the request";
	int i, err;

	tally_init(&tally);
	inbox_init(&inbox);
	err = pair_open(&pair, BYTES, &attr);
	if (err)
		goto close;
	err = EXPECT(post_receive(&pair, &inbox, 0, 1000, 3), 0) ?:
	      EXPECT(post_receive(&pair, &inbox, 3000, PIECE, 1), 0) ?:
	      EXPECT(post_receive(&pair, &inbox, 0, 0, 0), 0) ?:
	      EXPECT(post_receive(&pair, &inbox, 60000, 100, 2), 0) ?: pair_connect(&pair);
	if (err)
		goto close;
	/* 2,500 bytes out of two ranges into three. */
	two[0] = pair_sge(&pair, 0, 700);
	two[1] = pair_sge(&pair, 700, 1800);
	one = pair_sge(&pair, 3000, PIECE);
	rest = pair_sge(&pair, 9000, 5000);
	chain[0] = (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_SEND, .sge = two, .num_sge = 2,
	};
	chain[1] = (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_SEND_IMM, .sge = &one, .num_sge = 1, .imm = 0x12345678,
	};
	chain[2] = (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_WRITE_IMM, .sge = &rest, .num_sge = 1, .imm = ~0,
		.remote_addr = pair_remote(&pair, 9000),
		.rkey = mlx5_ulp_region_key(pair.to),
	};
	rest = pair_sge(&pair, 9000, 5000);
	chain[3] = (struct mlx5_ulp_work) {
		.opcode = MLX5_ULP_OP_SEND, .flags = MLX5_ULP_INLINE | MLX5_ULP_SOLICITED,
		.sge = &(struct mlx5_ulp_sge) {
			.addr = (u64)(uintptr_t)small, .length = sizeof(small),
		},
		.num_sge = 1,
	};
	for (i = 0; i < ARRAY_SIZE(chain); i++)
		chain[i].request = &tally.request;
	err = EXPECT(mlx5_ulp_post(pair.sender, chain, ARRAY_SIZE(chain)), 0) ?:
	      tally_wait(&tally, ARRAY_SIZE(chain), 20) ?:
	      EXPECT(atomic_read(&tally.done), ARRAY_SIZE(chain)) ?:
	      inbox_wait(&inbox, ARRAY_SIZE(chain)) ?:
	      brought(&inbox, 0, 2500, 0, 0) ?:
	      brought(&inbox, 1, PIECE, MLX5_ULP_WITH_IMM, 0x12345678) ?:
	      brought(&inbox, 2, 5000, MLX5_ULP_WITH_IMM | MLX5_ULP_RECEIVED_WRITE, ~0) ?:
	      brought(&inbox, 3, sizeof(small), 0, 0) ?:
	      pair_compare(&pair, 0, 2500) ?:
	      EXPECT(pair.to_memory[2500], 0) ?:
	      pair_compare(&pair, 3000, PIECE) ?:
	      pair_compare(&pair, 9000, 5000) ?:
	      EXPECT(memcmp(pair.to_memory + 60000, small, sizeof(small)), 0);
	mlx5_ulp_queue_query_stats(pair.receiver, &stats);
	err = err ?: EXPECT(stats.receives, 4) ?: EXPECT(stats.received, 4) ?:
	      EXPECT(stats.unexpected, 0);
close:
	pair_close(&pair);
	return err;
}

/* A stream of numbered messages, each receive posted anew from its completion. */
static struct stream {
	struct mlx5_ulp_request request;
	struct pair *pair;
	u32 next, wrong;
	int status;
} stream;

static void stream_done(struct mlx5_ulp_request *request,
			const struct mlx5_ulp_completion *completion)
{
	const struct mlx5_ulp_receive again = { .request = request };

	if (completion->status) {
		stream.status = completion->status;
		return;
	}
	if (completion->imm != stream.next)
		stream.wrong++;
	/* Released: who sees it knows that the rest is there, too. */
	smp_store_release(&stream.next, stream.next + 1);
	if (mlx5_ulp_post_receives(stream.pair->receiver, &again, 1))
		stream.wrong++;
}

/* More messages than the 16 bits that the device counts receives with. */
int test_many_messages(void)
{
	enum { CHAIN = 16, MESSAGES = 66000 / CHAIN * CHAIN };
	/* Too much for a stack, and one test runs at a time. */
	static struct mlx5_ulp_receive receives[PAIR_RECEIVES];
	static struct mlx5_ulp_work chain[CHAIN];
	struct tally tally;
	struct pair pair;
	u32 sent = 0;
	int i, err;

	tally_init(&tally);
	stream = (struct stream) { .request.done = stream_done, .pair = &pair };
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair);
	for (i = 0; i < PAIR_RECEIVES; i++)
		receives[i].request = &stream.request;
	err = err ?: EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, PAIR_RECEIVES), 0);
	while (!err && sent < MESSAGES) {
		for (i = 0; i < CHAIN; i++)
			chain[i] = (struct mlx5_ulp_work) {
				.request = &tally.request,
				.opcode = MLX5_ULP_OP_SEND_IMM,
				.imm = sent + i,
				.flags = i == CHAIN - 1 ? 0 : MLX5_ULP_UNSIGNALED,
			};
		while ((err = mlx5_ulp_post(pair.sender, chain, CHAIN)) == -EAGAIN)
			usleep_range(20, 50);
		sent += CHAIN;
	}
	err = err ?: tally_wait(&tally, MESSAGES, 60) ?:
	      EXPECT(atomic_read(&tally.done), MESSAGES);
	for (i = 0; !err && i < 40000; i++) {
		/* As released above. */
		if (smp_load_acquire(&stream.next) >= MESSAGES)
			break;
		fsleep(500);
	}
	err = err ?: EXPECT(stream.next, MESSAGES) ?: EXPECT(stream.wrong, 0);
	pair_close(&pair);
	return err ?: EXPECT(stream.status, -ECANCELED);
}

/* Nothing is heard before it is polled, and no more than the budget. */
static int poll_messages(struct pair *pair, struct inbox *inbox, int count)
{
	int i, taken, err = EXPECT(atomic_read(&inbox->count), 0);

	for (i = 0; !err && i < 40000 && atomic_read(&inbox->count) < count; i++) {
		int before = atomic_read(&inbox->count);

		taken = mlx5_ulp_poll(pair->sender, 2);
		err = EXPECT(taken <= 2, 1) ?:
		      EXPECT(atomic_read(&inbox->count), before + taken);
		if (!taken)
			fsleep(500);
	}
	return err ?: EXPECT(atomic_read(&inbox->count), count) ?:
	       EXPECT(mlx5_ulp_poll(pair->sender, 2), 0);
}

/* An exclusive queue that is polled takes receives, and posts whatever there is. */
int test_polled_messages(void)
{
	const struct mlx5_ulp_queue_attr polled = {
		.depth = 4, .max_recv_depth = 3,
		.flags = MLX5_ULP_QUEUE_EXCLUSIVE | MLX5_ULP_QUEUE_POLLED,
	};
	struct mlx5_ulp_work send = { .opcode = MLX5_ULP_OP_SEND_IMM, .imm = 5 }, read;
	struct mlx5_ulp_exclusive *poster;
	struct mlx5_ulp_receive receive = {};
	struct mlx5_ulp_sge sge;
	struct inbox inbox;
	struct tally tally;
	struct pair pair;
	int i, err;

	inbox_init(&inbox);
	tally_init(&tally);
	receive.request = &inbox.request;
	send.request = &tally.request;
	err = pair_open(&pair, BYTES, &polled) ?: pair_connect(&pair);
	for (i = 0; !err && i < 3; i++)
		err = EXPECT(mlx5_ulp_post_receives(pair.sender, &receive, 1), 0) ?:
		      EXPECT(mlx5_ulp_post(pair.receiver, &send, 1), 0);
	err = err ?: tally_wait(&tally, 3, 20) ?: EXPECT(atomic_read(&tally.done), 3) ?:
	      poll_messages(&pair, &inbox, 3);
	for (i = 0; !err && i < 3; i++)
		err = brought(&inbox, i, 0, MLX5_ULP_WITH_IMM, 5);
	if (err)
		goto close;
	memset(pair.to_memory, 0x5c, PIECE);
	sge = pair_sge(&pair, 0, PIECE);
	tally_init(&tally);
	read = (struct mlx5_ulp_work) {
		.request = &tally.request, .opcode = MLX5_ULP_OP_READ, .sge = &sge, .num_sge = 1,
		.remote_addr = pair_remote(&pair, 0), .rkey = mlx5_ulp_region_key(pair.to),
	};
	poster = mlx5_ulp_queue_exclusive(pair.sender);
	err = EXPECT(mlx5_ulp_post(pair.sender, &read, 1), -EINVAL) ?:
	      EXPECT(mlx5_ulp_exclusive_post(poster, &read, 1), 0) ?:
	      EXPECT(mlx5_ulp_queue_drain(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.done), 1) ?: pair_compare(&pair, 0, PIECE) ?:
	      EXPECT(pair.from_memory[PIECE - 1], 0x5c);
close:
	pair_close(&pair);
	return err;
}

/* A message to a peer that is not ready waits until it is. */
int test_not_ready(void)
{
	struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_SEND, .num_sge = 1 };
	struct mlx5_ulp_sge sge;
	struct inbox inbox;
	struct tally tally;
	struct pair pair;
	int err;

	tally_init(&tally);
	inbox_init(&inbox);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair);
	if (err)
		goto close;
	sge = pair_sge(&pair, 0, PIECE);
	work.request = &tally.request;
	work.sge = &sge;
	err = EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0);
	/* Long enough for it to be refused some times. */
	msleep(20);
	err = err ?: EXPECT(atomic_read(&tally.ended), 0) ?:
	      EXPECT(post_receive(&pair, &inbox, 0, PIECE, 1), 0) ?:
	      tally_wait(&tally, 1, 20) ?: EXPECT(atomic_read(&tally.done), 1) ?:
	      inbox_wait(&inbox, 1) ?: brought(&inbox, 0, PIECE, 0, 0) ?:
	      pair_compare(&pair, 0, PIECE);
close:
	pair_close(&pair);
	return err;
}

/* A message that is longer than its receive breaks the connection, at both ends. */
int test_too_long(void)
{
	struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_SEND, .num_sge = 1 };
	struct mlx5_ulp_sge sge;
	struct inbox inbox;
	struct tally tally;
	struct pair pair;
	int err;

	tally_init(&tally);
	inbox_init(&inbox);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect(&pair) ?:
	      EXPECT(post_receive(&pair, &inbox, 0, 64, 1), 0) ?:
	      EXPECT(post_receive(&pair, &inbox, 64, 64, 1), 0);
	if (err)
		goto close;
	sge = pair_sge(&pair, 0, 65);
	work.request = &tally.request;
	work.sge = &sge;
	err = EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0) ?:
	      tally_wait(&tally, 1, 20) ?: EXPECT(tally.first_status, -EREMOTEIO) ?:
	      inbox_wait(&inbox, 2) ?: EXPECT(inbox.got[0].status, -EIO) ?:
	      EXPECT(inbox.got[0].syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR) ?:
	      EXPECT(inbox.got[0].length, 0) ?:
	      EXPECT(inbox.got[1].status, -ECANCELED) ?:
	      EXPECT(post_receive(&pair, &inbox, 0, 64, 1), -EPIPE);
close:
	pair_close(&pair);
	return err;
}

/* Stops both ends, one of which was connected, with work of all kinds in flight. */
int test_stop(void)
{
	struct mlx5_ulp_work work = { .opcode = MLX5_ULP_OP_SEND };
	struct inbox inbox;
	struct tally tally;
	struct pair pair;
	int i, err;

	tally_init(&tally);
	inbox_init(&inbox);
	err = pair_open(&pair, BYTES, &attr) ?: pair_connect_sender(&pair, NULL);
	work.request = &tally.request;
	for (i = 0; !err && i < 10; i++)
		err = EXPECT(mlx5_ulp_post(pair.sender, &work, 1), 0) ?:
		      EXPECT(post_receive(&pair, &inbox, 0, 64, 1), 0);
	err = err ?: EXPECT(mlx5_ulp_queue_stop(pair.sender), 0) ?:
	      EXPECT(atomic_read(&tally.ended), 10) ?:
	      EXPECT(atomic_read(&tally.flushed), 10) ?:
	      EXPECT(mlx5_ulp_post(pair.sender, &work, 1), -EPIPE) ?:
	      EXPECT(mlx5_ulp_queue_stop(pair.sender), 0) ?:
	      EXPECT(atomic_read(&inbox.count), 0) ?:
	      EXPECT(mlx5_ulp_queue_stop(pair.receiver), 0) ?:
	      EXPECT(atomic_read(&inbox.count), 10) ?:
	      EXPECT(post_receive(&pair, &inbox, 0, 64, 1), -EPIPE) ?:
	      EXPECT(mlx5_ulp_post(pair.receiver, &work, 1), -EPIPE);
	for (i = 0; !err && i < 10; i++)
		err = EXPECT(inbox.got[i].status, -ECANCELED);
	if (!err) {
		struct mlx5_ulp_address address;

		err = mlx5_ulp_queue_address(pair.sender, MLX5_ULP_GID_AUTO, &address) ?:
		      EXPECT(mlx5_ulp_queue_connect(pair.receiver, &address, NULL), -EISCONN);
	}
	pair_close(&pair);
	return err;
}

/* What the module refuses leaves nothing behind; the rest is flushed at the end. */
int test_receive_refusals(void)
{
	struct mlx5_ulp_receive receives[PAIR_RECEIVES + 1] = {};
	struct mlx5_ulp_sge sges[PAIR_RECEIVE_RANGES + 1];
	struct mlx5_ulp_receive bad = { .sge = sges };
	struct inbox inbox;
	struct pair pair;
	int i, err;

	inbox_init(&inbox);
	err = pair_open(&pair, BYTES, &attr);
	for (i = 0; !err && i < ARRAY_SIZE(sges); i++)
		sges[i] = pair_room(&pair, 64 * i, 64);
	for (i = 0; i < ARRAY_SIZE(receives); i++)
		receives[i] = (struct mlx5_ulp_receive) {
			.request = &inbox.request, .sge = sges, .num_sge = i % 4,
		};
	receives[1].num_sge = 3;
	bad.num_sge = ARRAY_SIZE(sges);
	err = err ?: EXPECT(mlx5_ulp_post_receives(pair.sender, receives, 1), -EINVAL) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, NULL, 0), 0) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, &bad, 1), -EMSGSIZE) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, ARRAY_SIZE(receives)),
		     -EMSGSIZE) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, 10), 0) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, 7), -EAGAIN) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, 6), 0) ?:
	      EXPECT(mlx5_ulp_post_receives(pair.receiver, receives, 1), -EAGAIN) ?:
	      EXPECT(atomic_read(&inbox.count), 0);
	pair_close(&pair);
	return err ?: EXPECT(atomic_read(&inbox.count), PAIR_RECEIVES) ?:
	       EXPECT(inbox.got[PAIR_RECEIVES - 1].status, -ECANCELED);
}
