// SPDX-License-Identifier: GPL-2.0
/*
 * What a queue is connected over: RoCE v2 from its own device, and nothing else,
 * whatever a consumer with connection management of its own comes with.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "test.h"

enum {
	MASK = IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_SQ_PSN |
	       IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MIN_RNR_TIMER |
	       IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY,
	MOST_GIDS = 256,
};

/* A GID of that type, to be given back. */
static const struct ib_gid_attr *find_gid(struct ib_device *ibdev, enum ib_gid_type type)
{
	const struct ib_gid_attr *attr;
	int i;

	for (i = 0; i < MOST_GIDS; i++) {
		attr = rdma_get_gid_attr(ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == type)
			return attr;
		rdma_put_gid_attr(attr);
	}
	return NULL;
}

/* A way from @local to itself. */
static struct ib_qp_attr way(const struct ib_gid_attr *local)
{
	return (struct ib_qp_attr) {
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = 2,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {
			.type = RDMA_AH_ATTR_TYPE_ROCE,
			.ah_flags = IB_AH_GRH,
			.port_num = 1,
			.grh = {
				.sgid_attr = local,
				.sgid_index = local->index,
				.dgid = local->gid,
				.hop_limit = 64,
			},
			.roce = { .dmac = { 2, 0, 0, 0, 0, 1 } },
		},
	};
}

/* Each is refused for one reason; then, with none, the same queue is connected. */
static int refuse_networks(struct mlx5_ulp_queue *queue, const struct ib_gid_attr *v1,
			   const struct ib_gid_attr *v2)
{
	struct ib_gid_attr foreign = *v2;
	struct ib_qp_attr attr;
	int err;

	attr = way(v1);
	err = EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EINVAL);
	attr = way(v2);
	attr.ah_attr.type = RDMA_AH_ATTR_TYPE_IB;
	err = err ?: EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EINVAL);
	attr = way(v2);
	attr.ah_attr.ah_flags = 0;
	err = err ?: EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EINVAL);
	attr = way(v2);
	attr.ah_attr.grh.sgid_attr = NULL;
	err = err ?: EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EINVAL);
	/* Of some other device; only compared. */
	foreign.device = NULL;
	attr = way(&foreign);
	err = err ?: EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EINVAL);
	attr = way(v2);
	return err ?:
	       EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK & ~IB_QP_AV), -EINVAL) ?:
	       EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK | IB_QP_ALT_PATH),
		      -EINVAL) ?:
	       EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), 0) ?:
	       EXPECT(mlx5_ulp_queue_connect_verbs(queue, &attr, MASK), -EISCONN);
}

int test_network(void)
{
	const struct ib_gid_attr *v1 = NULL, *v2 = NULL;
	struct ib_device *ibdev;
	struct side side = {};
	int err;

	err = side_resolve(&side);
	if (!err) {
		/* Stays as long as the connection. */
		ibdev = mlx5_ulp_conn_ibdev(side.conn);
		v1 = find_gid(ibdev, IB_GID_TYPE_ROCE);
		v2 = find_gid(ibdev, IB_GID_TYPE_ROCE_UDP_ENCAP);
		err = v1 && v2 ? refuse_networks(side.queue, v1, v2) :
		      FAIL("not both kinds of GID: %d, %d", !!v1, !!v2);
	}
	if (v1)
		rdma_put_gid_attr(v1);
	if (v2)
		rdma_put_gid_attr(v2);
	side_close(&side);
	return err;
}
