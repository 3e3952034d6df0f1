/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mlx5_ulp: direct RDMA send queues on ConnectX devices, for kernel consumers.
 *
 * The road of a consumer:
 *
 *	mlx5_ulp_open()			take hold of a device
 *	mlx5_ulp_region_create()	register memory, get keys for it
 *	mlx5_ulp_queue_create()		make a send queue
 *	mlx5_ulp_queue_address()	tell the peer, out of band
 *	mlx5_ulp_queue_connect()	with what the peer told
 *	mlx5_ulp_post_write()		as often as you like
 *	mlx5_ulp_queue_drain()		wait for what is in flight
 *	mlx5_ulp_queue_destroy(), mlx5_ulp_region_destroy(), mlx5_ulp_close()
 *
 * Contexts: "may sleep" means process context without spin locks; "any
 * context" includes interrupts and completion callbacks, wherever a spinlock_t
 * may be taken. (Interrupts that not even PREEMPT_RT runs in threads, as of timers
 * in hard mode, are not for that, says lockdep.)
 *
 * Handles: calls that may sleep look theirs up. One that was given back already,
 * or never was one, they answer with -EBADF, as far as they answer, and do nothing
 * but write a line to the log that says who has called. Calls of any context do
 * not look: with such a handle they are a use after free. So is a handle that was
 * given back and whose address is by now that of another one, which it then names.
 */
#ifndef MLX5_ULP_H
#define MLX5_ULP_H

#include <linux/err.h>
#include <linux/types.h>

struct device;
struct ib_device;
struct ib_qp_attr;
struct module;
struct scatterlist;

struct mlx5_ulp_device;
struct mlx5_ulp_queue;
struct mlx5_ulp_exclusive;
struct mlx5_ulp_region;
struct mlx5_ulp_fast_region;
struct mlx5_ulp_request;

/* -------------------------------------------------------------- device -- */

/**
 * struct mlx5_ulp_open_attr - how to open a device
 * @removal: called once when the device is about to go, or %NULL. From process
 *	context, may sleep. Everything still works when it is called; when it
 *	returns, all that the consumer still has on the device is shut down:
 *	requests in flight complete with %-ECANCELED, later calls answer
 *	%-ENODEV, and the handles stay to be destroyed. It may destroy and close
 *	everything itself. It must not wait for another task that closes the
 *	handle, which waits for it.
 * @context: passed to @removal
 * @owner: %THIS_MODULE, which cannot be unloaded while @removal runs: when that
 *	closes the device, nobody else waits for its last instructions. A module that
 *	is being unloaded already is not told any more: the device stays until its
 *	exit function has closed the handle. May be %NULL if @removal does not close.
 */
struct mlx5_ulp_open_attr {
	void (*removal)(void *context);
	void *context;
	struct module *owner;
};

/**
 * mlx5_ulp_open() - take hold of a device by its name
 * @name: name of the RDMA device, such as "mlx5_0"
 * @attr: removal notice, or %NULL for none
 *
 * Gives the consumer a protection domain of its own: keys and queues of one
 * handle work together, those of different handles do not.
 *
 * Context: May sleep.
 * Return: the handle, to be given back by mlx5_ulp_close(), or an ERR_PTR():
 * %-ENODEV when there is no attached mlx5 device of that name or it is being
 * removed, %-EINVAL when @name is not a name, %-ENOMEM, or what the firmware
 * answered.
 */
struct mlx5_ulp_device *mlx5_ulp_open(const char *name,
				      const struct mlx5_ulp_open_attr *attr);

/**
 * mlx5_ulp_open_ibdev() - take hold of a device by its RDMA device
 * @ibdev: the device; only compared, so it may have gone meanwhile
 * @attr: removal notice, or %NULL for none
 *
 * As mlx5_ulp_open().
 *
 * Context: May sleep.
 * Return: as mlx5_ulp_open().
 */
struct mlx5_ulp_device *mlx5_ulp_open_ibdev(struct ib_device *ibdev,
					    const struct mlx5_ulp_open_attr *attr);

/**
 * mlx5_ulp_close() - give back a device
 * @dev: the handle
 *
 * The handle must not be used afterwards; see the top of this file for what happens
 * to who does. Queues and regions that were made on it keep working, in all
 * respects, until they are destroyed. When this returns, the removal
 * notice is not called any more, unless it is what called this.
 *
 * Context: May sleep.
 */
void mlx5_ulp_close(struct mlx5_ulp_device *dev);

/**
 * struct mlx5_ulp_limits - what a device can do
 * @max_depth: most requests in flight on one queue, for requests of one basic
 *	block; with receives, most of both together
 * @max_sge: most data ranges of one request
 * @max_read_sge: most data ranges of one READ
 * @max_reads: most READs and atomics that a queue has under way at its peer, or
 *	the peer here; more wait their turn in the queue
 * @max_recv_sge: most data ranges of one receive
 * @max_inline: most bytes of payload in a request itself
 * @max_message: most bytes of one request
 * @vectors: number of completion vectors
 */
struct mlx5_ulp_limits {
	u32 max_depth;
	u32 max_sge;
	u32 max_read_sge;
	u32 max_reads;
	u32 max_recv_sge;
	u32 max_inline;
	u32 max_message;
	u32 vectors;
};

/**
 * mlx5_ulp_query_limits() - what a device can do
 * @dev: the handle
 * @limits: filled in
 *
 * Context: Any context.
 */
void mlx5_ulp_query_limits(const struct mlx5_ulp_device *dev,
			   struct mlx5_ulp_limits *limits);

/**
 * mlx5_ulp_local_key() - the key to local memory by DMA address
 * @dev: the handle
 *
 * With this key a request names memory by the DMA addresses that the consumer
 * got from the DMA API for mlx5_ulp_dma_device(). The key is good for local
 * access only: no peer can use it.
 *
 * Context: Any context.
 * Return: the key; 0 once the device is gone.
 */
u32 mlx5_ulp_local_key(const struct mlx5_ulp_device *dev);

