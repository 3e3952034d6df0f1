// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Guest memory under memory keys, as queue pairs read and write it.

use super::context::Attributes;
use super::work::{Piece, Pieces};
use crate::dma::Kind;
use crate::io::Io;
use crate::mkey::{Access, Fault, Mkeys, Right, Span};

/// Who accesses: the properties of a queue pair that keys are checked against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub pd: u32,
    pub qpn: u32,
    /// May local accesses use the reserved key?
    pub reserved_lkey: bool,
}

impl Owner {
    /// A queue pair as owner.
    pub fn new(attributes: &Attributes, qpn: u32) -> Self {
        Owner {
            pd: attributes.pd,
            qpn,
            reserved_lkey: attributes.reserved_lkey,
        }
    }

    /// The access of this owner.
    pub fn access(&self, key: u32, va: u64, len: u64, right: Right) -> Access {
        Access {
            key,
            va,
            len,
            right,
            pd: self.pd,
            qpn: self.qpn,
            reserved_lkey: self.reserved_lkey,
        }
    }
}

/// Reads `out.len()` bytes; `access.len` is set from that.
///
/// # Errors
///
/// See [`Fault`]; part of `out` may have been written.
pub fn read(
    mkeys: &Mkeys,
    io: &mut Io,
    kind: Kind,
    access: Access,
    out: &mut [u8],
) -> Result<(), Fault> {
    let mut rest = out;
    for span in spans(mkeys, access, rest.len())? {
        let (addr, len) = match span {
            Span::Memory { addr, len } => (Some(addr), len),
            Span::Null { len } => (None, len),
        };
        let (part, behind) = rest.split_at_mut_checked(len).ok_or(Fault::Bounds)?;
        match addr {
            Some(addr) => io.memory.read(kind, addr, part).map_err(|_| Fault::Dma)?,
            None => part.fill(0),
        }
        rest = behind;
    }
    Ok(())
}

/// Writes `data`; `access.len` is set from its length.
///
/// # Errors
///
/// See [`Fault`]; part of the data may have been written.
pub fn write(
    mkeys: &Mkeys,
    io: &mut Io,
    kind: Kind,
    access: Access,
    data: &[u8],
) -> Result<(), Fault> {
    let mut rest = data;
    for span in spans(mkeys, access, rest.len())? {
        let (addr, len) = match span {
            Span::Memory { addr, len } => (Some(addr), len),
            Span::Null { len } => (None, len),
        };
        let (part, behind) = rest.split_at_checked(len).ok_or(Fault::Bounds)?;
        if let Some(addr) = addr {
            io.memory.write(kind, addr, part).map_err(|_| Fault::Dma)?;
        }
        rest = behind;
    }
    Ok(())
}

fn spans(mkeys: &Mkeys, access: Access, len: usize) -> Result<Vec<Span>, Fault> {
    let mut spans = Vec::new();
    let access = Access {
        len: len as u64,
        ..access
    };
    mkeys.translate(&access, &mut spans)?;
    Ok(spans)
}

