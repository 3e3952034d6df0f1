// SPDX-License-Identifier: GPL-2.0

//! Files in kernel memory, and checksums.

use crate::ulp_bindings::sha256;
use kernel::{
    bindings,
    error::from_err_ptr,
    ffi::c_int,
    fs::file,
    prelude::*, //
};

/// Largest file.
const MAX_BYTES: usize = 1 << 30;
/// Bytes of one read.
const CHUNK: usize = 1 << 20;
/// To read, of any size.
const OPEN_FLAGS: c_int = (file::flags::O_RDONLY | file::flags::O_LARGEFILE) as c_int;

/// An open file, closed when dropped.
///
/// # Invariants
///
/// `0` is an open file.
struct File(*mut bindings::file);

impl File {
    fn open(path: &CStr) -> Result<Self> {
        // SAFETY: The path is a string.
        let file = from_err_ptr(unsafe { bindings::filp_open(path.as_char_ptr(), OPEN_FLAGS, 0) })?;
        // INVARIANT: Just opened.
        Ok(Self(file))
    }

    /// Reads at most `room.len()` bytes at `position`, and returns how many; 0 at the end.
    fn read(&self, room: &mut [u8], position: i64) -> Result<usize> {
        let mut position = position;
        // SAFETY: By the type invariant the file is open; the bytes may be written.
        let len = unsafe {
            bindings::kernel_read(self.0, room.as_mut_ptr().cast(), room.len(), &mut position)
        };
        usize::try_from(len).map_err(|_| Error::from_errno(len as c_int))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the file is open; nobody uses it after.
        unsafe { bindings::filp_close(self.0, core::ptr::null_mut()) };
    }
}

/// Reads a whole file. Sleeps.
///
/// # Errors
///
/// `EINVAL` if it is empty, `EFBIG` above 1 GiB, `ENOMEM`, those of opening and reading.
pub(crate) fn read(path: &CStr) -> Result<KVVec<u8>> {
    let file = File::open(path)?;
    let mut contents = KVVec::new();
    let mut len = 0;
    loop {
        if len + CHUNK > contents.len() {
            // Twice as much each time, so that little is copied.
            let room = (2 * contents.len()).max(CHUNK);
            contents.resize(room, 0, GFP_KERNEL)?;
        }
        let room = contents.get_mut(len..).ok_or(EIO)?;
        let got = file.read(room, len as i64)?;
        if got == 0 {
            break;
        }
        len += got;
        if len > MAX_BYTES {
            return Err(EFBIG);
        }
    }
    if len == 0 {
        return Err(EINVAL);
    }
    contents.truncate(len);
    Ok(contents)
}

/// A SHA-256 checksum, shown as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha256([u8; 32]);

impl Sha256 {
    /// The checksum of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut sum = [0; 32];
        // SAFETY: The bytes are readable, and the place for the sum has the size that it needs.
        unsafe { sha256(bytes.as_ptr(), bytes.len(), sum.as_mut_ptr()) };
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