/**
 * mlx5_ulp_dma_device() - the device to map memory for
 * @dev: the handle
 *
 * What the DMA API is to be called with for memory that requests name by
 * mlx5_ulp_local_key(). All mappings must be undone before the removal notice
 * returns, but those of requests in flight: these are undone in their
 * completions.
 *
 * Context: Any context.
 * Return: the device, valid until the removal notice returns or @dev is closed;
 * %NULL once the device is gone.
 */
struct device *mlx5_ulp_dma_device(const struct mlx5_ulp_device *dev);

/**
 * mlx5_ulp_unsafe_global_key() - a key to all memory, for peers
 * @dev: the handle
 * @access: of &enum mlx5_ulp_access, what peers may do
 * @key: filled in
 *
 * Whoever is connected to a queue of this handle and learns the key reads or
 * writes **all memory of this machine** that the device can reach, by its DMA
 * address. For closed systems whose peers are trusted like the kernel itself. The
 * log says that it was made. It is good until the handle is closed.
 *
 * Context: May sleep.
 * Return: 0, %-EINVAL for unknown bits in @access, %-ENODEV, %-ENOMEM, or what the
 * firmware answered.
 */
int mlx5_ulp_unsafe_global_key(struct mlx5_ulp_device *dev, unsigned int access, u32 *key);

/* -------------------------------------------------------------- region -- */

/**
 * enum mlx5_ulp_access - what may be done with a region, ORed
 * @MLX5_ULP_ACCESS_LOCAL: read it, as the source of a WRITE (always granted)
 * @MLX5_ULP_ACCESS_REMOTE_WRITE: a peer may write it
 * @MLX5_ULP_ACCESS_REMOTE_READ: a peer may read it
 * @MLX5_ULP_ACCESS_REMOTE_ATOMIC: a peer may use atomic operations on it
 * @MLX5_ULP_ACCESS_LOCAL_WRITE: requests of our own may write it: the
 *	destination of a READ, of the old value of an atomic, of a receive.
 *	Comes with %MLX5_ULP_ACCESS_REMOTE_WRITE and
 *	%MLX5_ULP_ACCESS_REMOTE_ATOMIC, without which a device refuses these. It
 *	says nothing about a queue
 */
enum mlx5_ulp_access {
	MLX5_ULP_ACCESS_LOCAL		= 0,
	MLX5_ULP_ACCESS_REMOTE_WRITE	= 1 << 0,
	MLX5_ULP_ACCESS_REMOTE_READ	= 1 << 1,
	MLX5_ULP_ACCESS_REMOTE_ATOMIC	= 1 << 2,
	MLX5_ULP_ACCESS_LOCAL_WRITE	= 1 << 3,
};

/**
 * mlx5_ulp_region_create() - register kernel memory
 * @dev: the handle
 * @memory: memory of kmalloc(), vmalloc() or pages, which stays allocated
 *	until the region is destroyed
 * @length: bytes, not 0
 * @access: of &enum mlx5_ulp_access
 *
 * In the region the memory has its kernel virtual address: the address that a
 * request or a peer gives is the pointer itself. Access ends with the last
 * byte of @length.
 *
 * Context: May sleep.
 * Return: the region, to be given back by mlx5_ulp_region_destroy(), or an
 * ERR_PTR(): %-EINVAL for an empty range, memory that is neither mapped nor
 * direct, or unknown bits in @access, %-EIO when the device cannot reach the
 * memory, %-EOPNOTSUPP when it does not reach the memory itself, but a bounce
 * buffer, %-ENODEV, %-ENOMEM, or what the firmware answered. After an error there
 * is no key to the memory: it may be freed.
 */
struct mlx5_ulp_region *mlx5_ulp_region_create(struct mlx5_ulp_device *dev,
					       void *memory, size_t length,
					       unsigned int access);

/**
 * mlx5_ulp_region_create_sg() - register a scatterlist
 * @dev: the handle
 * @sgl: its first entry
 * @nents: entries, as dma_map_sg() for mlx5_ulp_dma_device() has answered; they
 *	stay mapped until the region is destroyed
 * @access: of &enum mlx5_ulp_access
 *
 * The first byte has the address mlx5_ulp_region_address(), the others follow.
 *
 * Context: May sleep.
 * Return: the region, to be given back by mlx5_ulp_region_destroy(), or an
 * ERR_PTR(): %-EINVAL for an empty list, one with a hole (an entry inside it that
 * does not begin and end with a page's), or unknown bits in @access, %-ENODEV,
 * %-ENOMEM, or what the firmware answered.
 */
struct mlx5_ulp_region *mlx5_ulp_region_create_sg(struct mlx5_ulp_device *dev,
						  struct scatterlist *sgl,
						  unsigned int nents,
						  unsigned int access);

/**
 * mlx5_ulp_region_address() - the address of a region's first byte
 * @region: the region
 *
 * Context: Any context.
 * Return: the address, as requests and peers give it.
 */
u64 mlx5_ulp_region_address(const struct mlx5_ulp_region *region);

/**
 * mlx5_ulp_region_destroy() - make the keys of a region useless
 * @region: the region
 *
 * When this returns 0, nobody reaches the memory by its key any more. Requests
 * that name the region should have completed: those in flight fail, and their
 * queues with them.
 *
 * Context: May sleep.
 * Return: 0, or what the firmware answered when it did not destroy the key, which
 * is in the log, too. The region is given back all the same, but its memory must
 * not be freed then, nor unmapped: the device may still reach it. (Of a device
 * that has died, all keys count as destroyed.) %-EBADF when it was given back before:
 * what was answered then holds.
 */
int mlx5_ulp_region_destroy(struct mlx5_ulp_region *region);

/**
 * mlx5_ulp_region_key() - the key of a region
 * @region: the region
 *
 * One key serves both ends: as local key in requests on the same handle's
 * queues and, with the rights given, as remote key at the peer.
 *
 * Context: Any context.
 * Return: the key.
 */
u32 mlx5_ulp_region_key(const struct mlx5_ulp_region *region);

/* --------------------------------------------------------- fast region -- */

/* Most pages of a fast region. */
#define MLX5_ULP_MAX_FAST_PAGES	512

