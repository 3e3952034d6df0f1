// SPDX-License-Identifier: GPL-2.0

//! A file in kernel memory, and checksums.

use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_void,
    prelude::*, //
};

use crate::ulp_bindings as bindings;

/// Largest file.
const MAX_BYTES: usize = 1 << 30;

/// The contents of a file.
///
/// # Invariants
///
/// `memory` is an allocation of vmalloc with at least `len` bytes, which are read.
pub(crate) struct Contents {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: Memory that it owns.
unsafe impl Send for Contents {}
// SAFETY: As above; it is not changed.
unsafe impl Sync for Contents {}

impl Contents {
    /// Reads a whole file. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is empty or not a regular file, `EFBIG` above 1 GiB, those of opening and reading.
    pub(crate) fn read(path: &CStr) -> Result<Self> {
        let mut memory: *mut c_void = core::ptr::null_mut();
        let mut size = 0;
        // SAFETY: The path is a string, the other places are valid; with a null buffer the function
        // allocates one.
        let len = unsafe {
            bindings::kernel_read_file_from_path(
                path.as_char_ptr(),
                0,
                &mut memory,
                MAX_BYTES,
                &mut size,
                bindings::kernel_read_file_id_READING_UNKNOWN,
            )
        };
        if len < 0 {
            return Err(Error::from_errno(len as i32));
        }
        let memory = NonNull::new(memory.cast()).ok_or(EINVAL)?;
        // INVARIANT: The function allocated it with vmalloc and read `len` bytes.
        let contents = Self {
            memory,
            len: len as usize,
        };
        if len == 0 {
            return Err(EINVAL);
        }
        Ok(contents)
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: By the type invariant.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it came from vmalloc; nobody uses it after.
        unsafe { bindings::vfree(self.memory.as_ptr().cast()) };
    }
}

/// A SHA-256 checksum, shown as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha256([u8; 32]);

impl Sha256 {
    /// The checksum of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut sum = [0; 32];
        // SAFETY: The bytes are readable, and the place for the sum has the size that it needs.
        unsafe { bindings::sha256(bytes.as_ptr(), bytes.len(), sum.as_mut_ptr()) };
        Self(sum)
    }
}

impl kernel::fmt::Display for Sha256 {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        for byte in self.0 {
            f.write_fmt(fmt!("{byte:02x}"))?;
        }
        Ok(())
    }
}
