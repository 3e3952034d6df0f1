// SPDX-License-Identifier: GPL-2.0
/*
 *	insmod mlx5_ulp_cm_test.ko address=10.0.0.1 test=connect
 *
 * runs one test while it loads: both sides of a connection from this host to
 * itself. It stays loaded if the test has passed, and else refuses to load; the
 * log says why.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "test.h"

static char *address = "10.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IP address of the device, of this host");

static char *test = "";
module_param(test, charp, 0444);
MODULE_PARM_DESC(test, "name of the test");

struct sockaddr_storage test_address;

static const struct named_test tests[] = {
	{ "connect", test_connect },
	{ "again", test_again },
	{ "to_verbs", test_to_verbs },
	{ "from_verbs", test_from_verbs },
	{ "handler", test_handler },
	{ "refuse", test_refuse },
	{ "listen_twice", test_listen_twice },
	{ "misuse", test_misuse },
	{ "network", test_network },
	{ "solicited", test_solicited },
	{ "stale", test_stale },
	{ "cancel_first", test_cancel_first },
	{ "cancel_unanswered", test_cancel_unanswered },
	{ "cancel_answered", test_cancel_answered },
	{ "vanish", test_vanish },
	{ "moved", test_moved },
	{ "readdressed", test_readdressed },
	{ "leave_busy", test_leave_busy },
	{ "left_busy", test_left_busy },
	{ "destroy_busy", test_destroy_busy },
	{ "stay", test_stay },
};

static int __init mlx5_ulp_cm_test_init(void)
{
	int err;

	err = inet_pton_with_scope(&init_net, AF_UNSPEC, address, "7471", &test_address);
	if (err)
		return err;
	return run_named_test(tests, ARRAY_SIZE(tests), test);
}

static void __exit mlx5_ulp_cm_test_exit(void)
{
	test_stay_end();
}

module_init(mlx5_ulp_cm_test_init);
module_exit(mlx5_ulp_cm_test_exit);
MODULE_DESCRIPTION("Tests of the interface of mlx5_ulp_cm");
MODULE_LICENSE("GPL");
