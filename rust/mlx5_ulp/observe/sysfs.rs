// SPDX-License-Identifier: GPL-2.0

//! `/sys/class/infiniband/<dev>/params/`: a file for each of [`PARAMETERS`].

use super::refusal;
use crate::{
    device::client,
    params::{
        table::{
            Parameter,
            COUNT,
            PARAMETERS, //
        },
        Params, //
    },
};
use kernel::{
    error::{
        code::*,
        from_result,
        to_result, //
    },
    ffi::c_char,
    fmt,
    prelude::*,
    str::{
        as_char_ptr_in_const_context,
        CString, //
    },
};
use mlx5_ulp_bindings as bindings;

/// A parameter as sysfs sees it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    // First, so that a pointer to it is one to the whole.
    raw: bindings::device_attribute,
    parameter: &'static Parameter,
}

// SAFETY: Only sysfs uses `raw`, and it does not write it.
unsafe impl Sync for Attribute {}

impl Attribute {
    const fn new(parameter: &'static Parameter) -> Self {
        let mut raw: bindings::device_attribute = pin_init::zeroed();
        raw.attr.name = as_char_ptr_in_const_context(parameter.name);
        raw.__bindgen_anon_1.show = Some(show);
        if parameter.is_writable() {
            raw.attr.mode = 0o644;
            raw.__bindgen_anon_2.store = Some(store);
        } else {
            raw.attr.mode = 0o444;
        }
        Self { raw, parameter }
    }
}

/// A list of attributes that ends with a null pointer.
#[repr(transparent)]
struct List<const N: usize>([*const bindings::attribute; N]);

// SAFETY: Pointers to statics that nobody writes.
unsafe impl<const N: usize> Sync for List<N> {}

static FILES: [Attribute; COUNT] = {
    let mut files = [Attribute::new(&PARAMETERS[0]); COUNT];
    let mut i = 1;
    while i < COUNT {
        files[i] = Attribute::new(&PARAMETERS[i]);
        i += 1;
    }
    files
};

/// With a null pointer at the end.
static LIST: List<{ COUNT + 1 }> = List({
    let mut list = [core::ptr::null(); COUNT + 1];
    let mut i = 0;
    while i < COUNT {
        list[i] = &raw const FILES[i].raw.attr;
        i += 1;
    }
    list
});

/// The folder.
#[repr(transparent)]
struct Group(bindings::attribute_group);

// SAFETY: Only sysfs uses it, and it does not write it.
unsafe impl Sync for Group {}

static PARAMS: Group = Group({
    let mut group: bindings::attribute_group = pin_init::zeroed();
    group.name = as_char_ptr_in_const_context(c"params");
    group.__bindgen_anon_2.attrs_const = (&raw const LIST).cast();
    group
});

/// The folder `params` of an RDMA device, removed when dropped.
pub(crate) struct ParamsDir {
    kobj: *mut bindings::kobject,
}

impl ParamsDir {
    /// Makes it; its files can be used at once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    ///
    /// # Safety
    ///
    /// `ibdev` must be valid until the folder is dropped, and our client data of it be set by
    /// now and until then.
    pub(crate) unsafe fn new(ibdev: *mut bindings::ib_device) -> Result<Self> {
        // SAFETY: The caller guarantees a valid device. Its `struct device` is one of the views of
        // that union.
        let kobj = unsafe {
            let dev = (&raw mut (*ibdev).__bindgen_anon_1).cast::<bindings::device>();
            &raw mut (*dev).kobj
        };
        // SAFETY: The object is that of a registered device, the group a static.
        to_result(unsafe { bindings::sysfs_create_group(kobj, &PARAMS.0) })?;
        Ok(Self { kobj })
    }
}

impl Drop for ParamsDir {
    fn drop(&mut self) {
        // SAFETY: Made in `new`; by its contract the device is still valid. Waits for those who
        // are reading or writing a file.
        unsafe { bindings::sysfs_remove_group(self.kobj, &PARAMS.0) };
    }
}

/// The parameter behind a file.
///
/// # Safety
///
/// `attribute` must be one of [`FILES`].
unsafe fn parameter(attribute: *mut bindings::device_attribute) -> &'static Parameter {
    // SAFETY: The caller guarantees that it is the first field of a static `Attribute`.
    unsafe { (*attribute.cast::<Attribute>()).parameter }
}

/// Shows a parameter.
///
/// # Safety
///
/// Only for sysfs, with files of [`ParamsDir`].
unsafe extern "C" fn show(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buffer: *mut c_char,
) -> isize {
    // SAFETY: sysfs passes what the file was made with.
    let parameter = unsafe { parameter(attribute) };
    from_result(|| {
        // SAFETY: The device is one with a `ParamsDir`, which waits for this call.
        let device = unsafe { client::device_of(dev) }.ok_or(ENODEV)?;
        let value = Value {
            parameter,
            params: device.params(),
        };
        let text = CString::try_from_fmt(fmt!("{value}\n"))?;
        // SAFETY: `buffer` is the page that sysfs gives us; format and argument are strings.
        let len = unsafe { bindings::sysfs_emit(buffer, c"%s".as_char_ptr(), text.as_char_ptr()) };
        Ok(len as isize)
    })
}

/// Changes a parameter.
///
/// # Safety
///
/// Only for sysfs, with files of [`ParamsDir`].
unsafe extern "C" fn store(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buffer: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: sysfs passes what the file was made with.
    let parameter = unsafe { parameter(attribute) };
    from_result(|| {
        // SAFETY: The device is one with a `ParamsDir`, which waits for this call.
        let device = unsafe { client::device_of(dev) }.ok_or(ENODEV)?;
        // SAFETY: sysfs passes `count` bytes.
        let value = unsafe { core::slice::from_raw_parts(buffer, count) }.trim_ascii();
        let Err(refusal) = device.change(parameter, value) else {
            return Ok(count as isize);
        };
        refusal::report(device, parameter.name, &refusal.reason()?)?;
        Err(refusal.error())
    })
}

/// The value of a parameter, to be printed.
struct Value<'a> {
    parameter: &'a Parameter,
    params: &'a Params,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parameter.show(self.params, f)
    }
}