/**
 * mlx5_ulp_fast_region_create() - make a key for registration by requests
 * @dev: the handle, the same as that of the queues
 * @max_pages: most pages of one registration, 1 to %MLX5_ULP_MAX_FAST_PAGES
 *
 * mlx5_ulp_region_create() is a command of the firmware. This is made once, and
 * then used as often as wanted:
 *
 * 1. mlx5_ulp_fast_region_map() puts a scatterlist into it;
 * 2. a request with %MLX5_ULP_OP_REGISTER makes its key valid; requests behind it
 *    in the same queue may use the key;
 * 3. a request with %MLX5_ULP_OP_INVALIDATE, or the peer's SEND that invalidates
 *    it, makes the key useless. When that has completed, back to 1.
 *
 * Context: May sleep.
 * Return: the region, to be given back by mlx5_ulp_fast_region_destroy(), or an
 * ERR_PTR(): %-EINVAL for @max_pages out of range, %-ENODEV, %-ENOMEM, or what the
 * firmware answered.
 */
struct mlx5_ulp_fast_region *mlx5_ulp_fast_region_create(struct mlx5_ulp_device *dev,
							 unsigned int max_pages);

/**
 * mlx5_ulp_fast_region_destroy() - give back a key, valid or not
 * @region: the region
 *
 * When this returns 0, nobody reaches memory by it. Requests that name the region
 * must have completed.
 *
 * Context: May sleep.
 * Return: 0, or an error when memory for which the key was valid must not be
 * freed, or %-EBADF: as mlx5_ulp_region_destroy().
 */
int mlx5_ulp_fast_region_destroy(struct mlx5_ulp_fast_region *region);

/**
 * mlx5_ulp_fast_region_map() - say what is to be registered
 * @region: the region, whose key is not valid, and with no registration in flight
 * @sgl: first entry of a scatterlist
 * @nents: entries, as dma_map_sg() for mlx5_ulp_dma_device() has answered; they
 *	stay mapped as long as the key is valid
 *
 * Changes the key: the low byte is another one each time, so a peer that has kept
 * the old one is refused.
 *
 * Context: Any context; one call at a time for a region.
 * Return: 0, %-EINVAL for a list that is empty or has a hole (see
 * mlx5_ulp_region_create_sg()), %-EMSGSIZE for more pages than there is room for,
 * %-ENODEV when the device is gone. After an error nothing can be registered.
 */
int mlx5_ulp_fast_region_map(struct mlx5_ulp_fast_region *region,
			     struct scatterlist *sgl, unsigned int nents);

/**
 * mlx5_ulp_fast_region_key() - the key, as of the last mapping
 * @region: the region
 *
 * Context: Any context.
 * Return: the key: local key and, with the rights given, the peer's.
 */
u32 mlx5_ulp_fast_region_key(const struct mlx5_ulp_fast_region *region);

/**
 * mlx5_ulp_fast_region_address() - the address of the first byte that is mapped
 * @region: the region
 *
 * Context: Any context.
 * Return: the address, as requests and peers give it.
 */
u64 mlx5_ulp_fast_region_address(const struct mlx5_ulp_fast_region *region);

/* --------------------------------------------------------------- queue -- */

/**
 * enum mlx5_ulp_queue_flags - who posts to a queue, and how it is found
 * @MLX5_ULP_QUEUE_SHARED: any number of tasks and interrupts, by
 *	mlx5_ulp_post_write() and mlx5_ulp_post_writes(), under the queue's lock
 * @MLX5_ULP_QUEUE_EXCLUSIVE: one poster at a time, by
 *	mlx5_ulp_exclusive_post_writes(), without a lock
 * @MLX5_ULP_QUEUE_POLLED: no interrupts: requests complete in mlx5_ulp_poll(),
 *	mlx5_ulp_queue_drain() and mlx5_ulp_queue_destroy() only, and are not
 *	compressed by the device; ORed
 * @MLX5_ULP_QUEUE_WORK: callbacks run in process context, on a workqueue, and may
 *	sleep, but not in a call on the same queue; not with
 *	%MLX5_ULP_QUEUE_POLLED. They come later, by the time that it takes to
 *	wake a worker, and their latencies are not measured; ORed
 * @MLX5_ULP_QUEUE_REGISTERS: %MLX5_ULP_OP_REGISTER and %MLX5_ULP_OP_INVALIDATE
 *	can be posted. Each request takes three basic blocks of the ring then, at
 *	least. A queue whose @max_sge makes its requests that long anyway takes them
 *	without the flag; ORed
 * @MLX5_ULP_QUEUE_NAMED: found by the name in @qid of &struct
 *	mlx5_ulp_queue_attr; ORed
 */
enum mlx5_ulp_queue_flags {
	MLX5_ULP_QUEUE_SHARED		= 0,
	MLX5_ULP_QUEUE_EXCLUSIVE	= 1 << 0,
	MLX5_ULP_QUEUE_POLLED		= 1 << 1,
	MLX5_ULP_QUEUE_NAMED		= 1 << 2,
	MLX5_ULP_QUEUE_REGISTERS	= 1 << 3,
	MLX5_ULP_QUEUE_WORK		= 1 << 4,
};

/* Largest function number and largest local number in the name of a queue. */
#define MLX5_ULP_MAX_VF_ID	253
#define MLX5_ULP_MAX_LOCAL_QID	0xffffff

/**
 * mlx5_ulp_qid() - a consumer's name of a queue
 * @vf_id: function that the queue serves: 0 for the physical one, at most
 *	%MLX5_ULP_MAX_VF_ID
 * @local_qid: number that this function knows it by, at most
 *	%MLX5_ULP_MAX_LOCAL_QID
 *
 * Context: Any context.
 * Return: the name.
 */
static inline u32 mlx5_ulp_qid(u8 vf_id, u32 local_qid)
{
	return local_qid << 8 | vf_id;
}

