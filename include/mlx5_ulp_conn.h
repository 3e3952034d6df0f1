/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mlx5_ulp_cm: connections of queues of mlx5_ulp through rdma_cm, with any peer, for
 * consumers that leave it to us. <mlx5_ulp_cm.h> is for those with an rdma_cm event
 * handler of their own.
 *
 * Connections and listeners are looked up as the handles of <mlx5_ulp.h> are: one
 * that was given back already is answered with -EBADF, as far as a call answers, and
 * a line in the log.
 */
#ifndef MLX5_ULP_CONN_H
#define MLX5_ULP_CONN_H

#include <linux/types.h>

struct ib_device;
struct net;
struct sockaddr;

struct mlx5_ulp_queue;
struct mlx5_ulp_conn;
struct mlx5_ulp_listener;

/* Most bytes of private data in a request (by IP address), in an answer, and in a refusal. */
#define MLX5_ULP_CM_REQUEST_DATA	56
#define MLX5_ULP_CM_ANSWER_DATA		196
#define MLX5_ULP_CM_REJECT_DATA		148

/**
 * enum mlx5_ulp_conn_event - what befalls a connection
 * @MLX5_ULP_CONN_ESTABLISHED: the peer has heard that we accept: the queue may be
 *	posted to. Only for connections that were accepted.
 * @MLX5_ULP_CONN_CLOSED: the connection has ended, or was accepted and not
 *	established; once. The queue is disconnected (mlx5_ulp_queue_disconnect())
 *	already. Status: 0 when mlx5_ulp_conn_disconnect() was called here,
 *	%-ECONNRESET when the peer has ended it, %-ETIMEDOUT when it does not answer
 *	or is now elsewhere, %-ENETRESET when our address has moved to another
 *	device, %-ENODEV when the device goes, %-ECONNREFUSED when the peer refused
 *	our answer; others when the queue could not be connected.
 * @MLX5_ULP_CONN_TIMEWAIT_EXIT: no packet of the connection can be under way any
 *	more. Comes some time after the end of most connections, unless they are
 *	destroyed before.
 */
enum mlx5_ulp_conn_event {
	MLX5_ULP_CONN_ESTABLISHED,
	MLX5_ULP_CONN_CLOSED,
	MLX5_ULP_CONN_TIMEWAIT_EXIT,
};

/**
 * struct mlx5_ulp_conn_ops - who hears of a connection's events
 * @event: called in process context, one at a time for one connection; may sleep,
 *	but not for long: it keeps rdma_cm from its other work. It must not call
 *	functions of the connection (other than mlx5_ulp_conn_ibdev()), nor wait
 *	for somebody who does. It runs under a mutex of rdma_cm, those of all
 *	connections are alike to lockdep: connect, disconnect and destroy others in
 *	another task.
 */
struct mlx5_ulp_conn_ops {
	void (*event)(void *context, enum mlx5_ulp_conn_event event, int status);
};

/**
 * struct mlx5_ulp_conn_data - private data of connection management
 * @data: the bytes; of what comes from the peer, valid during the call only
 * @length: how many. rdma_cm tells the space that there is and not what the peer
 *	has filled of it: the rest is zeroes.
 */
struct mlx5_ulp_conn_data {
	const void *data;
	u8 length;
};

/**
 * mlx5_ulp_conn_resolve() - find the way to a peer
 * @net: the network namespace, such as &init_net; alive until the connection is
 *	destroyed
 * @source: address to use on our side, or %NULL to leave that to routing
 * @destination: IP address and port of the peer
 * @timeout_ms: for the address and again for the route
 * @ops: who hears of events; stays valid until the connection is destroyed
 * @context: passed with each event
 *
 * Then it is known which device to open: mlx5_ulp_conn_ibdev(). The wait ends early
 * when the calling task is killed.
 *
 * Context: May sleep.
 * Return: the connection, to be given back by mlx5_ulp_conn_destroy(), or an
 * ERR_PTR(): %-ETIMEDOUT, %-EINTR, %-ENOMEM, or what rdma_cm answered, such as %-ENODEV
 * for an address that is not reached through an RDMA device.
 */
struct mlx5_ulp_conn *mlx5_ulp_conn_resolve(struct net *net, const struct sockaddr *source,
					    const struct sockaddr *destination,
					    unsigned int timeout_ms,
					    const struct mlx5_ulp_conn_ops *ops, void *context);

/**
 * mlx5_ulp_conn_ibdev() - the device of a connection
 * @conn: the connection
 *
 * For mlx5_ulp_open_ibdev(), which answers %-ENODEV if the device has gone
 * meanwhile.
 *
 * Context: Any context.
 * Return: the device.
 */
struct ib_device *mlx5_ulp_conn_ibdev(const struct mlx5_ulp_conn *conn);

/**
 * mlx5_ulp_conn_connect() - connect a queue with a peer that listens
 * @conn: from mlx5_ulp_conn_resolve(); used once
 * @queue: a queue on the device of the connection; not to be destroyed before it
 * @request: private data for the peer, at most %MLX5_ULP_CM_REQUEST_DATA bytes, or
 *	%NULL
 * @answer: a place of %MLX5_ULP_CM_ANSWER_DATA bytes for the private data of the
 *	answer or refusal, or %NULL
 * @timeout_ms: for how long to wait for the answer, or 0: until rdma_cm gives up a
 *	peer that does not answer, after about a minute
 *
 * The wait also ends when the device goes, when the calling task is killed, or by
 * mlx5_ulp_conn_disconnect() in another task.
 *
 * Context: May sleep; not with a lock that the event function takes.
 * Return: 0 and the queue may be posted to; %-ECONNREFUSED when the peer refuses,
 * %-ETIMEDOUT when it does not answer, %-EINTR when the task was killed,
 * %-ECANCELED when mlx5_ulp_conn_disconnect() was called, before or meanwhile,
 * %-EMSGSIZE for too much private data, %-EINVAL when it was used before,
 * %-ENODEV when the device is gone, or as mlx5_ulp_cm_ready(). Then the connection
 * can only be destroyed.
 */
