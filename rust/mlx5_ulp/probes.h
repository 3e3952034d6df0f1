/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for perf probe, kprobes and bpftrace, each called when something rare
 * and telling has happened: see Documentation/tracing.rst. They do nothing.
 *
 * They are in C because a probe by name wants a place for ftrace in its function
 * (CONFIG_KPROBE_EVENTS_ON_NOTRACE is off in what distributions ship), and rustc
 * makes none on x86.
 *
 * @pci: address of the function: domain << 16 | bus << 8 | device << 3 | function
 * @qpn: queue pair number
 */
#ifndef MLX5_ULP_PROBES_H
#define MLX5_ULP_PROBES_H

#include <linux/types.h>

/* A post of @count requests was refused with @error. */
void mlx5_ulp_on_refused(u32 pci, u32 qpn, u32 count, int error);

/* The hold time is over: the doorbell is rung for @wqes WQEs. */
void mlx5_ulp_on_held(u32 pci, u32 qpn, u32 wqes);

/* The adaptive doorbell goes from batches of @from WQEs to @to. */
void mlx5_ulp_on_batch(u32 pci, u32 qpn, u32 from, u32 to);

/* A completion entry was no success: an error with @syndrome, or nonsense. */
void mlx5_ulp_on_bad_cqe(u32 pci, u32 qpn, u16 counter, u8 opcode, u8 syndrome);

/* The queue takes no more posts: a request, the queue or its device has failed. */
void mlx5_ulp_on_queue_failed(u32 pci, u32 qpn);

/* A queue was made; and is about to be given back. */
void mlx5_ulp_on_queue_made(u32 pci, u32 qpn);
void mlx5_ulp_on_queue_gone(u32 pci, u32 qpn);

#endif /* MLX5_ULP_PROBES_H */
