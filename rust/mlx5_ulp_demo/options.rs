// SPDX-License-Identifier: GPL-2.0

//! The option line.

use crate::ulp::CHAIN;
use kernel::{
    prelude::*,
    str::CString, //
};

/// What to do.
pub(crate) struct Options {
    /// Source device.
    pub(crate) src: CString,
    /// Destination device.
    pub(crate) dst: CString,
    /// File to move.
    pub(crate) file: CString,
    /// Bytes of one WRITE.
    pub(crate) size: u32,
    /// WRITEs in flight.
    pub(crate) depth: u32,
    /// WRITEs posted with one call.
    pub(crate) chain: u32,
    /// GID of the source, `None` for the first of RoCE v2.
    pub(crate) src_gid: Option<u8>,
    /// GID of the destination.
    pub(crate) dst_gid: Option<u8>,
}

/// Why a line cannot be used.
pub(crate) type Reason = &'static str;

/// Bytes of one WRITE: what a message may have.
const SIZE: core::ops::RangeInclusive<u32> = 1..=1 << 30;
/// WRITEs in flight: what a queue may have.
const DEPTH: core::ops::RangeInclusive<u32> = 1..=32768;

/// WRITEs posted with one call.
const CHAINS: core::ops::RangeInclusive<u32> = 1..=CHAIN as u32;

impl Options {
    /// Reads a line of `name=value` words.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be used.
    pub(crate) fn parse(line: &str) -> Result<Self, Reason> {
        let (mut src, mut dst, mut file) = (None, None, None);
        let (mut size, mut depth, mut chain) = (4096, 64, 1);
        let (mut src_gid, mut dst_gid) = (None, None);
        for word in line.split_ascii_whitespace() {
            let (name, value) = word
                .split_once('=')
                .ok_or("an option is not of the form name=value")?;
            match name {
                "src" => src = Some(string(value)?),
                "dst" => dst = Some(string(value)?),
                "file" => file = Some(string(value)?),
                "size" => size = number(value, SIZE, "size is not a number from 1 to 1073741824")?,
                "depth" => depth = number(value, DEPTH, "depth is not a number from 1 to 32768")?,
                "chain" => chain = number(value, CHAINS, "chain is not a number from 1 to 16")?,
                "src_gid" => src_gid = Some(gid(value)?),
                "dst_gid" => dst_gid = Some(gid(value)?),
                _ => {
                    return Err(
                        "unknown option; there are src, dst, file, size, depth, chain, src_gid, dst_gid",
                    )
                }
            }
        }
        Ok(Self {
            src: src.ok_or("src is missing")?,
            dst: dst.ok_or("dst is missing")?,
            file: file.ok_or("file is missing")?,
            size,
            depth,
            // A chain never fits into a queue that is shorter.
            chain: chain.min(depth),
            src_gid,
            dst_gid,
        })
    }
}

fn string(value: &str) -> Result<CString, Reason> {
    if value.is_empty() {
        return Err("a value is empty");
    }
    CString::try_from_fmt(fmt!("{value}")).map_err(|_| "a value is not a string, or no memory")
}

fn number(
    value: &str,
    range: core::ops::RangeInclusive<u32>,
    reason: Reason,
) -> Result<u32, Reason> {
    let number = value.parse::<u32>().map_err(|_| reason)?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(reason)
    }
}

fn gid(value: &str) -> Result<u8, Reason> {
    value
        .parse::<u8>()
        .map_err(|_| "a GID index is not a number from 0 to 255")
}
