// SPDX-License-Identifier: GPL-2.0
/*
 *	insmod mlx5_ulp_rping.ko server=1 address=10.0.0.1
 *
 * answers `rping -c` until it is unloaded;
 *
 *	insmod mlx5_ulp_rping.ko address=10.0.0.1 count=100 size=4000
 *
 * talks to `rping -s` while it loads, and refuses to load if that fails.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/module.h>

#include "rping.h"

static bool server;
module_param(server, bool, 0444);
MODULE_PARM_DESC(server, "wait for clients");

static char *address = "0.0.0.0";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IP address to connect to, or to listen on");

static char *port = "7174";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port, that of rping if left out");

static unsigned int size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of a ping of the client, 32 to 65536");

static unsigned int count = 1;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "pings of the client");

static int __init mlx5_ulp_rping_init(void)
{
	struct sockaddr_storage where;
	int err;

	if (size < 32 || size > RPING_MAX_SIZE)
		return -EINVAL;
	err = inet_pton_with_scope(&init_net, AF_UNSPEC, address, port, &where);
	if (err)
		return err;
	return server ? server_start((struct sockaddr *)&where) :
			client_run((struct sockaddr *)&where, size, count);
}

static void __exit mlx5_ulp_rping_exit(void)
{
	if (server)
		server_stop();
}

module_init(mlx5_ulp_rping_init);
module_exit(mlx5_ulp_rping_exit);
MODULE_DESCRIPTION("rping on queues of mlx5_ulp");
MODULE_LICENSE("GPL");
