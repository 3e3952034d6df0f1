// SPDX-License-Identifier: GPL-2.0

//! Our registration with the RDMA core: which devices are attached, and the way in and out.

use super::Device;
use crate::{
    errno::eopnotsupp,
    hw::events::Notifier,
    observe::{
        debugfs::{
            self,
            DeviceDir,
            Root, //
        },
        sysfs::ParamsDir, //
    },
    params::Params, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        code::ENODEV,
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    str::{
        as_char_ptr_in_const_context,
        CString, //
    },
    sync::Arc,
    types::Opaque,
};
use mlx5_ulp_bindings as bindings;

/// The client as the RDMA core sees it.
#[repr(transparent)]
struct Client(Opaque<bindings::ib_client>);

// SAFETY: The RDMA core does the locking of its client.
unsafe impl Sync for Client {}

static CLIENT: Client = Client(Opaque::new(bindings::ib_client {
    name: as_char_ptr_in_const_context(c"mlx5_ulp"),
    add: Some(add),
    remove: Some(remove),
    rename: Some(rename),
    ..pin_init::zeroed()
}));

/// What exists while a client is registered. A static is never dropped, so
/// [`Registration::drop`] takes it out.
struct Attached {
    root: Root,
    /// Parameters of devices to come.
    params: Params,
    devices: KVec<Arc<Device>>,
}

kernel::sync::global_lock! {
    // SAFETY: `Registration::new` initializes it, once, before anything locks it.
    unsafe(uninit) static DEVICES: Mutex<Option<Attached>> = None;
}

/// One attached device, from `add` to `remove`. Fields are dropped in this order.
struct Attachment {
    /// Waits for its readers when dropped, as does `debugfs`.
    params: Option<ParamsDir>,
    debugfs: Option<DeviceDir>,
    /// No event is delivered any more once it is dropped.
    _notifier: Pin<KBox<Notifier>>,
    device: Arc<Device>,
}

impl Attachment {
    /// Attaches to `ibdev`: makes it known to consumers and to users.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if this is no device for us, the reason is in the log; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `ibdev` must be a device that is just being added. Unless this fails, [`Self::detach`] must
    /// be called with our client data before its removal ends.
    unsafe fn attach(ibdev: NonNull<bindings::ib_device>) -> Result {
        // SAFETY: The caller guarantees that `ibdev` is valid. Its name changes only under the
        // lock that is held around `add`.
        let name = unsafe { name_of(ibdev) }?;
        // SAFETY: As above.
        let mdev = unsafe { supported(ibdev, &name) }?;
        let params = DEVICES.lock().as_ref().ok_or(ENODEV)?.params.clone();
        // SAFETY: `ibdev` is valid by promise of the caller, and mlx5_core removes the RDMA device
        // before it lets go of its own. `detach` waits for the holds.
        let device = unsafe { Device::new(ibdev, mdev, name, params) }?;
        let this = KBox::new(
            Self {
                params: None,
                debugfs: None,
                _notifier: Notifier::new(&device)?,
                device,
            },
            GFP_KERNEL,
        )?;
        // From here on `detach` undoes everything.
        let this = KBox::into_raw(this);
        // SAFETY: The device is valid, and the client is the one that it is added to.
        unsafe { bindings::ib_set_client_data(ibdev.as_ptr(), CLIENT.0.get(), this.cast()) };
        // SAFETY: Just made, and only we know it: the files do not look at it, but at its device.
        unsafe { (*this).publish(ibdev) }.inspect_err(|_| {
            // SAFETY: As above. The RDMA core forgets the client data of an `add` that fails.
            unsafe { KBox::from_raw(this) }.detach();
        })
    }

    /// Makes the files, and lets consumers find the device.
    ///
    /// # Safety
    ///
    /// `ibdev` must be the device that `self` is the client data of.
    unsafe fn publish(&mut self, ibdev: NonNull<bindings::ib_device>) -> Result {
        // SAFETY: Promised by the caller; `detach` drops it before the device is gone.
        self.params = Some(unsafe { ParamsDir::new(ibdev.as_ptr()) }?);
        let mut attached = DEVICES.lock();
        let attached = attached.as_mut().ok_or(ENODEV)?;
        let debugfs = DeviceDir::new(&attached.root, &self.device)?;
        *self.device.queues_dir.lock() = Some(debugfs.queues());
        self.debugfs = Some(debugfs);
        attached.devices.push(self.device.clone(), GFP_KERNEL)?;
        pr_info!("{}: attached\n", &**self.device.name.lock());
        Ok(())
    }

    /// Takes the device away from consumers and users: see [`super`].
    fn detach(self: KBox<Self>) {
        let device = self.device.clone();
        if let Some(attached) = &mut *DEVICES.lock() {
            attached.devices.retain(|d| !Arc::ptr_eq(d, &device));
        }
        device.remove_members();
        *device.queues_dir.lock() = None;
        drop(self);
        device.wait_for_holds();
    }
}

