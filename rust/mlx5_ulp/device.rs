// SPDX-License-Identifier: GPL-2.0

//! The per-device context and its lifetime.
//!
//! A [`Device`] is made when the RDMA core announces an mlx5 device ([`client`]) and lives
//! until the last [`Arc`] to it is gone. What the hardware sees of it lives shorter: every
//! firmware object keeps a [`Hold`], and the removal of the RDMA device waits until there is
//! none. Handles that consumers keep beyond that point answer `ENODEV`.
//!
//! # Removal
//!
//! 1. No new [`Hold`] is given out, the device can no longer be found.
//! 2. [`Member::removal_notice`] of every member: consumers are told. Nothing has vanished
//!    yet, so they can stop, flush and give things back in their own order.
//! 3. [`Member::shutdown`] of every member that is left, queues first: firmware objects are
//!    destroyed.
//! 4. Wait for the last [`Hold`] (an object that is just being created or read).
//!
//! # Lock order
//!
//! Outer locks first. A lock may be taken while those before it are held, never the other
//! way round.
//!
//! 1. The RDMA core's locks: `devices_rwsem` and `client_data_rwsem` for reading around add and
//!    rename, `unregistration_lock` around the removal of a device, none when we leave
//! 2. `client::DEVICES`: the list of attached devices
//! 3. The state of a consumer's handle (queue, region, ...), a mutex each
//! 4. [`Device::changing`]: a parameter is being changed
//! 5. [`Device::members`], [`Device::life`], the handles of consumers ([`crate::api::held`]): leaves, nothing
//!    is called while one is held; and the lock of the counter table, under which queues take over parameters
//! 6. The event table ([`crate::hw::events`]), interrupts off: event handlers run under it
//! 7. Spin locks of the data path (posting, completion), interrupts off
//!
//! [`Member`] functions are called with none of ours held.

use crate::{
    hw::{
        caps::Caps,
        events::EventTable, //
    },
    observe::{
        counters::CounterTable,
        latency::Latency, //
    },
    params::{
        table::Parameter,
        text::Refusal,
        Params, //
    },
    qid::registry::Registry,
    work::NoIo, //
};
use core::ptr::NonNull;
use kernel::{
    debugfs::Dir,
    error::code::ENODEV,
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Completion,
        Mutex, //
    },
};
use mlx5_ulp_bindings as bindings;

pub(crate) mod client;

/// Something of a consumer that stands on a device and has to leave it before the device goes.
pub(crate) trait Member: Send + Sync {
    /// The device is about to go. Called once, from process context, may sleep. Everything
    /// still works; when it returns the member's owner must not rely on that any more.
    fn removal_notice(&self);

    /// Whether the device acts for it: such members are shut down first, and what the device is told to act
    /// on after them.
    fn is_active(&self) -> bool {
        false
    }

    /// Gives back every firmware object and every [`Hold`]. From process context, may sleep.
    /// When it returns, the device is no longer touched and calls on the handle fail with
    /// `ENODEV`.
    fn shutdown(&self);
}

/// An attached mlx5 device.
///
/// # Invariants
///
/// `mdev` and `ibdev` point to the live devices for as long as a [`Hold`] exists or
/// [`client`] has not finished removal.
#[pin_data]
pub(crate) struct Device {
    mdev: NonNull<bindings::mlx5_core_dev>,
    ibdev: NonNull<bindings::ib_device>,
    /// What the device can do, read once when it was attached.
    caps: Caps,
    params: Params,
    /// Held while one is changed.
    #[pin]
    changing: Mutex<()>,
    /// The name the RDMA core knows it by. It may be renamed at any time.
    #[pin]
    name: Mutex<CString>,
    #[pin]
    life: Mutex<Life>,
    /// Completed when removal has begun and the last hold was dropped.
    #[pin]
    idle: Completion,
    /// `None` once removal has called them.
    #[pin]
    members: Mutex<Option<KVec<Arc<dyn Member>>>>,
    #[pin]
    events: EventTable,
    #[pin]
    counters: CounterTable,
    registry: Pin<KVBox<Registry>>,
    latency: Arc<Latency>,
    /// Where queues make their debugfs folders, while the device's own exists.
    #[pin]
    queues_dir: Mutex<Option<Dir>>,
}

/// How far the life of a device has come.
struct Life {
    removing: bool,
    holds: usize,
}

// SAFETY: The pointers are only handed to functions of mlx5_core and of the RDMA core, which lock
// for themselves; everything else is behind locks.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

