/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the bindings of a consumer in Rust that uses rdma_cm are made from.
 */
#ifndef MLX5_ULP_API_CM_BINDINGS_H
#define MLX5_ULP_API_CM_BINDINGS_H

#include <mlx5_ulp.h>
#include <mlx5_ulp_conn.h>
#include <uapi/linux/in6.h>
#include <uapi/linux/socket.h>

/*
 * Of <net/net_namespace.h> and <linux/inet.h>, through which bindgen would come to all
 * structures of the network.
 */
extern struct net init_net;
int inet_pton_with_scope(struct net *net, unsigned short af, const char *src,
			 const char *port, struct __kernel_sockaddr_storage *addr);

#endif /* MLX5_ULP_API_CM_BINDINGS_H */