/**
 * struct mlx5_ulp_queue_attr - how to make a queue
 * @depth: requests that may be in flight, not 0
 * @max_sge: most data ranges of one request, 1 if left 0
 * @max_inline: most bytes of payload in a request itself, may be 0
 * @vector: completion vector, whose CPU the callbacks run on; any number, it is
 *	reduced to the vectors that there are
 * @access: of &enum mlx5_ulp_access: what the peer may do through this queue
 * @flags: of &enum mlx5_ulp_queue_flags
 * @qid: with %MLX5_ULP_QUEUE_NAMED, its name: of mlx5_ulp_qid()
 * @max_recv_depth: receives that may wait for messages; 0 for a queue without
 * @max_recv_sge: most data ranges of one receive, 1 if left 0
 * @space: called when there is room again after posts have found the queue full
 *	(%-EAGAIN), or %NULL: once, however many posts that were, and again only
 *	when another post has found it full. There is room for the shortest of
 *	these posts then, unless others take it. Runs where completion callbacks
 *	run, or with softirqs off in a work item, of a queue that is polled, too;
 *	not at the same time as a callback of this queue, under no lock of a poster;
 *	it may post, and must not sleep.
 *	Called also when posts have become useless, by the error that they answer
 *	then
 * @context: passed with each completion, and to @space
 *
 * A request that needs neither more ranges nor more inline bytes than said here
 * always fits while fewer than @depth are in flight.
 */
struct mlx5_ulp_queue_attr {
	u32 depth;
	u32 max_sge;
	u32 max_inline;
	u32 vector;
	u32 access;
	u32 flags;
	u32 qid;
	u32 max_recv_depth;
	u32 max_recv_sge;
	void (*space)(void *context);
	void *context;
};

/**
 * struct mlx5_ulp_address - where a queue can be reached
 * @qpn: number of the QP, 24 bits
 * @psn: first packet sequence number, 24 bits
 * @gid: GID of the port
 * @mac: MAC address of the port, for RoCE
 * @mtu: largest payload of a packet, bytes: 256, 512, 1024, 2048 or 4096
 */
struct mlx5_ulp_address {
	u32 qpn;
	u32 psn;
	u8 gid[16];
	u8 mac[6];
	u16 mtu;
};

/**
 * struct mlx5_ulp_connect_attr - how to connect, beside the address
 * @gid_index: index of the own GID, or %MLX5_ULP_GID_AUTO
 * @timeout: time until a packet is sent again: 4.096 us << timeout; 1 to 31, 14
 *	if left 0
 * @retry_count: how often it is sent again, 1 to 7; 7 if left 0
 * @rnr_retry: how often when the peer has no receive, 1 to 7 (7 means for
 *	ever); 7 if left 0
 * @traffic_class: of the IP header
 * @max_reads: READs and atomics that the queue has under way at the peer, no
 *	more than the peer takes; as many as both devices usually can (16) if
 *	left 0
 * @max_peer_reads: how many of the peer are taken here; likewise
 */
struct mlx5_ulp_connect_attr {
	s32 gid_index;
	u8 timeout;
	u8 retry_count;
	u8 rnr_retry;
	u8 traffic_class;
	u8 max_reads;
	u8 max_peer_reads;
};

/* The first RoCE v2 GID of the port. */
#define MLX5_ULP_GID_AUTO (-1)

/**
 * mlx5_ulp_queue_create() - make a queue
 * @dev: the handle
 * @attr: its attributes
 *
 * The queue has its own send ring, completion queue and doorbell register, and
 * shares no lock with other queues.
 *
 * Context: May sleep.
 * Return: the queue, to be given back by mlx5_ulp_queue_destroy(), or an
 * ERR_PTR(): %-EINVAL for attributes out of range, %-EOPNOTSUPP for
 * %MLX5_ULP_ACCESS_REMOTE_ATOMIC on a device that has no atomics, %-EEXIST when
 * another queue of the device has the name, %-ENOSPC when the device has 4,096
 * queues already, %-ENODEV, %-ENOMEM, or what the firmware answered.
 */
struct mlx5_ulp_queue *mlx5_ulp_queue_create(struct mlx5_ulp_device *dev,
					     const struct mlx5_ulp_queue_attr *attr);

/**
 * mlx5_ulp_queue_qpn() - the number of a queue's QP
 * @queue: the queue
 *
 * Context: Any context.
 * Return: the number, 24 bits.
 */
