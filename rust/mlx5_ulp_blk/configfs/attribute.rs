// SPDX-License-Identifier: GPL-2.0

//! What the files of all folders have in common.

use core::ops::RangeInclusive;
use kernel::{
    fmt::{
        self,
        Write, //
    },
    page::PAGE_SIZE,
    prelude::*,
    str::{
        CString,
        Formatter, //
    }, //
};

/// Shows a value and the end of a line.
pub(super) fn show(page: &mut [u8; PAGE_SIZE], value: fmt::Arguments<'_>) -> Result<usize> {
    let mut writer = Formatter::new(page);
    writer.write_fmt(value)?;
    writer.write_str("\n")?;
    Ok(writer.bytes_written())
}

/// Shows `power`: whether there is something.
pub(super) fn show_power<T>(on: &Option<T>, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
    show(page, fmt!("{}", u8::from(on.is_some())))
}

/// What was written, without white space around it.
pub(super) fn text(page: &[u8]) -> Result<&str> {
    Ok(core::str::from_utf8(page).map_err(|_| EINVAL)?.trim())
}

/// A name that was written.
pub(super) fn string(page: &[u8]) -> Result<CString> {
    match text(page)? {
        "" => Err(EINVAL),
        text => Ok(CString::try_from_fmt(fmt!("{text}"))?),
    }
}

/// A number that was written.
pub(super) fn number(page: &[u8], range: RangeInclusive<u32>) -> Result<u32> {
    let text = text(page)?;
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(EINVAL);
    }
    // What is left to go wrong is that it is too large.
    let number = text.parse().map_err(|_| ERANGE)?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(ERANGE)
    }
}

/// `EBUSY` unless it is `off`.
pub(super) fn only_if(off: bool) -> Result {
    off.then_some(()).ok_or(EBUSY)
}

/// A file that may be written while its folder is off.
macro_rules! setting {
    ($folder:ty, $id:literal, |$inner:ident| $field:expr, |$page:ident| $parse:expr, $shown:expr) => {
        #[vtable]
        impl AttributeOperations<$id> for $folder {
            type Data = $folder;

            fn show(this: &$folder, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
                let $inner = this.inner.lock();
                let shown = $shown;
                show(page, fmt!("{}", shown(&$field)))
            }

            fn store(this: &$folder, $page: &[u8]) -> Result {
                let value = $parse;
                let mut $inner = this.inner.lock();
                $inner.off()?;
                $field = value;
                Ok(())
            }
        }
    };
}

pub(super) use setting;

/// Shows a name that may be missing.
pub(super) fn name(value: &Option<CString>) -> &str {
    value.as_ref().and_then(|v| v.to_str().ok()).unwrap_or("")
}

/// Shows a number.
pub(super) fn plain(value: &u32) -> u32 {
    *value
}