/// The device that a sysfs file belongs to.
///
/// # Safety
///
/// `dev` must be a device with a [`ParamsDir`], and the result not be used when that is gone.
pub(crate) unsafe fn device_of<'a>(dev: *mut bindings::device) -> Option<&'a Device> {
    // SAFETY: The caller guarantees that it is an RDMA device of ours.
    let data = unsafe {
        bindings::mlx5_ulp_shim_client_data(bindings::mlx5_ulp_shim_to_ibdev(dev), CLIENT.0.get())
    };
    // SAFETY: The client data was set before the folder was made, and is freed after it was removed.
    // Only its device is looked at, which does not change.
    let device = unsafe {
        data.cast::<Attachment>()
            .as_ref()
            .map(|a| &raw const a.device)
    }?;
    // SAFETY: As above.
    Some(unsafe { &*device })
}

/// A copy of the name of `ibdev`.
///
/// # Safety
///
/// It must be a valid device that is not being renamed.
unsafe fn name_of(ibdev: NonNull<bindings::ib_device>) -> Result<CString> {
    // SAFETY: The caller guarantees a valid device, whose name ends with a NUL.
    let name = unsafe { CStr::from_char_ptr((&raw const (*ibdev.as_ptr()).name).cast()) };
    Ok(CString::try_from(name)?)
}

/// Finds mlx5_core's device below `ibdev`, or says why it is not for us.
///
/// # Safety
///
/// `ibdev` must be valid.
unsafe fn supported(
    ibdev: NonNull<bindings::ib_device>,
    name: &CStr,
) -> Result<NonNull<bindings::mlx5_core_dev>> {
    // SAFETY: The caller guarantees a valid device.
    let driver = unsafe { (*ibdev.as_ptr()).ops.driver_id };
    if driver != bindings::rdma_driver_id_RDMA_DRIVER_MLX5 {
        pr_info!("{name}: not attached: not an mlx5 device (RDMA driver {driver})\n");
        return Err(eopnotsupp());
    }
    // SAFETY: As above.
    NonNull::new(unsafe { bindings::mlx5_ulp_shim_mdev(ibdev.as_ptr()) }).ok_or_else(|| {
        pr_info!("{name}: not attached: not a PCI function of its own (a sub-function or a representor)\n");
        eopnotsupp()
    })
}

/// See [`Device::find`].
pub(super) fn find(wanted: impl Fn(&Device) -> bool) -> Result<Arc<Device>> {
    let attached = DEVICES.lock();
    let attached = attached.as_ref().ok_or(ENODEV)?;
    attached
        .devices
        .iter()
        .find(|d| wanted(d))
        .cloned()
        .ok_or(ENODEV)
}

/// Called by the RDMA core for a device that came, or was there when we did.
///
/// # Safety
///
/// Only for the RDMA core.
unsafe extern "C" fn add(ibdev: *mut bindings::ib_device) -> c_int {
    from_result(|| {
        let ibdev = NonNull::new(ibdev).ok_or(ENODEV)?;
        // SAFETY: The RDMA core passes a valid device and calls `remove` before it goes, unless
        // we fail here.
        unsafe { Attachment::attach(ibdev) }?;
        Ok(0)
    })
}

/// Called by the RDMA core before a device goes, or when we do.
///
/// # Safety
///
/// Only for the RDMA core.
unsafe extern "C" fn remove(_ibdev: *mut bindings::ib_device, data: *mut c_void) {
    // SAFETY: `data` is what `add` has set, and `remove` is called once for it.
    let attachment = unsafe { KBox::from_raw(data.cast::<Attachment>()) };
    let device = attachment.device.clone();
    attachment.detach();
    pr_info!("{}: detached\n", &**device.name.lock());
}

/// Called by the RDMA core after a device got another name.
///
/// # Safety
///
/// Only for the RDMA core.
unsafe extern "C" fn rename(ibdev: *mut bindings::ib_device, data: *mut c_void) {
    // SAFETY: `data` is what `add` has set, and `remove` is not called meanwhile.
    let device = unsafe { &(*data.cast::<Attachment>()).device };
    let Some(ibdev) = NonNull::new(ibdev) else {
        return;
    };
    // SAFETY: The RDMA core passes a valid device, and keeps it from being renamed again.
    if let Ok(new) = unsafe { name_of(ibdev) } {
        let old = core::mem::replace(&mut *device.name.lock(), new);
        debugfs::rename(&old, &device.name.lock());
    }
}

/// The registration with the RDMA core; detaches from every device when dropped.
pub(crate) struct Registration(());

impl Registration {
    /// Attaches to the mlx5 devices that exist, and to those that come.
    ///
    /// Must be called once in the life of the module.
    pub(crate) fn new(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Called once, at module load, before the client is registered.
        unsafe { DEVICES.init() };
        *DEVICES.lock() = Some(Attached {
            root: Root::new(),
            params: Params::of_module()?,
            devices: KVec::new(),
        });
        let this = Self(());
        // SAFETY: The client is a static of this module, and `drop` unregisters it before the
        // module goes.
        to_result(unsafe { bindings::ib_register_client(CLIENT.0.get()) }).inspect_err(|_| {
            *DEVICES.lock() = None;
        })?;
        Ok(this)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered in `new`. Calls `remove` for every device and waits for it.
        unsafe { bindings::ib_unregister_client(CLIENT.0.get()) };
        *DEVICES.lock() = None;
    }
}