impl Device {
    /// Makes the context for `ibdev`, whose hardware is `mdev`.
    ///
    /// # Safety
    ///
    /// Both must be valid until [`Self::wait_for_holds`] of this device has returned.
    unsafe fn new(
        ibdev: NonNull<bindings::ib_device>,
        mdev: NonNull<bindings::mlx5_core_dev>,
        name: CString,
        params: Params,
    ) -> Result<Arc<Self>> {
        // SAFETY: The caller guarantees that `mdev` is valid.
        let caps = unsafe { Caps::read(mdev) };
        let latency = Arc::pin_init(Latency::new(), GFP_KERNEL)?;
        latency.turn(params.latency_stats())?;
        let registry = Registry::new()?;
        // The parameter takes no size that the cache cannot have.
        registry
            .resize(params.qid_cache_size())
            .map_err(|_| EINVAL)?;
        Arc::pin_init(
            pin_init!(Self {
                mdev,
                ibdev,
                caps,
                params,
                changing <- new_mutex!((), "mlx5_ulp_changing"),
                name <- new_mutex!(name, "mlx5_ulp_name"),
                life <- new_mutex!(Life { removing: false, holds: 0 }, "mlx5_ulp_life"),
                idle <- Completion::new(),
                members <- new_mutex!(Some(KVec::new()), "mlx5_ulp_members"),
                events <- EventTable::new(),
                counters <- CounterTable::new(),
                registry,
                latency,
                queues_dir <- new_mutex!(None, "mlx5_ulp_queues_dir"),
            }),
            GFP_KERNEL,
        )
    }

    /// Finds an attached device by the name of its RDMA device (`mlx5_0`).
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none of that name, or it is not ours.
    pub(crate) fn find(name: &CStr) -> Result<Arc<Self>> {
        client::find(|d| d.name.lock().to_bytes() == name.to_bytes())
    }

    /// Finds an attached device by its RDMA device; the pointer is only compared.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it is not ours.
    pub(crate) fn of(ibdev: *const bindings::ib_device) -> Result<Arc<Self>> {
        client::find(|d| core::ptr::eq(d.ibdev.as_ptr(), ibdev))
    }

    /// Keeps the hardware from going away.
    ///
    /// # Errors
    ///
    /// `ENODEV` once removal has begun.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<Hold> {
        let mut life = self.life.lock();
        if life.removing {
            return Err(ENODEV);
        }
        life.holds += 1;
        Ok(Hold(self.clone()))
    }

    /// Registers `member` to be told and shut down before the device goes. If that cannot be, it is shut down
    /// at once. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` once removal has begun, `ENOMEM`.
    pub(crate) fn enroll(&self, member: Arc<dyn Member>) -> Result {
        // Who waits for the lock may be what brings a disk back that memory is to be written to.
        let no_io = NoIo::new();
        let enrolled = match &mut *self.members.lock() {
            Some(members) => members
                .push(member.clone(), GFP_KERNEL)
                .map_err(Error::from),
            None => Err(ENODEV),
        };
        drop(no_io);
        // It may sleep and lock, so not above.
        if enrolled.is_err() {
            member.shutdown();
        }
        enrolled
    }

    /// Forgets `member`. Without effect if removal has it already.
    pub(crate) fn leave(&self, member: &Arc<dyn Member>) {
        let found = match &mut *self.members.lock() {
            Some(members) => members
                .iter()
                .position(|m| Arc::ptr_eq(m, member))
                .and_then(|at| members.remove(at).ok()),
            None => None,
        };
        // Its destructor may sleep and lock, so not above.
        drop(found);
    }

    /// Forgets `member` and shuts it down, if removal has not. Sleeps.
    pub(crate) fn dismiss(&self, member: Arc<dyn Member>) {
        self.leave(&member);
        member.shutdown();
    }

    /// What the device can do.
    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Its parameters.
    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    /// Changes a parameter, and tells every queue. `value` is text without surrounding white space.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// Why the value was refused; nothing was changed then.
    pub(crate) fn change(&self, parameter: &Parameter, value: &[u8]) -> Result<(), Refusal> {
        let _changing = self.changing.lock();
        self.params.change(parameter, value)?;
        self.apply();
        self.counters.params_changed(&self.params);
        Ok(())
    }

    /// Has what belongs to the device itself, and to no queue, follow the parameters.
    fn apply(&self) {
        if self.registry.resize(self.params.qid_cache_size()).is_err() {
            // The parameter takes no size that the cache cannot have.
            pr_err!("vf_qid_cache_size is not what the cache can have\n");
        }
        if self.latency.turn(self.params.latency_stats()).is_err() {
            pr_warn!("no memory to measure latencies\n");
        }
    }

    /// Who hears of events of the device.
    pub(crate) fn events(&self) -> &EventTable {
        &self.events
    }

    /// The counters of its queues.
    pub(crate) fn counters(&self) -> &CounterTable {
        &self.counters
    }

    /// What requests take, by stage.
    pub(crate) fn latency(&self) -> &Arc<Latency> {
        &self.latency
    }

    /// The sums of its views start from zero. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; what is not reset then goes on as before.
    pub(crate) fn reset_views(&self) -> Result {
        self.counters.reset();
        self.latency.reset()
    }

    /// Its queues by name and by number.
    #[inline(always)]
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A copy of its present name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn name(&self) -> Result<CString> {
        Ok(CString::try_from(&**self.name.lock())?)
    }

    /// The debugfs folder of its queues.
    ///
    /// # Errors
    ///
    /// `ENODEV` before it is made and after it is removed.
    pub(crate) fn queues_dir(&self) -> Result<Dir> {
        self.queues_dir.lock().clone().ok_or(ENODEV)
    }

    /// Steps 1 to 3 of the removal described above.
    fn remove_members(&self) {
        self.life.lock().removing = true;
        let members = self.members.lock().take().unwrap_or_default();
        for member in &members {
            member.removal_notice();
        }
        // Queues before the regions that their requests name, or the device would find those gone before
        // it is told to stop; else what was made last goes first.
        for active in [true, false] {
            let of_its_kind = |member: &&Arc<dyn Member>| member.is_active() == active;
            for member in members.iter().rev().filter(of_its_kind) {
                member.shutdown();
            }
        }
    }

    /// Step 4: when it returns, nothing of ours is left on the hardware.
    fn wait_for_holds(&self) {
        if self.life.lock().holds != 0 {
            self.idle.wait_for_completion();
        }
    }
}

