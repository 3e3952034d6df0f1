// SPDX-License-Identifier: GPL-2.0
/*
 * Module parameters: the values of all devices that are attached from then on,
 * in the words of the files in /sys/class/infiniband/<dev>/params/. They are
 * text, looked at once when the module is loaded (params.rs), so that both are
 * read by the same code and refused for the same reasons. What is given here is
 * the default.
 */
#include <linux/moduleparam.h>
#include <linux/stringify.h>

#include "shim.h"

char *mlx5_ulp_param_doorbell_mode = "adaptive";
module_param_named(doorbell_mode, mlx5_ulp_param_doorbell_mode, charp, 0444);
MODULE_PARM_DESC(doorbell_mode, "When doorbells are rung: each (after every post), batch, adaptive");

char *mlx5_ulp_param_doorbell_batch = "4";
module_param_named(doorbell_batch, mlx5_ulp_param_doorbell_batch, charp, 0444);
MODULE_PARM_DESC(doorbell_batch, "WQEs for one doorbell in mode batch, 1 to 64");

char *mlx5_ulp_param_doorbell_max_batch = "16";
module_param_named(doorbell_max_batch, mlx5_ulp_param_doorbell_max_batch, charp, 0444);
MODULE_PARM_DESC(doorbell_max_batch, "Most WQEs for one doorbell in mode adaptive, 1 to 16");

char *mlx5_ulp_param_doorbell_max_hold_us = "50";
module_param_named(doorbell_max_hold_us, mlx5_ulp_param_doorbell_max_hold_us, charp, 0444);
MODULE_PARM_DESC(doorbell_max_hold_us,
		 "Longest time that a WQE waits for the doorbell, 1 to 1000000 us");

char *mlx5_ulp_param_cq_moderation = "auto hybrid_thresh=50000 interrupt_thresh=200000";
module_param_named(cq_moderation, mlx5_ulp_param_cq_moderation, charp, 0444);
MODULE_PARM_DESC(cq_moderation,
		 "How completions are noticed: polling, hybrid, interrupt, auto; hybrid_thresh=N, interrupt_thresh=N");

char *mlx5_ulp_param_vf_qid_cache_size = __stringify(MLX5_VF_QID_CACHE_SIZE);
module_param_named(vf_qid_cache_size, mlx5_ulp_param_vf_qid_cache_size, charp, 0444);
MODULE_PARM_DESC(vf_qid_cache_size,
		 "Entries of each QID translation cache: 0 (off) or a power of two from 8 to "
		 __stringify(MLX5_VF_QID_CACHE_SIZE));

char *mlx5_ulp_param_latency_stats = "off";
module_param_named(latency_stats, mlx5_ulp_param_latency_stats, charp, 0444);
MODULE_PARM_DESC(latency_stats, "Whether latencies are measured: off, on");

char *mlx5_ulp_param_prefetch = "off";
module_param_named(prefetch, mlx5_ulp_param_prefetch, charp, 0444);
MODULE_PARM_DESC(prefetch, "Prefetch doorbell record and next slot while posting: on, off");

char *mlx5_ulp_param_blueflame = "auto";
module_param_named(blueflame, mlx5_ulp_param_blueflame, charp, 0444);
MODULE_PARM_DESC(blueflame, "Write lone WQEs to the doorbell register: auto (with inline payload), on, off");

char *mlx5_ulp_param_max_inline = "220";
module_param_named(max_inline, mlx5_ulp_param_max_inline, charp, 0444);
MODULE_PARM_DESC(max_inline, "Longest inline payload that goes by BlueFlame, 0 to 220 bytes");

char *mlx5_ulp_param_wqe_compression = "enabled=0 min_send_size=256 algorithm=merge";
module_param_named(wqe_compression, mlx5_ulp_param_wqe_compression, charp, 0444);
MODULE_PARM_DESC(wqe_compression, "Compaction of WQEs: enabled=0|1 min_send_size=N algorithm=merge");

char *mlx5_ulp_param_wqe_alignment = "64";
module_param_named(wqe_alignment, mlx5_ulp_param_wqe_alignment, charp, 0444);
MODULE_PARM_DESC(wqe_alignment, "Alignment of send WQEs in bytes; the hardware takes none but 64");