u32 mlx5_ulp_queue_qpn(const struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_queue_address() - where the peer finds a queue
 * @queue: the queue
 * @gid_index: index of the GID, or %MLX5_ULP_GID_AUTO
 * @address: filled in
 *
 * Context: May sleep.
 * Return: 0, %-ENOENT when there is no such GID, %-ENODEV.
 */
int mlx5_ulp_queue_address(struct mlx5_ulp_queue *queue, s32 gid_index,
			   struct mlx5_ulp_address *address);

/**
 * mlx5_ulp_queue_connect() - connect a queue with its peer
 * @queue: the queue, not connected yet
 * @peer: what mlx5_ulp_queue_address() said at the other end
 * @attr: details, or %NULL for the usual ones
 *
 * Both ends have to connect before either posts.
 *
 * Context: May sleep.
 * Return: 0, %-EISCONN when it was connected or stopped before, %-EINVAL for values out of
 * range, %-ENOENT when there is no such GID, %-ENODEV, %-ENOMEM, or what the
 * firmware answered; after the last two the queue can only be destroyed.
 */
int mlx5_ulp_queue_connect(struct mlx5_ulp_queue *queue,
			   const struct mlx5_ulp_address *peer,
			   const struct mlx5_ulp_connect_attr *attr);

/**
 * mlx5_ulp_queue_connect_verbs() - connect a queue by attributes of the verbs interface
 * @queue: the queue, not connected yet
 * @attr: those of the steps to ready to receive and to ready to send, as the
 *	connection manager gives them: rdma_init_qp_attr() for %IB_QPS_RTR and then,
 *	into the same structure, for %IB_QPS_RTS. The GID attribute that the address
 *	names must be valid during the call, as it is while the rdma_cm_id exists.
 * @mask: of &enum ib_qp_attr_mask: what of @attr is valid, both steps together
 *
 * For consumers who do connection management of their own; <mlx5_ulp_cm.h> has
 * what most need. The rights of the peer are those that the queue was made with.
 * READs and atomics under way (max_rd_atomic, max_dest_rd_atomic) are reduced to
 * what the device can do; the static rate is not used.
 *
 * Context: May sleep.
 * Return: 0, %-EISCONN when it was connected, or disconnected, before, %-EINVAL
 * for values out of range, for attributes that are missing, or for an address
 * that is not RoCE v2 from this very device, %-ENODEV, %-ENOMEM, or what the
 * firmware answered; after the last two the queue can only be destroyed.
 */
int mlx5_ulp_queue_connect_verbs(struct mlx5_ulp_queue *queue,
				 const struct ib_qp_attr *attr, int mask);

/**
 * mlx5_ulp_queue_disconnect() - leave the peer
 * @queue: the queue, connected or not
 *
 * As mlx5_ulp_queue_stop(), without waiting, and also while others post to an
 * exclusive queue: later posts answer %-EPIPE, and requests and receives in flight
 * complete soon, by themselves (of a queue that is polled, when it is polled), with
 * %-ECANCELED where the device had not carried them out. Of an exclusive queue
 * drain what was posted with %MLX5_ULP_UNSIGNALED. For handlers of events that say
 * that the peer has gone. More calls do no harm.
 *
 * Context: May sleep; not from a completion callback.
 * Return: 0, %-ENODEV when the device, or the queue on it, is gone, %-ENOMEM, or
 * what the firmware answered: after the last two what is in flight ends when the queue
 * is destroyed.
 */
int mlx5_ulp_queue_disconnect(struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_queue_drain() - wait for everything that was posted
 * @queue: the queue
 *
 * Rings what waits and returns when all requests that were posted before have
 * completed and their callbacks have returned. If the device has died, they
 * complete with %-ECANCELED. Receives go on waiting for messages, and the queue
 * can be used as before.
 *
 * Context: May sleep; not from a completion callback.
 * Return: 0, or %-ENODEV when the device, or the queue on it, is gone (all
 * requests have completed then, too).
 */
int mlx5_ulp_queue_drain(struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_queue_stop() - end all traffic of a queue
 * @queue: the queue, connected or not
 *
 * The device lets go of the connection, without a word to the peer. Requests and
 * receives in flight that it had not carried out complete with %-ECANCELED; when
 * this returns, their callbacks have returned. Later posts answer %-EPIPE. The
 * queue can only be destroyed then.
 *
 * Context: May sleep; not from a completion callback. Of an exclusive queue,
 * nobody may post meanwhile.
 * Return: 0, also when it was stopped before; %-ENODEV when the device, or the
 * queue on it, is gone (everything has completed then, too), %-ENOMEM, or what the
 * firmware answered: after the last two it is not stopped.
 */
int mlx5_ulp_queue_stop(struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_queue_destroy() - give back a queue
 * @queue: the queue
 *
 * Requests and receives in flight complete first, with %-ECANCELED where the
 * device had not done them, or had not reported it: drain first to hear of
 * requests that were posted with %MLX5_ULP_UNSIGNALED. When this returns, no
 * callback of the queue is running or will run. Nobody may use the queue during or
 * after the call.
 *
 * Context: May sleep; not from a completion callback.
 */
void mlx5_ulp_queue_destroy(struct mlx5_ulp_queue *queue);

/* ------------------------------------------------------ finding queues -- */

/**
 * mlx5_ulp_queue_find() - the queue with a name
 * @dev: a handle of the device that the queue is on, not necessarily the one that
 *	it was made with
 * @qid: its name, of mlx5_ulp_qid()
 *
 * Takes no lock. Who calls it within rcu_read_lock() may use the queue up to the
 * end of the section even if somebody destroys it meanwhile: destroying waits.
 *
 * Context: Any context.
 * Return: the queue, or %NULL when there is none of that name (any more).
 */
struct mlx5_ulp_queue *mlx5_ulp_queue_find(const struct mlx5_ulp_device *dev, u32 qid);

/**
 * mlx5_ulp_queue_find_qpn() - the queue with a QP number
 * @dev: a handle of the device that the queue is on
 * @qpn: the number
 *
 * As mlx5_ulp_queue_find(); finds queues without a name, too.
 *
 * Context: Any context.
 * Return: the queue, or %NULL.
 */
struct mlx5_ulp_queue *mlx5_ulp_queue_find_qpn(const struct mlx5_ulp_device *dev, u32 qpn);

/**
 * mlx5_ulp_queue_prefetch() - prepare to find queues
 * @dev: a handle of the device that they are on
 * @qids: their names
 * @count: how many
 *
 * Brings what is known of these names into the translation cache, and its cache
 * lines to this CPU. For a batch of requests whose names are known before they
 * are needed.
 *
 * Context: Any context.
 */
void mlx5_ulp_queue_prefetch(const struct mlx5_ulp_device *dev, const u32 *qids,
			     unsigned int count);

/**
 * mlx5_ulp_queue_pin() - keep a queue in the translation cache
 * @queue: the queue
 *
 * Its entry does not give way to others, until it is unpinned or destroyed, or
 * the size of the cache is changed.
 *
 * Context: May sleep.
 * Return: 0, %-ENOSPC when half of the entries where it may be are pinned,
 * %-EOPNOTSUPP when the cache is off, %-ENODEV when the device is gone.
 */
int mlx5_ulp_queue_pin(struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_queue_unpin() - undo mlx5_ulp_queue_pin()
 * @queue: the queue
 *
 * Context: May sleep.
 * Return: 0, %-ENOENT when it is not pinned, %-ENODEV when the device is gone.
 */
int mlx5_ulp_queue_unpin(struct mlx5_ulp_queue *queue);

/* ------------------------------------------------------------- posting -- */

/**
 * enum mlx5_ulp_completion_flags - what a receive brought, ORed
 * @MLX5_ULP_WITH_IMM: @imm is valid
 * @MLX5_ULP_WITH_INVALIDATE: @invalidated_key is valid
 * @MLX5_ULP_RECEIVED_WRITE: it was a WRITE with immediate data: the payload is
 *	where the peer wrote it, not in the receive
 */
enum mlx5_ulp_completion_flags {
	MLX5_ULP_WITH_IMM		= 1 << 0,
	MLX5_ULP_WITH_INVALIDATE	= 1 << 1,
	MLX5_ULP_RECEIVED_WRITE		= 1 << 2,
};

/**
 * struct mlx5_ulp_completion - how a request ended
 * @context: of the queue (&struct mlx5_ulp_queue_attr)
 * @status: 0 when it was carried out; %-EREMOTEIO when the peer refused it,
 *	%-ETIMEDOUT when the peer did not answer, %-EIO for any other error of
 *	its own, %-ECANCELED when it was flushed because an earlier one had failed
 *	or the queue was shut down
 * @syndrome: the device's reason when @status is not 0, or 0 when the request
 *	was flushed in software (&enum in <linux/mlx5/cq.h>,
 *	%MLX5_CQE_SYNDROME_...)
 * @vendor_syndrome: the device's detail, not documented by the vendor
 * @flags: of &enum mlx5_ulp_completion_flags; this and what follows only for a
 *	receive with @status 0, and 0 otherwise
 * @length: bytes of the message
 * @imm: the number that the peer sent
 * @invalidated_key: key of ours that is invalid now
 */
struct mlx5_ulp_completion {
	void *context;
	int status;
	u8 syndrome;
	u8 vendor_syndrome;
	u8 flags;
	u32 length;
	u32 imm;
	u32 invalidated_key;
};

/**
 * struct mlx5_ulp_request - the consumer's side of a request in flight
 * @done: called once when the request has ended, however it ended
 *
 * Part of the consumer's own structure, found from it by container_of(). It
 * must stay valid until @done is called. Requests of one queue end in the order
 * in which they were posted; so do its receives, each kind by itself. @done runs
 * in softirq context (or in that of whoever drains, stops, destroys or removes),
 * one at a time for one queue. It may post, also to the same queue: the credit of
 * the request that ended is free again when it is called. It must not sleep, but
 * for queues with %MLX5_ULP_QUEUE_WORK: there it runs in process context.
 */
struct mlx5_ulp_request {
	void (*done)(struct mlx5_ulp_request *request,
		     const struct mlx5_ulp_completion *completion);
};

/**
 * struct mlx5_ulp_sge - a range of local memory
 * @addr: address in the key
 * @length: bytes, less than 2 GiB; in what is posted to send, a range of none is
 *	left out
 * @lkey: of a region, or mlx5_ulp_local_key()
 */
struct mlx5_ulp_sge {
	u64 addr;
	u32 length;
	u32 lkey;
};

/**
 * enum mlx5_ulp_post_flags - how to post, ORed
 * @MLX5_ULP_UNSIGNALED: the device need not report success by itself. The
 *	request completes at the latest when a later one does; the last one
 *	before a pause should be reported, or be drained.
 * @MLX5_ULP_INLINE: @sge addresses are kernel virtual and the bytes are copied
 *	into the request at once; keys are ignored. The memory is free for reuse
 *	when the call returns.
 * @MLX5_ULP_FENCE: start only after earlier READs and atomics have completed
 * @MLX5_ULP_LAST: nothing follows for now; ring the doorbell. In a
 *	chain, the last request alone says this or %MLX5_ULP_MORE
 * @MLX5_ULP_MORE: more follows at once; the doorbell may wait
 * @MLX5_ULP_SOLICITED: the receive at the peer raises an event there even if the
 *	peer asked for such events only. Of mlx5_ulp_post() only; only what
 *	consumes a receive has to do with it
 */
enum mlx5_ulp_post_flags {
	MLX5_ULP_UNSIGNALED	= 1 << 0,
	MLX5_ULP_INLINE		= 1 << 1,
	MLX5_ULP_FENCE		= 1 << 2,
	MLX5_ULP_LAST		= 1 << 3,
	MLX5_ULP_MORE		= 1 << 4,
	MLX5_ULP_SOLICITED	= 1 << 5,
};

/**
 * struct mlx5_ulp_write - one RDMA WRITE
 * @request: told when it has ended; %NULL to hear nothing
 * @sge: local ranges that are written one behind the other
 * @num_sge: how many; 0 for a WRITE of no bytes, which shows that the peer answers
 * @flags: of &enum mlx5_ulp_post_flags
 * @remote_addr: first address at the peer
 * @rkey: the peer's key
 */
struct mlx5_ulp_write {
	struct mlx5_ulp_request *request;
	const struct mlx5_ulp_sge *sge;
	u32 num_sge;
	u32 flags;
	u64 remote_addr;
	u32 rkey;
};

/**
 * mlx5_ulp_post_write() - post one RDMA WRITE
 * @queue: the queue, connected
 * @write: what to write; may be reused when the call returns
 *
 * Context: Any context.
 * Return: 0, and the request completes exactly once; or an error, and nothing
 * was posted: %-EAGAIN when the queue is full (post again from a completion, or
 * when @space of &struct mlx5_ulp_queue_attr is called),
 * %-ENOTCONN when it is not connected yet, %-EPIPE when it has failed,
 * %-ENODEV when the device is gone, %-EMSGSIZE when the request has more ranges
 * or inline bytes than the queue was made for, a range of 2 GiB or more, or a chain
 * more requests, %-EINVAL for flags that don't exist or a queue that is exclusive.
 */
int mlx5_ulp_post_write(struct mlx5_ulp_queue *queue,
			const struct mlx5_ulp_write *write);

/**
 * mlx5_ulp_post_writes() - post a chain of RDMA WRITEs, all or none
 * @queue: the queue, connected
 * @writes: the chain
 * @count: its length
 *
 * As mlx5_ulp_post_write(), with the doorbell rung once for all. Posts of
 * others do not come between those of the chain.
 *
 * Context: Any context.
 * Return: as mlx5_ulp_post_write(), for the chain as a whole.
 */
int mlx5_ulp_post_writes(struct mlx5_ulp_queue *queue,
			 const struct mlx5_ulp_write *writes,
			 unsigned int count);

/**
 * mlx5_ulp_queue_exclusive() - the posting side of an exclusive queue
 * @queue: a queue with %MLX5_ULP_QUEUE_EXCLUSIVE
 *
 * Context: Any context.
 * Return: the handle, good as long as the queue; posting by the other handle
 * answers %-EINVAL.
 */
static inline struct mlx5_ulp_exclusive *
mlx5_ulp_queue_exclusive(struct mlx5_ulp_queue *queue)
{
	return (struct mlx5_ulp_exclusive *)queue;
}

/**
 * mlx5_ulp_exclusive_post_writes() - post a chain of RDMA WRITEs without a lock
 * @queue: the queue, connected
 * @writes: the chain
 * @count: its length
 *
 * As mlx5_ulp_post_writes(). The caller sees to it that no two calls for one
 * queue run at the same time, nor one and mlx5_ulp_queue_drain(). The doorbell
 * is rung at the end of each call, whatever the doorbell mode: chains are the
 * batches here.
 *
 * Context: Any context.
 * Return: as mlx5_ulp_post_writes().
 */
int mlx5_ulp_exclusive_post_writes(struct mlx5_ulp_exclusive *queue,
				   const struct mlx5_ulp_write *writes,
				   unsigned int count);

/**
 * enum mlx5_ulp_opcode - what a request does
 * @MLX5_ULP_OP_WRITE: RDMA WRITE: local ranges to the peer's memory
 * @MLX5_ULP_OP_READ: RDMA READ: the peer's memory to local ranges, one behind
 *	the other. Their keys must allow local writing
 * @MLX5_ULP_OP_COMPARE_SWAP: if the 8 bytes at the peer, a number in the order
 *	of the peer's CPU, are @compare, they become @operand. What they were
 *	is written to the one local range, of 8 bytes
 * @MLX5_ULP_OP_FETCH_ADD: @operand is added to the 8 bytes at the peer. What
 *	they were is written to the one local range, of 8 bytes
 * @MLX5_ULP_OP_WRITE_IMM: as a WRITE; then a receive of the peer completes, with
 *	@imm and the length
 * @MLX5_ULP_OP_SEND: local ranges to the ranges of the peer's next receive
 * @MLX5_ULP_OP_SEND_IMM: likewise, with @imm
 * @MLX5_ULP_OP_SEND_INV: likewise; the peer's device invalidates the key
 *	@invalidate_key of the peer before it completes the receive
 * @MLX5_ULP_OP_REGISTER: @region becomes valid for what was mapped, with the
 *	rights @access. Requests behind it in this queue wait for that. Fails, and
 *	with it the queue, when the key is valid already
 * @MLX5_ULP_OP_INVALIDATE: @invalidate_key, of a fast region of ours, becomes
 *	useless. When it has completed, no peer reaches the memory
 *
 * Requests of a queue start in the order in which they were posted, and complete
 * in that order. But a request may be carried out while a READ or an atomic
 * before it still waits for its answer: who needs that answer first says
 * %MLX5_ULP_FENCE. Atomics are so with respect to other atomics of the same
 * device only, not to the CPU.
 */
enum mlx5_ulp_opcode {
	MLX5_ULP_OP_WRITE,
	MLX5_ULP_OP_READ,
	MLX5_ULP_OP_COMPARE_SWAP,
	MLX5_ULP_OP_FETCH_ADD,
	MLX5_ULP_OP_WRITE_IMM,
	MLX5_ULP_OP_SEND,
	MLX5_ULP_OP_SEND_IMM,
	MLX5_ULP_OP_SEND_INV,
	MLX5_ULP_OP_REGISTER,
	MLX5_ULP_OP_INVALIDATE,
};

/**
 * struct mlx5_ulp_work - one request of any kind
 * @request: told when it has ended; %NULL to hear nothing
 * @sge: local ranges
 * @num_sge: how many; at most @max_read_sge of &struct mlx5_ulp_limits for a
 *	READ, 1 for an atomic
 * @flags: of &enum mlx5_ulp_post_flags; %MLX5_ULP_INLINE only where local ranges
 *	are read
 * @remote_addr: first address at the peer; of 8 aligned bytes for an atomic
 * @rkey: the peer's key
 * @opcode: of &enum mlx5_ulp_opcode
 * @operand: the new value, or what is added
 * @compare: the value that is expected
 * @imm: a number that the peer gets
 * @invalidate_key: key of a fast region: of the peer for a SEND, of ours for an
 *	invalidation
 * @region: what is registered
 * @access: of &enum mlx5_ulp_access, the rights that it is registered with
 *
 * What the opcode does not need is ignored.
 */
struct mlx5_ulp_work {
	struct mlx5_ulp_request *request;
	const struct mlx5_ulp_sge *sge;
	u32 num_sge;
	u32 flags;
	u64 remote_addr;
	u32 rkey;
	u32 opcode;
	u64 operand;
	u64 compare;
	u32 imm;
	u32 invalidate_key;
	struct mlx5_ulp_fast_region *region;
	u32 access;
};

/**
 * mlx5_ulp_post() - post a chain of requests of any kind, all or none
 * @queue: the queue, connected
 * @works: the chain; may be reused when the call returns
 * @count: its length
 *
 * As mlx5_ulp_post_writes(), for whatever is not a plain WRITE. For those,
 * mlx5_ulp_post_write() is shorter. Requests of this call are not merged.
 *
 * Context: Any context.
 * Return: as mlx5_ulp_post_write(), for the chain as a whole; %-EINVAL also for
 * an opcode that does not exist, an atomic whose range or address is not of 8
 * bytes, %MLX5_ULP_INLINE where it cannot be, and a registration of nothing;
 * %-EMSGSIZE also for a registration or invalidation on a queue whose requests have
 * no room for them: see %MLX5_ULP_QUEUE_REGISTERS; %-EOPNOTSUPP for an atomic on a
 * device that has none of 8 bytes in the order of the CPU.
 */
int mlx5_ulp_post(struct mlx5_ulp_queue *queue, const struct mlx5_ulp_work *works,
		  unsigned int count);

/**
 * mlx5_ulp_exclusive_post() - post a chain of any kind without a lock
 * @queue: the queue, connected
 * @works: the chain
 * @count: its length
 *
 * As mlx5_ulp_post(), under the conditions of mlx5_ulp_exclusive_post_writes().
 *
 * Context: Any context.
 * Return: as mlx5_ulp_post().
 */
int mlx5_ulp_exclusive_post(struct mlx5_ulp_exclusive *queue,
			    const struct mlx5_ulp_work *works, unsigned int count);

/**
 * struct mlx5_ulp_reservation - room in a queue that nobody else takes
 * @left: requests that can still be posted from it; for the holder to read, and to
 *	set to 0 before the first use
 */
struct mlx5_ulp_reservation {
	u32 left;
};

/**
 * mlx5_ulp_reserve() - reserve room
 * @queue: the queue, connected
 * @reservation: gets @count more, all or none
 * @count: requests
 *
 * For requests that must be posted once something has begun: the WRITEs and the
 * SEND of a response, say. Who holds a reservation must use or release it without
 * waiting for room in the same queue: others get %-EAGAIN meanwhile, and
 * mlx5_ulp_queue_drain() may have to wait for it.
 *
 * Context: Any context. One call at a time for a reservation; of an exclusive
 * queue, for its poster.
 * Return: 0, or an error, and nothing was reserved: as mlx5_ulp_post_write().
 */
int mlx5_ulp_reserve(struct mlx5_ulp_queue *queue,
		     struct mlx5_ulp_reservation *reservation, u32 count);

/**
 * mlx5_ulp_post_reserved() - post a chain from a reservation, all or none
 * @queue: the queue
 * @reservation: made by mlx5_ulp_reserve() on this queue
 * @works: the chain
 * @count: its length
 *
 * As mlx5_ulp_post(), and never %-EAGAIN. After an error the reservation is what
 * it was.
 *
 * Context: As mlx5_ulp_reserve().
 * Return: as mlx5_ulp_post(); %-EINVAL also when the chain is longer than what is
 * left.
 */
int mlx5_ulp_post_reserved(struct mlx5_ulp_queue *queue,
			   struct mlx5_ulp_reservation *reservation,
			   const struct mlx5_ulp_work *works, unsigned int count);

/**
 * mlx5_ulp_release() - give back what is left of a reservation
 * @queue: the queue, whatever has become of it
 * @reservation: made by mlx5_ulp_reserve() on this queue; empty afterwards
 *
 * Not needed before mlx5_ulp_queue_destroy().
 *
 * Context: As mlx5_ulp_reserve().
 */
void mlx5_ulp_release(struct mlx5_ulp_queue *queue,
		      struct mlx5_ulp_reservation *reservation);

/**
 * struct mlx5_ulp_receive - room for one message
 * @request: told when a message has come; %NULL to hear nothing
 * @sge: local ranges, filled one behind the other; their keys must allow local
 *	writing
 * @num_sge: how many; 0 for what only WRITEs with immediate data consume
 */
struct mlx5_ulp_receive {
	struct mlx5_ulp_request *request;
	const struct mlx5_ulp_sge *sge;
	u32 num_sge;
};

/**
 * mlx5_ulp_post_receives() - post a chain of receives, all or none
 * @queue: a queue with @max_recv_depth, connected or not yet
 * @receives: the chain; may be reused when the call returns
 * @count: its length
 *
 * Messages of the peer go to receives in the order in which these were posted. A
 * message that finds none is sent again by the peer after a pause, as often as its
 * @rnr_retry says; one that is longer than its receive breaks the connection. A
 * receive completes when its message is there, at the latest when the queue is
 * stopped or destroyed.
 *
 * Context: Any context, also of an exclusive queue and beside its poster.
 * Return: 0, or an error, and nothing was posted: %-EAGAIN when as many wait as
 * the queue was made for, %-EMSGSIZE when one has more ranges than that, or one
 * that is empty or of 2 GiB or more, or the chain more receives, %-EPIPE when the
 * queue has failed or was stopped, %-ENODEV when the device is gone, %-EINVAL when
 * the queue takes no receives.
 */
int mlx5_ulp_post_receives(struct mlx5_ulp_queue *queue,
			   const struct mlx5_ulp_receive *receives,
			   unsigned int count);

/**
 * mlx5_ulp_flush() - show the device everything that was posted
 * @queue: the queue
 *
 * Context: Any context.
 */
void mlx5_ulp_flush(struct mlx5_ulp_queue *queue);

/**
 * mlx5_ulp_poll() - look for completions
 * @queue: the queue
 * @budget: most completion entries to take. Of a block that the device has compressed,
 *	which comes to no queue with %MLX5_ULP_QUEUE_POLLED, all are taken
 *
 * Takes what the device has reported and calls back, in the caller's context
 * with softirqs off (but for %MLX5_ULP_QUEUE_WORK, of which a caller must be able
 * to sleep). The only way to hear of completions of a queue with
 * %MLX5_ULP_QUEUE_POLLED; with others a way to hear of them sooner.
 *
 * Context: Task or softirq (see above), interrupts on; not from a completion
 * callback.
 * Return: completion entries taken; 0 when there is none, or when somebody else
 * is at it.
 */
int mlx5_ulp_poll(struct mlx5_ulp_queue *queue, unsigned int budget);

/* ---------------------------------------------------------- statistics -- */

/**
 * struct mlx5_ulp_queue_stats - what a queue has done
 * @posted: requests posted, and those that mlx5_ulp_queue_drain() adds
 * @doorbells: doorbells rung
 * @completed: requests completed, however they ended
 * @errors: of these, ended with an error of their own
 * @flushed: of these, ended with %-ECANCELED
 * @full: posts that found the queue full
 * @unexpected: completion entries that named nothing in flight; a defect of the
 *	device
 * @receives: receives posted
 * @received: receives completed, however they ended
 */
struct mlx5_ulp_queue_stats {
	u64 posted;
	u64 doorbells;
	u64 completed;
	u64 errors;
	u64 flushed;
	u64 full;
	u64 unexpected;
	u64 receives;
	u64 received;
};

/**
 * mlx5_ulp_queue_query_stats() - what a queue has done
 * @queue: the queue
 * @stats: filled in
 *
 * Each number is exact, but they are not all read at one instant.
 *
 * Context: Any context.
 */
void mlx5_ulp_queue_query_stats(const struct mlx5_ulp_queue *queue,
				struct mlx5_ulp_queue_stats *stats);

#endif /* MLX5_ULP_H */
