// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events of the device, delivered to those they are about.

use crate::{
    device::{
        Device,
        Hold, //
    },
    sync::{
        new_irq_lock,
        IrqLock, //
    },
};
use core::sync::atomic::{
    AtomicBool,
    Ordering::Relaxed, //
};
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Arc,
    types::Opaque, //
};
use mlx5_ulp_bindings as bindings;

/// What can befall a queue pair apart from its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    /// `MLX5_EVENT_TYPE_WQ_CATAS_ERROR`: the work queue is broken.
    Catastrophic,
    /// `MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR`: the peer sent an invalid request.
    InvalidRequest,
    /// `MLX5_EVENT_TYPE_WQ_ACCESS_ERROR`: the peer accessed what it must not.
    AccessError,
    /// The whole device died (`MLX5_DEV_EVENT_SYS_ERROR`): nothing completes any more.
    DeviceFatal,
}

impl QpEvent {
    /// The event of a type that comes with the number of a queue.
    fn of_queue(kind: u32) -> Option<Self> {
        match kind {
            bindings::mlx5_event_MLX5_EVENT_TYPE_WQ_CATAS_ERROR => Some(Self::Catastrophic),
            bindings::mlx5_event_MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR => Some(Self::InvalidRequest),
            bindings::mlx5_event_MLX5_EVENT_TYPE_WQ_ACCESS_ERROR => Some(Self::AccessError),
            _ => None,
        }
    }
}

/// Who wants to hear of a queue pair's events.
pub(crate) trait QpEvents: Send + Sync {
    /// Called in hard interrupt context under the lock of the event table: note it, queue
    /// work, wake somebody up, and nothing else.
    fn event(&self, event: QpEvent);
}

/// The queue pairs of a device by number.
#[pin_data]
pub(crate) struct EventTable {
    fatal: AtomicBool,
    #[pin]
    listeners: IrqLock<RBTree<u32, Arc<dyn QpEvents>>>,
}

impl EventTable {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            fatal: AtomicBool::new(false),
            listeners <- new_irq_lock!(RBTree::new(), c"mlx5_ulp_events"),
        })
    }

    /// Whether the device has died.
    #[inline]
    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal.load(Relaxed)
    }

    /// Lets `listener` hear of queue pair `qpn`, until [`Self::forget`]. If the device is dead
    /// already, it hears that at once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn listen(&self, qpn: u32, listener: Arc<dyn QpEvents>) -> Result {
        let node = RBTreeNode::new(qpn, listener.clone(), GFP_KERNEL)?;
        // A former owner of this number would have been forgotten before the device could give
        // the number away again; if not, it is dropped here, outside of the lock.
        let former = {
            let mut listeners = self.listeners.lock();
            if self.is_fatal() {
                listener.event(QpEvent::DeviceFatal);
            }
            listeners.insert(node)
        };
        drop(former);
        Ok(())
    }

    /// No event of `qpn` is delivered any more when this returns.
    pub(super) fn forget(&self, qpn: u32) {
        let node = self.listeners.lock().remove_node(&qpn);
        // Freed outside of the lock.
        drop(node);
    }

    /// An event of one queue.
    fn queue_event(&self, event: QpEvent, qpn: u32) {
        if let Some(listener) = self.listeners.lock().get(&qpn) {
            listener.event(event);
        }
    }

    /// The device has died: everybody hears it, once.
    fn device_fatal(&self) {
        let listeners = self.listeners.lock();
        if self.fatal.swap(true, Relaxed) {
            return;
        }
        for listener in listeners.values() {
            listener.event(QpEvent::DeviceFatal);
        }
    }
}

/// Our entry in mlx5_core's chain of event listeners.
///
/// # Invariants
///
/// `block` is the first field, so a pointer to it is one to the struct.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct Notifier {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    device: Arc<Device>,
    hold: Hold,
}

// SAFETY: mlx5_core's chain does the locking of the block, the rest is `Send` and `Sync`.
unsafe impl Send for Notifier {}
// SAFETY: As above.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Delivers the device's events to its [`EventTable`], until dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, `ENOMEM`.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Pin<KBox<Self>>> {
        let hold = device.hold()?;
        let this = KBox::pin_init(
            pin_init!(Self {
                block: Opaque::new(bindings::notifier_block {
                    notifier_call: Some(notify),
                    ..pin_init::zeroed()
                }),
                device: device.clone(),
                hold,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The hold keeps the device alive. The block is pinned, and unregistered before it
        // is freed.
        let ret = unsafe { bindings::mlx5_notifier_register(this.hold.mdev(), this.block.get()) };
        // The chain refuses nothing today. Dropping a block it does not know would be harmless.
        to_result(ret)?;
        Ok(this)
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The hold keeps the device alive. The chain waits for those that run in it.
        unsafe { bindings::mlx5_notifier_unregister(self.hold.mdev(), self.block.get()) };
    }
}

/// Called by mlx5_core for every event, in atomic context.
///
/// # Safety
///
/// `block` must be that of a registered [`Notifier`], and `data` what mlx5_core passes with
/// events of type `event`.
unsafe extern "C" fn notify(
    block: *mut bindings::notifier_block,
    event: c_ulong,
    data: *mut c_void,
) -> c_int {
    // SAFETY: By the type invariants of `Notifier`; it is not dropped while this runs.
    let notifier = unsafe { &*block.cast::<Notifier>() };
    let table = notifier.device.events();
    let kind = event as u32;

    if kind == bindings::mlx5_dev_event_MLX5_DEV_EVENT_SYS_ERROR {
        table.device_fatal();
    } else if let Some(event) = QpEvent::of_queue(kind) {
        // SAFETY: With these types `data` is the event queue entry. It is in memory that the
        // device writes, so it is read once, and not trusted: a number that is not ours finds
        // no listener.
        let about = unsafe { (&raw const (*data.cast::<bindings::mlx5_eqe>()).data.qp_srq).read() };
        if u32::from(about.type_) == bindings::MLX5_EVENT_QUEUE_TYPE_QP {
            table.queue_event(event, u32::from_be(about.qp_srq_n) & 0x00ff_ffff);
        }
    }
    bindings::NOTIFY_OK as c_int
}
