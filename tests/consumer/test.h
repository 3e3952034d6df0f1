/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of the interface of <mlx5_ulp.h>, each a function that returns 0 when
 * all is as it should be.
 */
#ifndef MLX5_ULP_TEST_H
#define MLX5_ULP_TEST_H

#include <linux/atomic.h>
#include <mlx5_ulp.h>

#include "expect.h"

extern char *test_src;
extern char *test_dst;

/* Receives of the second queue of a pair, and ranges of each. */
enum { PAIR_RECEIVES = 16, PAIR_RECEIVE_RANGES = 3 };

/*
 * Two queues, one on each device, with registered memory at both ends: what the
 * first writes arrives at the second.
 */
struct pair {
	struct mlx5_ulp_device *src, *dst;
	struct mlx5_ulp_region *from, *to;
	u8 *from_memory, *to_memory;
	size_t bytes;
	struct mlx5_ulp_queue *sender, *receiver;
};

int pair_open(struct pair *pair, size_t bytes, const struct mlx5_ulp_queue_attr *attr);
int pair_connect_sender(struct pair *pair, const struct mlx5_ulp_connect_attr *attr);
int pair_connect_sender_patiently(struct pair *pair);
int pair_connect_receiver(struct pair *pair);
int pair_connect(struct pair *pair);
void pair_close(struct pair *pair);
struct mlx5_ulp_sge pair_room(const struct pair *pair, size_t offset, u32 length);
struct mlx5_ulp_sge pair_sge(const struct pair *pair, size_t offset, u32 length);
u64 pair_remote(const struct pair *pair, size_t offset);
int pair_compare(const struct pair *pair, size_t offset, size_t length);

/* Counts how requests end. One of these may be in flight many times. */
struct tally {
	struct mlx5_ulp_request request;
	atomic_t ended, done, failed, flushed;
	int first_status;
	u8 first_syndrome;
};

/* A WRITE of @length bytes from @offset on, to the same offset; @sge is its range. */
struct mlx5_ulp_write pair_write(const struct pair *pair, struct tally *tally,
				 struct mlx5_ulp_sge *sge, size_t offset, u32 length);

void tally_init(struct tally *tally);
/* Waits until @count requests have ended; 0, or -ETIMEDOUT after @seconds. */
int tally_wait(struct tally *tally, int count, int seconds);

/* Posts, and tries again while the queue is full. From process context. */
int post_with_room(struct mlx5_ulp_queue *queue, const struct mlx5_ulp_write *writes,
		   unsigned int count);

/* The same for what must not be refused. */
int post_patiently(struct mlx5_ulp_queue *queue, const struct mlx5_ulp_write *writes,
		   unsigned int count);

/* load.c */
int test_full(void);
int test_wrap(void);
int test_posters(void);
int test_queues(void);
int test_shapes(void);
int test_unsignaled(void);
int test_from_completion(void);
int test_exclusive(void);

/* doorbell.c */
int test_lone(void);
int test_lone_inline(void);
int test_held(void);
int test_held_long(void);
int test_flush(void);
int test_last(void);
int test_more(void);
int test_loaded(void);
int test_switched(void);

/* merge.c */
int test_merged(void);

/* prefetch.c */
int test_prefetch(void);

/* errors.c */
int test_bad_rkey(void);
int test_bad_bounds(void);
int test_bad_right(void);
int test_bad_domain(void);
int test_bad_lkey(void);
int test_silent_before_error(void);
int test_silent_before_bad_peer(void);
int test_refusals(void);

/* works.c */
int test_read(void);
int test_read_refusals(void);
int test_read_protected(void);
int test_atomics(void);

/* messages.c */
int test_messages(void);
int test_many_messages(void);
int test_polled_messages(void);
int test_not_ready(void);
int test_too_long(void);
int test_stop(void);
int test_receive_refusals(void);

/* keys.c */
int test_registration(void);
int test_registered_source(void);
int test_registration_refusals(void);
int test_regions(void);
int test_kept_region(void);

/* room.c */
int test_reservation(void);
int test_exclusive_reservation(void);
int test_space(void);
int test_space_released(void);
int test_drained_full(void);

/* work.c */
int test_in_work(void);

/* lifetime.c */
int test_destroy_in_flight(void);
int test_close_order(void);
int test_stay(void);
void test_stay_end(void);

/* context.c */
int test_in_interrupt(void);
int test_unloading(void);
void test_unloading_end(void);

/* stale.c */
int test_stale(void);
int test_stale_race(void);

/* steady.c */
int test_steady(void);
void test_steady_end(void);

/* mortal.c */
int test_mortal(void);
int test_leaving(void);
void test_leaving_end(void);

/* registers.c */
int test_registers(void);
void test_registers_end(void);

/* broken.c */
int test_broken(void);
void test_broken_end(void);

/* unanswered.c */
int test_unanswered(void);
void test_unanswered_end(void);

/* names.c */
int test_names(void);
int test_names_churn(void);

/* scale.c */
int test_scale(void);

#endif /* MLX5_ULP_TEST_H */