int mlx5_ulp_conn_connect(struct mlx5_ulp_conn *conn, struct mlx5_ulp_queue *queue,
			  const struct mlx5_ulp_conn_data *request, void *answer,
			  unsigned int timeout_ms);

/**
 * mlx5_ulp_conn_reject_reason() - why the peer has refused
 * @conn: a connection for which mlx5_ulp_conn_connect() said %-ECONNREFUSED
 *
 * Context: Any context.
 * Return: of &enum ib_cm_rej_reason: %IB_CM_REJ_CONSUMER_DEFINED when it was the
 * consumer of the other side, %IB_CM_REJ_INVALID_SERVICE_ID when nobody listens;
 * 0 when it has not refused.
 */
int mlx5_ulp_conn_reject_reason(const struct mlx5_ulp_conn *conn);

/**
 * mlx5_ulp_conn_disconnect() - end a connection
 * @conn: the connection
 *
 * Disconnects the queue and tells the peer. %MLX5_ULP_CONN_CLOSED follows when the
 * peer has answered or does not. Without effect if the connection has ended.
 *
 * A connection that is not connected yet will not be: mlx5_ulp_conn_connect() ends
 * with %-ECANCELED, at once if it waits for the answer. No event follows then. Who
 * calls this from another task than that sees to it that the connection is not
 * destroyed meanwhile.
 *
 * Context: May sleep; of one that is not connected yet not with a lock that the event
 * function takes.
 */
void mlx5_ulp_conn_disconnect(struct mlx5_ulp_conn *conn);

/**
 * mlx5_ulp_conn_destroy() - give back a connection
 * @conn: the connection
 *
 * Ends it first, if that has not happened; the queue is then to be destroyed by its
 * owner. No event is delivered any more when this returns.
 *
 * Context: May sleep; not with a lock that the event function takes.
 */
void mlx5_ulp_conn_destroy(struct mlx5_ulp_conn *conn);

/**
 * struct mlx5_ulp_conn_request - somebody wants to connect
 * @conn: the connection to be
 * @data: its private data
 * @queue: to be set when accepting: a queue on the device of @conn, not to be
 *	destroyed before the connection. Receives should be posted already.
 * @ops: to be set when accepting
 * @context: to be set when accepting: passed with each event
 * @answer: may be set: private data of the answer, or of the refusal; must stay
 *	valid until the function that sets it is called again or ends its listener
 */
struct mlx5_ulp_conn_request {
	struct mlx5_ulp_conn *conn;
	struct mlx5_ulp_conn_data data;
	struct mlx5_ulp_queue *queue;
	const struct mlx5_ulp_conn_ops *ops;
	void *context;
	struct mlx5_ulp_conn_data answer;
};

/**
 * struct mlx5_ulp_listen_ops - who decides over requests
 * @request: called in process context for each request, one at a time; may sleep.
 *	Returns 0 to accept: then @conn of the request belongs to the consumer, who
 *	has to give it back by mlx5_ulp_conn_destroy(), and %MLX5_ULP_CONN_ESTABLISHED
 *	or %MLX5_ULP_CONN_CLOSED follows. Anything else refuses (with
 *	%IB_CM_REJ_CONSUMER_DEFINED). As @event of &struct mlx5_ulp_conn_ops it must
 *	not connect, disconnect nor destroy.
 */
struct mlx5_ulp_listen_ops {
	int (*request)(void *context, struct mlx5_ulp_conn_request *request);
};

/**
 * mlx5_ulp_listen() - wait for peers
 * @net: the network namespace, alive until mlx5_ulp_unlisten()
 * @address: IP address and port. With no particular address all devices are
 *	listened on, those that come later, too. With one, its device alone: when
 *	that goes, nobody is heard any more.
 * @backlog: requests that may wait for the decision
 * @ops: who decides; stays valid until mlx5_ulp_unlisten()
 * @context: passed with each request
 *
 * Context: May sleep.
 * Return: the listener, or an ERR_PTR(): %-EADDRINUSE when address and port are
 * taken, %-EADDRNOTAVAIL when the port is and one of both listens on all addresses,
 * this or %-ENODEV when the address is not ours or not of an RDMA device, %-ENOMEM.
 */
struct mlx5_ulp_listener *mlx5_ulp_listen(struct net *net, const struct sockaddr *address,
					  int backlog, const struct mlx5_ulp_listen_ops *ops,
					  void *context);

/**
 * mlx5_ulp_unlisten() - wait for peers no longer
 * @listener: the listener
 *
 * No request is delivered any more when this returns. Connections that were
 * accepted go on.
 *
 * Context: May sleep; not with a lock that the request function takes.
 */
void mlx5_ulp_unlisten(struct mlx5_ulp_listener *listener);

#endif /* MLX5_ULP_CONN_H */
