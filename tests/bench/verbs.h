/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MLX5_ULP_BENCH_VERBS_H
#define MLX5_ULP_BENCH_VERBS_H

#include <rdma/ib_verbs.h>

/**
 * struct verbs_device - one function and what is shared by its queues
 * @ibdev: the RDMA device
 * @pd: protection domain, with a key that opens all memory to the peer
 * @gid_index: of the first GID of RoCE v2, which is link-local
 * @gid: that GID
 * @mac: Ethernet address that goes with it
 * @mtu: of packets
 * @memory: of %BENCH_MEMORY bytes
 * @address: of it, for the device
 */
struct verbs_device {
	struct ib_device *ibdev;
	struct ib_pd *pd;
	int gid_index;
	union ib_gid gid;
	u8 mac[ETH_ALEN];
	enum ib_mtu mtu;
	void *memory;
	u64 address;
};

#define VERBS_PORT 1

int verbs_device_open(struct verbs_device *device, const char *name,
		      enum dma_data_direction direction);
void verbs_device_close(struct verbs_device *device, enum dma_data_direction direction);

/* Connects two queue pairs in one direction: @qp, on @device, sends to @peer on @at. */
int verbs_connect(struct ib_qp *qp, const struct verbs_device *device,
		  struct ib_qp *peer, const struct verbs_device *at);

#endif /* MLX5_ULP_BENCH_VERBS_H */
