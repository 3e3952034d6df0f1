// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    barrier,
    buffer::DmaBuffer,
    cmd::{
        self,
        field,
        Mailbox, //
    },
    record::DoorbellRecord,
    uar::DoorbellRegister, //
};
use crate::device::Hold;
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use mlx5_ulp_bindings as bindings;

/// Bytes of a completion queue entry.
pub(crate) const CQE_BYTES: usize = 64;
/// Offset of the byte in a CQE that tells its opcode and its owner.
const OP_OWN: usize = core::mem::offset_of!(bindings::mlx5_cqe64, op_own);
/// Offset of the last eight bytes: QP, counter, and what the entry is.
const TAIL: usize = core::mem::offset_of!(bindings::mlx5_cqe64, sop_drop_qpn);
/// Offset of the time stamp in it.
const TIMESTAMP: usize = core::mem::offset_of!(bindings::mlx5_cqe64, timestamp_h);

/// What a completion queue is made of.
pub(crate) struct CqConfig {
    /// Log2 of its entries.
    pub(crate) log_entries: u8,
    /// Completion vector, below [`vectors`].
    pub(crate) vector: u16,
    /// Whether the device may report several successes in one compressed block.
    pub(crate) compressed: bool,
}

/// What happens on completions; owned by its queue.
pub(crate) trait CompletionHandler: Send + Sync + 'static {
    /// The queue was armed and has something, or had it before it was armed. Never called
    /// by two CPUs at once for one queue.
    fn completion(&self, cq: &CqCore);

    /// The queue has overflowed or cannot be written: it is broken for good. In hard interrupt
    /// context.
    fn failed(&self, cq: &CqCore);
}

/// A completion queue without the type of its handler, for queue pairs to stand on.
pub(crate) trait Cq: Send + Sync {
    /// Its number, 24 bits.
    fn number(&self) -> u32;
}

/// Number of completion vectors of the device, at least 1.
pub(crate) fn vectors(hold: &Hold) -> u16 {
    // SAFETY: `hold` keeps the device alive.
    let n = unsafe { bindings::mlx5_comp_vectors_max(hold.mdev()) };
    u16::try_from(n).unwrap_or(u16::MAX).max(1)
}

/// The part of a completion queue that the data path uses.
#[pin_data]
#[repr(C)]
pub(crate) struct CqCore {
    /// mlx5_core's part. First, so that its callbacks find the whole.
    #[pin]
    mcq: Opaque<bindings::mlx5_core_cq>,
    log_entries: u8,
    ring: DmaBuffer,
    record: DoorbellRecord,
    register: Arc<DoorbellRegister>,
}

// SAFETY: mlx5_core locks what it uses of `mcq`; the rest is `Send` and `Sync`.
unsafe impl Send for CqCore {}
// SAFETY: As above.
unsafe impl Sync for CqCore {}

