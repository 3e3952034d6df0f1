// SPDX-License-Identifier: GPL-2.0
/*
 *	insmod mlx5_ulp_test.ko src=mlx5_0 dst=mlx5_1 test=full
 *
 * runs one test while it loads. It stays loaded if the test has passed, and
 * else refuses to load; the log says why.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "test.h"

char *test_src = "mlx5_0";
module_param_named(src, test_src, charp, 0444);
MODULE_PARM_DESC(src, "RDMA device that writes");

char *test_dst = "mlx5_1";
module_param_named(dst, test_dst, charp, 0444);
MODULE_PARM_DESC(dst, "RDMA device that is written to");

static char *test = "";
module_param(test, charp, 0444);
MODULE_PARM_DESC(test, "name of the test");

static const struct named_test tests[] = {
	{ "full", test_full },
	{ "wrap", test_wrap },
	{ "posters", test_posters },
	{ "queues", test_queues },
	{ "shapes", test_shapes },
	{ "unsignaled", test_unsignaled },
	{ "from_completion", test_from_completion },
	{ "exclusive", test_exclusive },
	{ "lone", test_lone },
	{ "lone_inline", test_lone_inline },
	{ "held", test_held },
	{ "held_long", test_held_long },
	{ "flush", test_flush },
	{ "last", test_last },
	{ "more", test_more },
	{ "prefetch", test_prefetch },
	{ "loaded", test_loaded },
	{ "switched", test_switched },
	{ "merged", test_merged },
	{ "bad_rkey", test_bad_rkey },
	{ "bad_bounds", test_bad_bounds },
	{ "bad_right", test_bad_right },
	{ "bad_domain", test_bad_domain },
	{ "bad_lkey", test_bad_lkey },
	{ "silent_before_error", test_silent_before_error },
	{ "silent_before_bad_peer", test_silent_before_bad_peer },
	{ "refusals", test_refusals },
	{ "read", test_read },
	{ "read_refusals", test_read_refusals },
	{ "read_protected", test_read_protected },
	{ "atomics", test_atomics },
	{ "kept_region", test_kept_region },
	{ "messages", test_messages },
	{ "many_messages", test_many_messages },
	{ "polled_messages", test_polled_messages },
	{ "not_ready", test_not_ready },
	{ "too_long", test_too_long },
	{ "stop", test_stop },
	{ "receive_refusals", test_receive_refusals },
	{ "registration", test_registration },
	{ "registered_source", test_registered_source },
	{ "registration_refusals", test_registration_refusals },
	{ "regions", test_regions },
	{ "reservation", test_reservation },
	{ "exclusive_reservation", test_exclusive_reservation },
	{ "space", test_space },
	{ "space_released", test_space_released },
	{ "drained_full", test_drained_full },
	{ "in_work", test_in_work },
	{ "destroy_in_flight", test_destroy_in_flight },
	{ "close_order", test_close_order },
	{ "stay", test_stay },
	{ "in_interrupt", test_in_interrupt },
	{ "unloading", test_unloading },
	{ "stale", test_stale },
	{ "stale_race", test_stale_race },
	{ "steady", test_steady },
	{ "mortal", test_mortal },
	{ "leaving", test_leaving },
	{ "registers", test_registers },
	{ "unanswered", test_unanswered },
	{ "broken", test_broken },
	{ "names", test_names },
	{ "names_churn", test_names_churn },
	{ "scale", test_scale },
};

static int __init mlx5_ulp_test_init(void)
{
	return run_named_test(tests, ARRAY_SIZE(tests), test);
}

static void __exit mlx5_ulp_test_exit(void)
{
	test_stay_end();
	test_unloading_end();
	test_steady_end();
	test_leaving_end();
	test_registers_end();
	test_unanswered_end();
	test_broken_end();
}

module_init(mlx5_ulp_test_init);
module_exit(mlx5_ulp_test_exit);
MODULE_DESCRIPTION("Tests of the interface of mlx5_ulp");
MODULE_LICENSE("GPL");
