/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The same WRITEs through mlx5_ulp and through the verbs of mlx5_ib, between
 * two functions, and what they cost this side.
 */
#ifndef MLX5_ULP_BENCH_H
#define MLX5_ULP_BENCH_H

#include <linux/printk.h>
#include <linux/types.h>

extern char *bench_src;
extern char *bench_dst;

/* Limits of what can be asked for. */
#define BENCH_QUEUES 1024
#define BENCH_CPUS 4
#define BENCH_CHAIN 16
#define BENCH_SIZE 4096
/* Requests that fit into a queue, and most of one round on one queue. */
#define BENCH_DEPTH 256
#define BENCH_INLINE 64
/*
 * Until a packet is sent again: 4.096 us << this, 4 s. The clock of the software
 * ConnectX is that of the host, which may be busy.
 */
#define BENCH_TIMEOUT 20

/* Bytes at either end; the WRITEs of a burst are one behind the other, from the beginning. */
#define BENCH_MEMORY (BENCH_DEPTH * BENCH_SIZE)

/**
 * struct bench_write - one WRITE
 * @offset: where its data is, at both ends
 * @length: bytes
 * @inlined: whether they are copied into the WQE
 * @signaled: whether the device is to report it
 */
struct bench_write {
	u32 offset;
	u32 length;
	bool inlined;
	bool signaled;
};

/**
 * struct bench_queue - what is common to the queues of all interfaces
 * @ended: requests that have ended, as far as the consumer was told
 * @status: not 0 when one has failed
 * @signal: each how manyth request is signaled
 */
struct bench_queue {
	u32 ended;
	int status;
	u32 signal;
};

/**
 * struct bench_polled - what a look for completions cost
 * @ticks: to learn of them
 * @dispatch: what it cost beyond that to call the consumer's function for
 *	each, where the interface leaves this to the consumer
 */
struct bench_polled {
	u32 ticks;
	u32 dispatch;
};

/**
 * struct bench_interface - a way to post and to complete
 * @name: what it is called in a case
 * @one_poster: whether only one CPU may post to a queue
 * @queue_create: makes a connected queue, or answers an ERR_PTR()
 * @queue_destroy: undoes @queue_create
 * @post: posts a chain of at most %BENCH_CHAIN and gives the ticks of the call
 *	itself, or a negative error. Interrupts are off.
 * @poll: takes at most @budget completions, and adds what they say to @queue.
 *	Softirqs are off. %NULL where events bring them.
 */
struct bench_interface {
	const char *name;
	bool one_poster;
	struct bench_queue *(*queue_create)(void);
	void (*queue_destroy)(struct bench_queue *queue);
	int (*post)(struct bench_queue *queue, const struct bench_write *writes,
		    unsigned int count);
	struct bench_polled (*poll)(struct bench_queue *queue, unsigned int budget);
};

int bench_ulp_open(void);
void bench_ulp_close(void);
int bench_verbs_open(void);
void bench_verbs_close(void);

extern const struct bench_interface bench_ulp;
extern const struct bench_interface bench_ulp_exclusive;
extern const struct bench_interface bench_ulp_events;
/* Looks queues up, in place of posting to them. */
extern const struct bench_interface bench_ulp_find;
extern const struct bench_interface bench_verbs;
extern const struct bench_interface bench_verbs_events;

/* What is stepped through, and not measured, in the last round of a case. */
enum bench_steps {
	BENCH_STEPS_NONE,
	BENCH_STEPS_POST,
	BENCH_STEPS_COMPLETE,
};

/**
 * struct bench_case - what to measure
 * @interface: through what
 * @size: bytes of a WRITE
 * @inlined: whether they are in the WQE
 * @chain: WRITEs of one post
 * @signal: each how manyth is signaled
 * @burst: WRITEs that a CPU posts to a queue before it waits for them
 * @cpus: how many post
 * @queues: how many they post to
 * @rounds: how often it is repeated
 * @steps: what to step through in one round more
 */
struct bench_case {
	const struct bench_interface *interface;
	u32 size;
	u32 inlined;
	u32 chain;
	u32 signal;
	u32 burst;
	u32 cpus;
	u32 queues;
	u32 rounds;
	enum bench_steps steps;
};

/**
 * struct bench_cost - what something cost, over all rounds
 * @least: instructions of one round, of each part of it the least of all rounds
 * @parts: separately measured parts of a round
 * @differing: how many of them were not the same in all rounds
 * @spread: the largest difference of one of them, instructions
 */
struct bench_cost {
	u64 least;
	u32 parts;
	u32 differing;
	u32 spread;
};

/**
 * struct bench_result - what was measured
 * @writes: WRITEs of one round
 * @rounds: rounds in which all completions were there when they were looked for
 * @executed: WRITEs of all rounds, those that are not counted in @rounds, too
 * @post: posting
 * @complete: completing
 * @dispatch: see &struct bench_polled
 */
struct bench_result {
	u32 writes;
	u32 rounds;
	u32 executed;
	struct bench_cost post;
	struct bench_cost complete;
	struct bench_cost dispatch;
};

/* round.c */
int bench_check(const struct bench_case *c);
int bench_run(const struct bench_case *c, struct bench_queue **queues,
	      struct bench_result *result);

#endif /* MLX5_ULP_BENCH_H */
