// SPDX-License-Identifier: GPL-2.0
/*
 * Devices and connections by the verbs of the kernel.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/etherdevice.h>
#include <linux/vmalloc.h>
#include <rdma/ib_cache.h>

#include "bench.h"
#include "verbs.h"

/* As mlx5_ulp connects its queues. */
#define HOP_LIMIT 64
#define RETRIES 7
#define MIN_RNR_TIMER 12
#define READ_ATOMIC 16

struct search {
	const char *name;
	struct ib_device *found;
};

static struct search search;

static int search_add(struct ib_device *ibdev)
{
	if (search.name && !search.found && !strcmp(dev_name(&ibdev->dev), search.name) &&
	    ib_device_try_get(ibdev))
		search.found = ibdev;
	/* Nothing to be told about it later. */
	return -EOPNOTSUPP;
}

/* The device of that name, to be put back; its removal waits for that. */
static struct ib_device *search_device(const char *name)
{
	struct ib_client client = {
		.name = KBUILD_MODNAME,
		.add = search_add,
	};
	int err;

	search = (struct search) { .name = name };
	err = ib_register_client(&client);
	if (err)
		return ERR_PTR(err);
	ib_unregister_client(&client);
	return search.found ?: ERR_PTR(-ENODEV);
}

static int find_gid(struct verbs_device *device)
{
	const struct ib_gid_attr *attr;
	struct ib_port_attr port;
	int i, err;

	err = ib_query_port(device->ibdev, VERBS_PORT, &port);
	if (err)
		return err;
	device->mtu = min(port.active_mtu, IB_MTU_1024);
	for (i = 0; i < port.gid_tbl_len; i++) {
		attr = rdma_get_gid_attr(device->ibdev, VERBS_PORT, i);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP) {
			device->gid = attr->gid;
			device->gid_index = i;
			err = rdma_read_gid_l2_fields(attr, NULL, device->mac);
			rdma_put_gid_attr(attr);
			return err;
		}
		rdma_put_gid_attr(attr);
	}
	return -ENOENT;
}

void verbs_device_close(struct verbs_device *device, enum dma_data_direction direction)
{
	if (device->address)
		ib_dma_unmap_single(device->ibdev, device->address, BENCH_MEMORY, direction);
	if (device->memory)
		free_pages_exact(device->memory, BENCH_MEMORY);
	if (!IS_ERR_OR_NULL(device->pd))
		ib_dealloc_pd(device->pd);
	if (!IS_ERR_OR_NULL(device->ibdev))
		ib_device_put(device->ibdev);
	memset(device, 0, sizeof(*device));
}

int verbs_device_open(struct verbs_device *device, const char *name,
		      enum dma_data_direction direction)
{
	u64 address;
	int err;

	device->ibdev = search_device(name);
	if (IS_ERR(device->ibdev)) {
		err = PTR_ERR(device->ibdev);
		goto fail;
	}
	err = find_gid(device);
	if (err)
		goto fail;
	device->pd = ib_alloc_pd(device->ibdev, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(device->pd)) {
		err = PTR_ERR(device->pd);
		goto fail;
	}
	err = -ENOMEM;
	device->memory = alloc_pages_exact(BENCH_MEMORY, GFP_KERNEL | __GFP_ZERO);
	if (!device->memory)
		goto fail;
	address = ib_dma_map_single(device->ibdev, device->memory, BENCH_MEMORY, direction);
	if (ib_dma_mapping_error(device->ibdev, address))
		goto fail;
	device->address = address;
	return 0;

fail:
	verbs_device_close(device, direction);
	return err;
}

int verbs_connect(struct ib_qp *qp, const struct verbs_device *device,
		  struct ib_qp *peer, const struct verbs_device *at)
{
	struct ib_qp_attr init = {
		.qp_state = IB_QPS_INIT,
		.port_num = VERBS_PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE,
	};
	struct ib_qp_attr rtr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = min(device->mtu, at->mtu),
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = READ_ATOMIC,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	struct ib_qp_attr rts = {
		.qp_state = IB_QPS_RTS,
		.timeout = BENCH_TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = READ_ATOMIC,
	};

	rtr.ah_attr.type = rdma_ah_find_type(device->ibdev, VERBS_PORT);
	rdma_ah_set_port_num(&rtr.ah_attr, VERBS_PORT);
	rdma_ah_set_grh(&rtr.ah_attr, (union ib_gid *)&at->gid, 0, device->gid_index,
			HOP_LIMIT, 0);
	/* Nobody resolves addresses for the kernel's own users. */
	ether_addr_copy(rtr.ah_attr.roce.dmac, at->mac);
	return ib_modify_qp(qp, &init, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				       IB_QP_ACCESS_FLAGS) ?:
	       ib_modify_qp(qp, &rtr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
				      IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				      IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER) ?:
	       ib_modify_qp(qp, &rts, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
				      IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
				      IB_QP_MAX_QP_RD_ATOMIC);
}