/// Keeps a device's hardware from going away; every firmware object has one.
///
/// Do not keep one without an object that [`Member::shutdown`] drops: removal waits for it.
///
/// # Invariants
///
/// While it exists, `mdev` and `ibdev` of its device are valid.
pub(crate) struct Hold(Arc<Device>);

impl Hold {
    /// mlx5_core's device, valid as long as `self`.
    #[inline]
    pub(crate) fn mdev(&self) -> *mut bindings::mlx5_core_dev {
        self.0.mdev.as_ptr()
    }

    /// The RDMA core's device, valid as long as `self`.
    #[inline]
    pub(crate) fn ibdev(&self) -> *mut bindings::ib_device {
        self.0.ibdev.as_ptr()
    }

    /// Whether mlx5_core does not ask the device any more: it has died, or its bus has.
    pub(crate) fn is_down(&self) -> bool {
        // SAFETY: `mdev` is valid by the type invariants.
        unsafe { bindings::mlx5_ulp_shim_is_down(self.mdev()) }
    }

    /// The device that does DMA, for mapping memory; valid as long as `self`.
    pub(crate) fn dma_device(&self) -> *mut bindings::device {
        // SAFETY: `mdev` is valid by the type invariants.
        unsafe { (*self.mdev()).device }
    }

    /// Address of its PCI function: domain << 16 | bus << 8 | device << 3 | function. Unlike
    /// the name it never changes.
    pub(crate) fn pci_address(&self) -> u32 {
        // SAFETY: `mdev` is valid by the type invariants, and with it its PCI function.
        unsafe { bindings::mlx5_ulp_shim_pci_address((*self.mdev()).pdev) }
    }

    /// NUMA node of the device, or `NUMA_NO_NODE`.
    pub(crate) fn node(&self) -> i32 {
        // SAFETY: `mdev` is valid by the type invariants.
        unsafe { (*self.mdev()).priv_.numa_node }
    }

    /// The context itself, which may outlive the hold.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0
    }
}

impl core::ops::Deref for Hold {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        // `self` counts already, so removal cannot have finished; one more is fine even after
        // it has begun.
        self.0.life.lock().holds += 1;
        Self(self.0.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut life = self.0.life.lock();
        life.holds -= 1;
        if life.removing && life.holds == 0 {
            self.0.idle.complete_all();
        }
    }
}