impl CqCore {
    /// Its number, 24 bits.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: mlx5_core sets it once, when it creates the queue, before anything of ours can
        // be called on it.
        unsafe { (&raw const (*self.mcq.get()).cqn).read() }
    }

    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.ring.len() + size_of::<Self>() + DoorbellRecord::BYTES
    }

    /// Log2 of the number of its entries.
    #[inline]
    pub(crate) fn log_entries(&self) -> u8 {
        self.log_entries
    }

    /// What the device's clock said when it wrote entry `index`, reduced to the ring.
    #[inline]
    pub(crate) fn timestamp(&self, index: u32) -> u64 {
        // SAFETY: An entry has so many bytes and is aligned, the ring lives as long as `self`.
        let stamp = unsafe { self.cqe(index).add(TIMESTAMP).cast::<u64>().read_volatile() };
        u64::from_be(stamp)
    }

    /// The device's free-running clock: a read across the bus.
    pub(crate) fn device_clock(&self) -> u64 {
        // SAFETY: The ring keeps the device alive, and with it its initialization segment.
        unsafe { bindings::mlx5_ulp_shim_device_clock(self.ring.hold().mdev()) }
    }

    /// Its first entry, aligned to a page.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.ring.as_ptr()
    }

    /// Marks entry `index`, reduced to the ring, which was taken: the device does not write all places of
    /// a compressed block, so what is left there must not look new in the next round. Only the one consumer
    /// may call this.
    #[inline]
    pub(crate) fn release(&self, index: u32, op_own: u8) {
        // SAFETY: An entry has so many bytes, the ring lives as long as `self`. The device writes the
        // place again only after the consumer counter has passed it.
        unsafe {
            self.cqe(index)
                .cast_mut()
                .add(OP_OWN)
                .write_volatile(op_own)
        };
    }

    /// The 64 bytes of entry `index`, reduced to the ring. The device may write them at any
    /// time: volatile reads, and [`barrier::dma_rmb`] between the owner bit and the rest.
    #[inline]
    pub(crate) fn cqe(&self, index: u32) -> *const u8 {
        let at = index as usize & ((1usize << (self.log_entries & 31)) - 1);
        self.ring.as_ptr().as_ptr().wrapping_add(at * CQE_BYTES)
    }

    /// The last eight bytes of entry `index`, reduced to the ring, as they stand there, in one piece.
    #[inline]
    pub(crate) fn tail(&self, index: u32) -> u64 {
        // SAFETY: An entry has so many bytes and is aligned, the ring lives as long as `self`. The device
        // may write it at any time.
        unsafe { self.cqe(index).add(TAIL).cast::<u64>().read_volatile() }
    }

    /// Tells the device that everything before `consumer` has been taken
    /// (`mlx5_cq_set_ci()`).
    #[inline]
    pub(crate) fn set_consumer(&self, consumer: u32) {
        // SAFETY: The record has two words and lives as long as `self`. Only the one consumer
        // writes this one.
        unsafe {
            self.record
                .as_ptr()
                .write_volatile((consumer & 0x00ff_ffff).to_be())
        };
    }

    /// Asks for one event on the next entry at or after `consumer`; with `solicited` only if
    /// that is a solicited or an error completion (`mlx5_cq_arm()`).
    ///
    /// If there is one already, the event comes at once: no completion is lost between the last
    /// look and the arming. Only the one consumer may call this.
    #[inline]
    pub(crate) fn arm(&self, consumer: u32, solicited: bool) {
        // SAFETY: mlx5_core counts `arm_sn` up in the interrupt before it calls the handler,
        // which is the only other access; a word is read in one piece.
        let sequence = unsafe { (&raw const (*self.mcq.get()).arm_sn).read_volatile() } & 3;
        let command = if solicited {
            bindings::MLX5_CQ_DB_REQ_NOT_SOL
        } else {
            bindings::MLX5_CQ_DB_REQ_NOT
        };
        let word = (sequence << 28 | command | (consumer & 0x00ff_ffff)).to_be();
        let doorbell = u64::from(word) | u64::from(self.number().to_be()) << 32;
        // SAFETY: The record has two words and lives as long as `self`, and so does the register.
        // Only the one consumer writes them.
        unsafe {
            self.record.as_ptr().add(1).write_volatile(word);
            // The record has to be in memory before the register is written.
            barrier::wmb();
            barrier::write64(self.register.cq_doorbell(), doorbell);
            // The page may be mapped write-combining: nothing else pushes the write out soon.
            barrier::wmb();
        }
    }

    /// Has the handler called again, from the same tasklet, after the other queues of the vector. From the
    /// handler only.
    #[inline]
    pub(crate) fn again(&self) {
        // SAFETY: The queue exists while its handler runs, and mlx5_core has set up its place on the
        // list, of which it was taken before the call.
        unsafe { bindings::mlx5_add_cq_to_tasklet(self.mcq.get(), core::ptr::null_mut()) };
    }

    /// Whether the device can do what [`CqCore::moderate`] says.
    pub(crate) fn can_moderate(&self) -> bool {
        self.ring.hold().caps().cq_moderation
    }

    /// Has the device delay events until `count` completions are there or `period_us`
    /// microseconds have passed since the first; 0 and 0 for no delay. Sleeps.
    ///
    /// # Errors
    ///
    /// `ERANGE` if `period_us` needs more than 12 bits, those of
    /// [`cmd::exec`](super::cmd::exec).
    pub(crate) fn moderate(&self, period_us: u16, count: u16) -> Result {
        if period_us >= 1 << 12 {
            return Err(ERANGE);
        }
        // SAFETY: The queue exists from its creation on, before anybody gets to see it, until it is dropped; the
        // ring keeps the device alive.
        to_result(unsafe {
            bindings::mlx5_core_modify_cq_moderation(
                self.ring.hold().mdev(),
                self.mcq.get(),
                period_us,
                count,
            )
        })
    }
}

