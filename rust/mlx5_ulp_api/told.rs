// SPDX-License-Identifier: GPL-2.0

//! Who is told, where C finds it.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

/// Somebody of type `T`, mostly a `dyn` one, which takes more than the one pointer that C keeps for its callbacks. So that
/// one leads to a box.
pub(crate) struct Told<T: ?Sized>(KBox<Arc<T>>);

impl<T: ?Sized> Told<T> {
    /// Keeps `who`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(who: Arc<T>) -> Result<Self> {
        Ok(Self(KBox::new(who, GFP_KERNEL)?))
    }

    /// What C is to call with, as long as `self` is there.
    pub(crate) fn context(&self) -> *mut c_void {
        core::ptr::from_ref(&*self.0).cast_mut().cast()
    }

    /// Who is called.
    ///
    /// # Safety
    ///
    /// `context` must be that of a `Told<T>`, for the same `T`, which is there during `'a`.
    pub(crate) unsafe fn of<'a>(context: *mut c_void) -> &'a Arc<T> {
        // SAFETY: By the caller's word it points into the box of one.
        unsafe { &*context.cast::<Arc<T>>() }
    }
}
