// SPDX-License-Identifier: GPL-2.0

//! Reliable connected queue pairs: made and destroyed. How they change their states: [`state`].

use super::{
    buffer::DmaBuffer,
    caps::Caps,
    cmd::{
        self,
        exec,
        field,
        Mailbox, //
    },
    cq::Cq,
    events::QpEvents,
    pd::ProtectionDomain,
    record::DoorbellRecord,
    uar::DoorbellRegister, //
};
use crate::{
    device::Hold,
    queue::shape::{
        ReceiveRing,
        RING_ALIGNMENT, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mlx5_ulp_bindings as bindings;

mod state;

/// Log2 of the bytes of a send queue's basic block.
const LOG_BLOCK_BYTES: u32 = bindings::MLX5_SEND_WQE_BB.ilog2();
/// Log2 of the least stride of a receive queue, one data segment.
const LOG_MIN_STRIDE: u32 = 4;
/// The user index that stands for CQEs of version 0.
const NO_USER_INDEX: u32 = 0x00ff_ffff;

/// What a queue pair is made of.
pub(crate) struct QpConfig {
    /// Its protection domain.
    pub(crate) pd: Arc<ProtectionDomain>,
    /// Where sends complete.
    pub(crate) send_cq: Arc<dyn Cq>,
    /// Where receives complete.
    pub(crate) recv_cq: Arc<dyn Cq>,
    /// Where it rings.
    pub(crate) register: Arc<DoorbellRegister>,
    /// Log2 of the send queue's basic blocks of 64 bytes.
    pub(crate) log_send_blocks: u8,
    /// The receive queue, if there is one.
    pub(crate) receive: Option<ReceiveRing>,
}

/// A reliable connected queue pair, and the memory of its rings.
///
/// # Invariants
///
/// The queue pair exists on the device, with `ring` and `record` as its memory.
pub(crate) struct QueuePair {
    number: u32,
    send_offset: usize,
    ring: DmaBuffer,
    record: DoorbellRecord,
    config: QpConfig,
    hold: Hold,
}

impl QueuePair {
    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.ring.len() + size_of::<Self>() + DoorbellRecord::BYTES
    }

    /// Creates one in state RESET; `listener` hears of its events until it is dropped. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a queue is larger than the device can have, those of
    /// [`cmd::exec`](super::cmd::exec).
    pub(crate) fn new(hold: Hold, config: QpConfig, listener: Arc<dyn QpEvents>) -> Result<Self> {
        let log_blocks = config.log_send_blocks;
        // The counters are 16 bits, and a full queue must differ from an empty one.
        if log_blocks > hold.caps().log_max_qp_sz || log_blocks > 15 {
            return Err(EINVAL);
        }
        if config
            .receive
            .is_some_and(|r| r.log_entries > hold.caps().log_max_qp_sz)
        {
            return Err(EINVAL);
        }
        // The receive queue comes first, the send queue directly behind it.
        let send_offset = config.receive.map_or(0, ReceiveRing::bytes);
        if send_offset % RING_ALIGNMENT != 0 {
            return Err(EINVAL);
        }
        let bytes = send_offset + (1usize << (u32::from(log_blocks) + LOG_BLOCK_BYTES));
        let ring = DmaBuffer::new(hold.clone(), bytes)?;
        let record = DoorbellRecord::new(hold.clone())?;

        let mut inbox = Mailbox::with_list(ring.page_count())?;
        inbox
            .set(
                field!(create_qp_in, opcode),
                bindings::MLX5_CMD_OP_CREATE_QP,
            )
            .set(field!(create_qp_in, qpc.st), bindings::MLX5_QP_ST_RC)
            .set(
                field!(create_qp_in, qpc.pm_state),
                bindings::MLX5_QP_PM_MIGRATED,
            )
            .set(field!(create_qp_in, qpc.pd), config.pd.number())
            .set(field!(create_qp_in, qpc.uar_page), config.register.index())
            .set(field!(create_qp_in, qpc.log_sq_size), log_blocks)
            .set(field!(create_qp_in, qpc.log_page_size), 0u32)
            .set(field!(create_qp_in, qpc.cqn_snd), config.send_cq.number())
            .set(field!(create_qp_in, qpc.cqn_rcv), config.recv_cq.number())
            .set(field!(create_qp_in, qpc.ts_format), stamps(hold.caps()))
            .set(field!(create_qp_in, qpc.dbr_addr), record.dma())
            // Fast registration by UMR.
            .set(field!(create_qp_in, qpc.fre), 1u32)
            .set(field!(create_qp_in, qpc.rlky), 1u32)
            .set_list(ring.pages());
        match config.receive {
            Some(receive) => {
                let log_stride = u32::from(receive.log_stride) - LOG_MIN_STRIDE;
                inbox
                    .set(
                        field!(create_qp_in, qpc.rq_type),
                        bindings::MLX5_NON_ZERO_RQ,
                    )
                    .set(field!(create_qp_in, qpc.log_rq_size), receive.log_entries)
                    .set(field!(create_qp_in, qpc.log_rq_stride), log_stride);
            }
            None => {
                inbox.set(
                    field!(create_qp_in, qpc.rq_type),
                    bindings::MLX5_ZERO_LEN_RQ,
                );
            }
        }
        if hold.caps().cqe_version == 1 {
            inbox.set(field!(create_qp_in, qpc.user_index), NO_USER_INDEX);
        }
        let outbox: Mailbox<bindings::mlx5_ifc_create_qp_out_bits> = exec(&hold, &mut inbox)?;
        // INVARIANT: Just created. Destroyed by `Drop` if what follows fails.
        let this = Self {
            number: outbox.get32(field!(create_qp_out, qpn)),
            send_offset,
            ring,
            record,
            config,
            hold,
        };
        this.hold.events().listen(this.number, listener)?;
        Ok(this)
    }

    /// Its number, 24 bits.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// First byte of the send queue, aligned to [`RING_ALIGNMENT`], and a page's start if there
    /// is no receive queue.
    pub(crate) fn send_ring(&self) -> *mut u8 {
        self.ring.as_ptr().as_ptr().wrapping_add(self.send_offset)
    }

    /// First byte of the receive queue.
    pub(crate) fn receive_ring(&self) -> *mut u8 {
        self.ring.as_ptr().as_ptr()
    }

    /// The doorbell record.
    pub(crate) fn record(&self) -> &DoorbellRecord {
        &self.record
    }

    /// The doorbell register.
    pub(crate) fn register(&self) -> &DoorbellRegister {
        &self.config.register
    }

    /// Runs a state change, whose answer has nothing in it.
    fn modify<I, O>(&self, inbox: &mut Mailbox<I>) -> Result {
        let _: Mailbox<O> = exec(&self.hold, inbox)?;
        Ok(())
    }

    /// Has the device let go of the memory of everything that is posted, without a word about it. For a queue pair that
    /// is not used any more. Sleeps.
    ///
    /// When this returns, it carries nothing out: what it had carried out before has its completions. That holds unless
    /// the firmware refuses, which is reported.
    pub(crate) fn halt(&self) {
        if let Err(e) = self.to_reset().or_else(|_| self.to_error()) {
            pr_err!(
                "queue pair {:#x} cannot be stopped ({e:?}); it may still carry out its requests\n",
                self.number
            );
        }
    }

    /// Destroys it on the device.
    fn destroy(&self) -> Result {
        let mut inbox = Mailbox::new()?;
        inbox
            .set(
                field!(destroy_qp_in, opcode),
                bindings::MLX5_CMD_OP_DESTROY_QP,
            )
            .set(field!(destroy_qp_in, qpn), self.number);
        self.modify::<_, bindings::mlx5_ifc_destroy_qp_out_bits>(&mut inbox)
    }
}

/// By which clock completion entries are stamped: the free-running one if the device can, see
/// [`observe::latency`](crate::observe::latency).
fn stamps(caps: &Caps) -> u32 {
    if caps.free_running_stamps {
        bindings::MLX5_TIMESTAMP_FORMAT_FREE_RUNNING
    } else {
        bindings::MLX5_TIMESTAMP_FORMAT_DEFAULT
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.hold.events().forget(self.number);
        if let Err(e) = cmd::destroy(&self.hold, || self.destroy()) {
            // What it was told to do it may still do, with memory that its consumer takes back when the requests have
            // ended. In RESET and in ERROR it does nothing, but may still look at its ring and record.
            let rests = self.to_reset().or_else(|_| self.to_error()).is_ok();
            pr_err!(
                "queue pair {:#x} cannot be destroyed ({e:?}), its memory is given up{}\n",
                self.number,
                if rests {
                    ""
                } else {
                    "; it may still carry out its requests"
                }
            );
            self.ring.leak();
            self.record.leak();
        }
    }
}