/// A completion queue together with the handler that it calls.
#[pin_data]
#[repr(C)]
struct Inner<H> {
    // First, so that a pointer to it is one to the whole.
    #[pin]
    core: CqCore,
    handler: H,
}

/// A completion queue.
///
/// # Invariants
///
/// The queue exists on the device and mlx5_core knows `inner`.
pub(crate) struct CompletionQueue<H: CompletionHandler> {
    inner: Pin<KBox<Inner<H>>>,
    hold: Hold,
}

impl<H: CompletionHandler> CompletionQueue<H> {
    /// Creates one; it is not armed. Events are armed through `register`, which it shares with
    /// the send queue it serves. Sleeps; the first use of a vector sets up its interrupt.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no such vector or cannot have so many entries, those of
    /// [`cmd::exec`](super::cmd::exec).
    pub(crate) fn new(
        hold: Hold,
        config: &CqConfig,
        register: Arc<DoorbellRegister>,
        handler: H,
    ) -> Result<Arc<Self>> {
        let log_entries = config.log_entries;
        if log_entries > hold.caps().log_max_cq_sz || log_entries > 22 {
            return Err(EINVAL);
        }
        let ring = DmaBuffer::new(hold.clone(), CQE_BYTES << log_entries)?;
        for i in 0..1usize << log_entries {
            let op_own = (bindings::MLX5_CQE_INVALID as u8) << 4;
            // SAFETY: `i` is below the number of entries, and nobody else knows the ring yet.
            unsafe { ring.as_ptr().add(i * CQE_BYTES + OP_OWN).write(op_own) };
        }
        let record = DoorbellRecord::new(hold.clone())?;

        let mut eqn = 0;
        // SAFETY: `hold` keeps the device alive, `eqn` is a valid place for the answer.
        to_result(unsafe { bindings::mlx5_comp_eqn_get(hold.mdev(), config.vector, &mut eqn) })?;

        let mut inbox = Mailbox::with_list(ring.page_count())?;
        inbox
            .set(field!(create_cq_in, cq_context.log_cq_size), log_entries)
            .set(field!(create_cq_in, cq_context.uar_page), register.index())
            .set(
                field!(create_cq_in, cq_context.c_eqn_or_apu_element),
                eqn as u32,
            )
            .set(field!(create_cq_in, cq_context.log_page_size), 0u32)
            // The format of the mini entries (`mini_cqe_res_format`) is for responders, and the basic
            // layout is 0.
            .set(
                field!(create_cq_in, cq_context.cqe_comp_en),
                u32::from(config.compressed),
            )
            .set(field!(create_cq_in, cq_context.dbr_addr), record.dma())
            .set_list(ring.pages());

        let mut mcq: bindings::mlx5_core_cq = pin_init::zeroed();
        mcq.cqe_sz = CQE_BYTES as i32;
        mcq.vector = config.vector.into();
        mcq.set_ci_db = record.as_ptr();
        mcq.arm_db = record.as_ptr().wrapping_add(1);
        mcq.event = Some(event::<H>);
        // The handler is called in the tasklet of the vector, interrupts on.
        mcq.comp = Some(bindings::mlx5_add_cq_to_tasklet);
        mcq.tasklet_ctx.comp = Some(comp::<H>);

        let inner = KBox::pin_init(
            pin_init!(Inner {
                core <- pin_init!(CqCore {
                    mcq: Opaque::new(mcq),
                    log_entries,
                    ring,
                    record,
                    register,
                }),
                handler,
            }),
            GFP_KERNEL,
        )?;
        let mut outbox = Mailbox::<bindings::mlx5_ifc_create_cq_out_bits>::new()?;
        // SAFETY: `hold` keeps the device alive. `mcq` is pinned in `inner`, which is not freed
        // before mlx5_core has forgotten it. Its callbacks are those of this handler type.
        to_result(unsafe {
            bindings::mlx5_core_create_cq(
                hold.mdev(),
                inner.core.mcq.get(),
                inbox.as_mut_ptr(),
                inbox.len(),
                outbox.as_mut_ptr(),
                outbox.len(),
            )
        })?;
        // INVARIANT: Just created. Dropped, and so destroyed, if there is no memory for the `Arc`.
        let this = Self { inner, hold };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }
}

