/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mlx5_ulp

#if !defined(_TRACE_MLX5_ULP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MLX5_ULP_H

#include <linux/tracepoint.h>

/* Whether anybody listens to the data path: see <rust/mlx5_ulp/shim.h>. */
int mlx5_ulp_watch_posting(void);
void mlx5_ulp_unwatch_posting(void);
int mlx5_ulp_watch_completing(void);
void mlx5_ulp_unwatch_completing(void);

#define mlx5_ulp_show_opcode(opcode)			\
	__print_symbolic(opcode,			\
		{ 0x00, "NOP" },			\
		{ 0x01, "SEND_INV" },			\
		{ 0x08, "WRITE" },			\
		{ 0x09, "WRITE_IMM" },			\
		{ 0x0a, "SEND" },			\
		{ 0x0b, "SEND_IMM" },			\
		{ 0x10, "READ" },			\
		{ 0x11, "CMP_SWAP" },			\
		{ 0x12, "FETCH_ADD" },			\
		{ 0x25, "UMR" })

#define mlx5_ulp_show_mode(mode)			\
	__print_symbolic(mode,				\
		{ 0, "each" },				\
		{ 1, "batch" },				\
		{ 2, "adaptive" },			\
		{ 16, "polling" },			\
		{ 17, "hybrid" },			\
		{ 18, "interrupt" })

/*
 * mlx5_ulp_post - a work request was encoded into the send queue
 * @pci: address of the function: domain << 16 | bus << 8 | device << 3 | function
 * @qpn: queue pair number
 * @index: index of its first basic block, not reduced to the ring
 * @opcode: opcode of the control segment
 * @bytes: payload length
 */
TRACE_EVENT_FN(mlx5_ulp_post,
	TP_PROTO(u32 pci, u32 qpn, u16 index, u8 opcode, u32 bytes),
	TP_ARGS(pci, qpn, index, opcode, bytes),
	TP_STRUCT__entry(
		__field(u32, pci)
		__field(u32, qpn)
		__field(u32, bytes)
		__field(u16, index)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->pci = pci;
		__entry->qpn = qpn;
		__entry->bytes = bytes;
		__entry->index = index;
		__entry->opcode = opcode;
	),
	TP_printk("%04x:%02x:%02x.%x qpn=%#x index=%u opcode=%s bytes=%u",
		  __entry->pci >> 16, (__entry->pci >> 8) & 0xff,
		  (__entry->pci >> 3) & 0x1f, __entry->pci & 7, __entry->qpn,
		  __entry->index, mlx5_ulp_show_opcode(__entry->opcode),
		  __entry->bytes),
	mlx5_ulp_watch_posting, mlx5_ulp_unwatch_posting
);

/*
 * mlx5_ulp_doorbell - the doorbell of a send queue was rung
 * @pci: address of the function: domain << 16 | bus << 8 | device << 3 | function
 * @qpn: queue pair number
 * @producer: producer counter written to the doorbell record, in basic blocks
 * @wqes: work queue entries that this doorbell hands to the device
 */
TRACE_EVENT_FN(mlx5_ulp_doorbell,
	TP_PROTO(u32 pci, u32 qpn, u16 producer, u32 wqes),
	TP_ARGS(pci, qpn, producer, wqes),
	TP_STRUCT__entry(
		__field(u32, pci)
		__field(u32, qpn)
		__field(u32, wqes)
		__field(u16, producer)
	),
	TP_fast_assign(
		__entry->pci = pci;
		__entry->qpn = qpn;
		__entry->wqes = wqes;
		__entry->producer = producer;
	),
	TP_printk("%04x:%02x:%02x.%x qpn=%#x producer=%u wqes=%u",
		  __entry->pci >> 16, (__entry->pci >> 8) & 0xff,
		  (__entry->pci >> 3) & 0x1f, __entry->pci & 7, __entry->qpn,
		  __entry->producer, __entry->wqes),
	mlx5_ulp_watch_posting, mlx5_ulp_unwatch_posting
);

/*
 * mlx5_ulp_completion - a completion queue entry was taken
 * @pci: address of the function: domain << 16 | bus << 8 | device << 3 | function
 * @qpn: queue pair number
 * @counter: wqe_counter of the entry
 * @opcode: opcode of the CQE (MLX5_CQE_REQ and kin)
 * @syndrome: 0, or the syndrome of an error CQE
 */
TRACE_EVENT_FN(mlx5_ulp_completion,
	TP_PROTO(u32 pci, u32 qpn, u16 counter, u8 opcode, u8 syndrome),
	TP_ARGS(pci, qpn, counter, opcode, syndrome),
	TP_STRUCT__entry(
		__field(u32, pci)
		__field(u32, qpn)
		__field(u16, counter)
		__field(u8, opcode)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->pci = pci;
		__entry->qpn = qpn;
		__entry->counter = counter;
		__entry->opcode = opcode;
		__entry->syndrome = syndrome;
	),
	TP_printk("%04x:%02x:%02x.%x qpn=%#x counter=%u cqe_opcode=%u syndrome=%#x",
		  __entry->pci >> 16, (__entry->pci >> 8) & 0xff,
		  (__entry->pci >> 3) & 0x1f, __entry->pci & 7, __entry->qpn,
		  __entry->counter, __entry->opcode, __entry->syndrome),
	mlx5_ulp_watch_completing, mlx5_ulp_unwatch_completing
);

/*
 * mlx5_ulp_mode - a connected queue goes from one mode to another
 * @pci: address of the function: domain << 16 | bus << 8 | device << 3 | function
 * @qpn: queue pair number
 * @from: the old mode: of the doorbell (each, batch, adaptive) or of completions
 *	(polling, hybrid, interrupt)
 * @to: the new mode, of the same
 */
TRACE_EVENT(mlx5_ulp_mode,
	TP_PROTO(u32 pci, u32 qpn, u8 from, u8 to),
	TP_ARGS(pci, qpn, from, to),
	TP_STRUCT__entry(
		__field(u32, pci)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__entry->pci = pci;
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("%04x:%02x:%02x.%x qpn=%#x from=%s to=%s",
		  __entry->pci >> 16, (__entry->pci >> 8) & 0xff,
		  (__entry->pci >> 3) & 0x1f, __entry->pci & 7, __entry->qpn,
		  mlx5_ulp_show_mode(__entry->from),
		  mlx5_ulp_show_mode(__entry->to))
);

#endif /* _TRACE_MLX5_ULP_H */

#include <trace/define_trace.h>