/// Calls `f(piece, offset in the piece, range of the buffer)` for `len` bytes of a message from `offset` on.
fn each_piece(
    pieces: &Pieces,
    offset: u64,
    len: usize,
    mut f: impl FnMut(&Piece, u64, std::ops::Range<usize>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut skip = offset;
    let mut done = 0;
    for piece in &pieces.pieces {
        if done == len {
            break;
        }
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let here = usize::try_from(piece.len() - skip)
            .unwrap_or(usize::MAX)
            .min(len - done);
        f(piece, skip, done..done + here)?;
        done += here;
        skip = 0;
    }
    (done == len).then_some(()).ok_or(Fault::Bounds)
}

/// Reads a part of a message from local memory and from the WQE it stands in.
///
/// # Errors
///
/// See [`Fault`].
pub fn gather(
    mkeys: &Mkeys,
    io: &mut Io,
    kind: Kind,
    owner: &Owner,
    (wqe, pieces): (&[u8], &Pieces),
    offset: u64,
    out: &mut [u8],
) -> Result<(), Fault> {
    let len = out.len();
    each_piece(pieces, offset, len, |piece, at, range| {
        let part = out.get_mut(range).ok_or(Fault::Bounds)?;
        match *piece {
            Piece::Inline { at: start, .. } => {
                let start = usize::try_from(at)
                    .ok()
                    .and_then(|at| start.checked_add(at))
                    .ok_or(Fault::Bounds)?;
                let from = wqe
                    .get(start..)
                    .and_then(|rest| rest.get(..part.len()))
                    .ok_or(Fault::Bounds)?;
                part.copy_from_slice(from);
                Ok(())
            }
            Piece::Pointer { lkey, addr, .. } => {
                let va = addr.wrapping_add(at);
                let access = owner.access(lkey, va, 0, Right::LocalRead);
                read(mkeys, io, kind, access, part)
            }
        }
    })
}

/// Writes a part of a message to local memory.
///
/// # Errors
///
/// See [`Fault`].
pub fn scatter(
    mkeys: &Mkeys,
    io: &mut Io,
    owner: &Owner,
    pieces: &Pieces,
    offset: u64,
    data: &[u8],
) -> Result<(), Fault> {
    each_piece(pieces, offset, data.len(), |piece, at, range| {
        let part = data.get(range).ok_or(Fault::Bounds)?;
        match *piece {
            Piece::Inline { .. } => Err(Fault::Right),
            Piece::Pointer { lkey, addr, .. } => {
                let va = addr.wrapping_add(at);
                let access = owner.access(lkey, va, 0, Right::LocalWrite);
                write(mkeys, io, Kind::Payload, access, part)
            }
        }
    })
}

/// Replaces the 8 bytes at an address by `f` of them, atomically; returns the old value.
///
/// # Errors
///
/// See [`Fault`].
pub fn update(
    mkeys: &Mkeys,
    io: &mut Io,
    access: Access,
    f: impl Fn(u64) -> u64,
) -> Result<u64, Fault> {
    match spans(mkeys, access, 8)?.as_slice() {
        [Span::Memory { addr, len: 8 }] => io.memory.update_u64(*addr, f).map_err(|_| Fault::Dma),
        [Span::Null { .. }] => Ok(0),
        _ => Err(Fault::Dma),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkey::RESERVED_LKEY;

    const OWNER: Owner = Owner {
        pd: 1,
        qpn: 2,
        reserved_lkey: true,
    };

    fn io() -> Io {
        let mut io = Io::new(None);
        io.memory = crate::dma::GuestMemory::anonymous(0, 0x1000);
        io
    }

    fn pointer(addr: u64, len: u64) -> Piece {
        Piece::Pointer {
            len,
            lkey: RESERVED_LKEY,
            addr,
        }
    }

    #[test]
    fn parts_of_a_message_come_from_their_pieces() {
        let mkeys = Mkeys::default();
        let mut io = io();
        io.memory.write(Kind::Payload, 0x100, b"pointer").unwrap();
        let pieces = Pieces {
            pieces: vec![Piece::Inline { at: 1, len: 6 }, pointer(0x100, 7)],
            len: 13,
        };
        let whole = b"inlinepointer";
        for offset in 0..13 {
            for len in 0..=13 - offset {
                let mut out = vec![0; len];
                gather(
                    &mkeys,
                    &mut io,
                    Kind::Payload,
                    &OWNER,
                    (b"-inline-", &pieces),
                    offset as u64,
                    &mut out,
                )
                .unwrap();
                assert_eq!(out, whole[offset..offset + len]);
            }
        }
    }

    #[test]
    fn scatters_across_pieces_and_not_beyond() {
        let mkeys = Mkeys::default();
        let mut io = io();
        let pieces = Pieces {
            pieces: vec![pointer(0x10, 3), pointer(0x20, 4)],
            len: 7,
        };
        scatter(&mkeys, &mut io, &OWNER, &pieces, 1, b"abcdef").unwrap();
        let mut out = [0; 4];
        io.memory.read(Kind::Payload, 0x10, &mut out).unwrap();
        assert_eq!(out, *b"\0ab\0");
        io.memory.read(Kind::Payload, 0x20, &mut out).unwrap();
        assert_eq!(out, *b"cdef");
        assert_eq!(
            scatter(&mkeys, &mut io, &OWNER, &pieces, 2, b"abcdef"),
            Err(Fault::Bounds)
        );
    }

    #[test]
    fn memory_that_is_not_there_is_a_fault() {
        let mkeys = Mkeys::default();
        let mut io = io();
        let access = OWNER.access(RESERVED_LKEY, 0xfff, 0, Right::LocalRead);
        let result = read(&mkeys, &mut io, Kind::Payload, access, &mut [0; 2]);
        assert_eq!(result, Err(Fault::Dma));
    }
}