impl<H: CompletionHandler> Deref for CompletionQueue<H> {
    type Target = CqCore;

    fn deref(&self) -> &CqCore {
        &self.inner.core
    }
}

impl<H: CompletionHandler> Cq for CompletionQueue<H> {
    fn number(&self) -> u32 {
        self.inner.core.number()
    }
}

impl<H: CompletionHandler> Drop for CompletionQueue<H> {
    fn drop(&mut self) {
        let mcq = self.inner.core.mcq.get();
        let destroyed = cmd::destroy(&self.hold, || {
            // SAFETY: By the type invariants mlx5_core knows the queue; the hold keeps the device alive.
            // Queue pairs on it would have a reference to `self`. On success it has waited for running
            // callbacks. A call that failed has taken the queue out of mlx5_core's tables and has not let go
            // of it: the next finds it in none, and goes on.
            to_result(unsafe { bindings::mlx5_core_destroy_cq(self.hold.mdev(), mcq) })
        });
        if let Err(e) = destroyed {
            pr_err!(
                "completion queue {:#x} cannot be destroyed ({e:?}), its memory is given up\n",
                self.inner.core.number()
            );
            // SAFETY: The queue was created, and after a failed command mlx5_core has taken it
            // out of its tables but not waited for its users.
            unsafe { bindings::mlx5_ulp_shim_cq_quiesce(mcq) };
            let core = self.inner.as_mut().project().core.project();
            core.ring.leak();
            core.record.leak();
        }
    }
}

/// Called by mlx5_core when a queue has completions.
///
/// # Safety
///
/// `mcq` must be that of a [`CompletionQueue<H>`].
unsafe extern "C" fn comp<H: CompletionHandler>(
    mcq: *mut bindings::mlx5_core_cq,
    _eqe: *mut bindings::mlx5_eqe,
) {
    // SAFETY: `mcq` is the first field of an `Inner<H>`, which lives at least until mlx5_core
    // has waited for this call.
    let inner = unsafe { &*mcq.cast::<Inner<H>>() };
    inner.handler.completion(&inner.core);
}

/// Called by mlx5_core when a queue is broken.
///
/// # Safety
///
/// `mcq` must be that of a [`CompletionQueue<H>`].
unsafe extern "C" fn event<H: CompletionHandler>(
    mcq: *mut bindings::mlx5_core_cq,
    event: bindings::mlx5_event,
) {
    if event == bindings::mlx5_event_MLX5_EVENT_TYPE_CQ_ERROR {
        // SAFETY: As in `comp`.
        let inner = unsafe { &*mcq.cast::<Inner<H>>() };
        inner.handler.failed(&inner.core);
    }
}
