// SPDX-License-Identifier: GPL-2.0

//! From a request of the block layer to the send queue, and back.
//!
//! A read or write becomes one to five RDMA READs or WRITEs of up to [`RANGES`] segments each, a chain that
//! is posted whole or not at all; the last of them tells that all are done, since requests of a queue end in
//! order. A write with FUA has a READ of its last bytes behind it.
//!
//! # Flush
//!
//! A WRITE completes when the adapter of the target has acknowledged it. Then the data cannot be lost on the
//! way any more, but it may still be in that adapter, not in the memory. The answer of a READ
//! that follows on the same queue pair is sent after the WRITEs before it have been carried out (InfiniBand
//! specification, transport ordering), and it is the answer to a read of the memory over PCI Express, which
//! does not pass writes that were posted before. So it proves that they are in the memory.
//!
//! That holds for one queue pair. A flush has to cover what was completed on all of them, so it reads
//! through each of them that has completed a write since it was last read through: [`Channel::unflushed`].
//! Only a READ that *ended* well counts; a flush that comes while the READ of another is under way sends its
//! own.
//!
//! What was completed on a connection that is lost afterwards is in the memory by the time that there is a
//! new one: the connector has the target destroy its queue pair before, and an adapter does not report a
//! queue pair as destroyed that still has data to write. The same keeps a WRITE of the old connection, sent
//! again on the new one, from arriving late on top of newer data.
//!
//! [`Channel::unflushed`]: crate::channel::Channel::unflushed

use crate::{
    channel::Steady,
    disk::Core,
    errno::{
        enotconn,
        eopnotsupp, //
    },
    io::{
        InFlight,
        Io,
        Op,
        MAX_SEGMENTS, //
    },
    mq,
    state::State,
    ulp::Flags,
    ulp_bindings as bindings, //
};
use kernel::prelude::*;

/// Most data ranges of one WRITE or READ: what any ConnectX takes for both (a WQE of 512 bytes).
pub(crate) const RANGES: usize = 30;
/// Most WRITEs and READs of a request: those for its data, and one to flush.
pub(crate) const CHAIN: usize = MAX_SEGMENTS.div_ceil(RANGES) + 1;
/// Bytes of the READ that flushes: no more than there are in a sector.
pub(crate) const FLUSH_BYTES: u32 = 8;
/// How often a request is sent again before it fails: each time, a connection was lost.
const RETRIES: u8 = 8;

const WRITE: u32 = bindings::mlx5_ulp_opcode_MLX5_ULP_OP_WRITE;
const READ: u32 = bindings::mlx5_ulp_opcode_MLX5_ULP_OP_READ;

/// What a request becomes.
struct Chain {
    works: [bindings::mlx5_ulp_work; CHAIN],
    len: usize,
}

impl Chain {
    fn new() -> Self {
        // SAFETY: All zeroes is a valid value of this plain structure.
        const NONE: bindings::mlx5_ulp_work = unsafe { core::mem::zeroed() };
        Self {
            works: [NONE; CHAIN],
            len: 0,
        }
    }

    /// Adds one of these ranges, which nobody hears of.
    fn push(&mut self, opcode: u32, sges: &[bindings::mlx5_ulp_sge], remote_addr: u64, rkey: u32) {
        if let Some(work) = self.works.get_mut(self.len) {
            work.opcode = opcode;
            work.sge = sges.as_ptr();
            work.num_sge = sges.len() as u32;
            work.remote_addr = remote_addr;
            work.rkey = rkey;
            work.flags = Flags::UNSIGNALED.bits();
            self.len += 1;
        }
    }

    /// Has the last of them told to `request`, and returns all.
    fn finish(
        &mut self,
        request: *mut bindings::mlx5_ulp_request,
        flags: Flags,
    ) -> &[bindings::mlx5_ulp_work] {
        if let Some(last) = self.len.checked_sub(1).and_then(|i| self.works.get_mut(i)) {
            last.request = request;
            last.flags = flags.bits();
        }
        self.works.get(..self.len).unwrap_or_default()
    }
}

impl Core {
    /// A request comes from hardware context `index`; `last` if blk-mq has no more for now.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if blk-mq is to try again soon, others if the request fails. It is blk-mq's then.
    pub(crate) fn queue(&self, steady: Steady<'_>, mut io: Io, index: usize, last: bool) -> Result {
        match self.state() {
            State::Live => {}
            State::Away => return Err(ENOMEM),
            State::Dead => return Err(EIO),
        }
        let (op, offset, length) = io.what().ok_or_else(eopnotsupp)?;
        if op == Op::Flush {
            if last {
                // The writes before it wait for the doorbell, of a queue that the flush may have nothing for.
                self.commit(steady, index);
            }
            self.flush(steady, io);
            return Ok(());
        }
        let peer = self.peer();
        let channel = self.channels().get(index).ok_or(EIO)?;
        let link = channel.link(steady).ok_or(ENOMEM)?;
        // SAFETY: The device is valid up to its removal notice, which makes the disk dead and waits until
        // nobody is here; what is in flight then ends before the device goes.
        unsafe { io.map(self.dma_device(), self.local_key())? };

        let (opcode, done): (_, crate::io::Told) = match op {
            Op::Read => (READ, data_done::<false>),
            _ => (WRITE, data_done::<true>),
        };
        let told = io.prepare(done, 1);
        let mut chain = Chain::new();
        let mut at = peer.address.wrapping_add(offset);
        for ranges in io.segments().chunks(RANGES) {
            chain.push(opcode, ranges, at, peer.rkey);
            at = ranges
                .iter()
                .fold(at, |at, range| at.wrapping_add(range.length.into()));
        }
        let scratch = self.scratch();
        if op == Op::WriteThrough {
            let end = peer
                .address
                .wrapping_add(offset)
                .wrapping_add(length.into());
            chain.push(
                READ,
                core::slice::from_ref(&scratch),
                end.wrapping_sub(FLUSH_BYTES.into()),
                peer.rkey,
            );
        }
        let works = chain.finish(told, if last { Flags::LAST } else { Flags::MORE });
        // SAFETY: The request and its ranges stay where they are until `data_done` is called, and nobody
        // uses `io` after; the READ writes to the scratch memory.
        let posted = unsafe { link.queue().post_raw(works) };
        if let Err(e) = posted {
            io.unmap();
            // A full queue has something in flight, the end of which lets blk-mq try again.
            if e != EAGAIN {
                self.lost();
            }
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// blk-mq has no more after all.
    pub(crate) fn commit(&self, steady: Steady<'_>, index: usize) {
        if let Some(link) = self.channels().get(index).and_then(|c| c.link(steady)) {
            link.queue().flush();
        }
    }

    /// Sends a READ through each queue with writes that are not known to be in the target's memory.
    fn flush(&self, steady: Steady<'_>, mut io: Io) {
        let peer = self.peer();
        let scratch = self.scratch();
        for (index, channel) in self.channels().iter().enumerate() {
            io.set_mark(index, channel.unflushed().unwrap_or(0));
        }
        let channels = self.channels().iter().enumerate();
        let looked_for = channels
            .filter(|(_, channel)| channel.is_polled())
            .any(|(index, _)| io.mark(index) != 0);
        io.looked_for = looked_for;
        if looked_for {
            self.lookout.expect();
        }
        // One for this function, so that the READs do not end it before all are sent.
        let told = io.prepare(flush_done, 1);
        let flight = io.into_flight();
        for (index, channel) in self.channels().iter().enumerate() {
            if flight.mark(index) == 0 {
                continue;
            }
            let mut chain = Chain::new();
            chain.push(
                READ,
                core::slice::from_ref(&scratch),
                peer.address,
                peer.rkey,
            );
            let works = chain.finish(told, Flags::LAST);
            flight.expect();
            let posted = channel.link(steady).ok_or_else(enotconn).and_then(|link| {
                // SAFETY: The request stays where it is until it was told as often as expected; the READ
                // writes to the scratch memory.
                unsafe { link.queue().post_raw(works) }
            });
            match posted {
                Ok(()) => self.count_flush(),
                Err(e) => {
                    flight.unexpect();
                    flight.fail(e);
                    if e != EAGAIN {
                        self.lost();
                    }
                }
            }
        }
        if looked_for {
            // With what this function holds, so that the disk is there.
            self.lookout.look();
        }
        if let Some(io) = flight.put() {
            self.flush_ended(io);
        }
    }

    /// All READs of a flush have ended.
    fn flush_ended(&self, io: Io) {
        if io.result().is_ok() {
            for (index, channel) in self.channels().iter().enumerate() {
                channel.flushed(io.mark(index));
            }
        }
        if io.looked_for {
            self.lookout.ended();
        }
        io.complete();
    }

    /// A request has ended at the device: ends it, or has it sent again.
    pub(crate) fn complete(&self, mut io: Io) {
        let result = io.result();
        if result.is_ok() {
            mq::end(io, Ok(()));
        } else if result == Err(EAGAIN) && self.state() != State::Dead {
            // A queue was full, of which a flush hears as late as this: nothing is wrong with the connection.
            mq::requeue_later(io);
        } else if io.retries < RETRIES && self.state() != State::Dead {
            io.retries += 1;
            self.count_retry();
            mq::requeue(io);
        } else {
            mq::end(io, Err(EIO));
        }
    }
}

/// The last of a chain has ended.
///
/// # Safety
///
/// As [`InFlight::told`].
unsafe extern "C" fn data_done<const WRITE: bool>(
    request: *mut bindings::mlx5_ulp_request,
    completion: *const bindings::mlx5_ulp_completion,
) {
    // SAFETY: Guaranteed by the caller.
    let Some(mut io) = unsafe { InFlight::told(request, completion) }.and_then(InFlight::put)
    else {
        return;
    };
    // SAFETY: `io` is not used after it has ended, nor is the disk.
    let core = unsafe { mq::core_of(io.rq()) };
    // Here and not on the CPU where it ends: the device may be about to go.
    io.unmap();
    if io.result().is_err() {
        core.lost();
    } else if WRITE {
        if let Some(channel) = core.channels().get(mq::index_of(&io)) {
            channel.wrote();
        }
    }
    io.complete();
}

/// A READ of a flush has ended.
///
/// # Safety
///
/// As [`InFlight::told`].
unsafe extern "C" fn flush_done(
    request: *mut bindings::mlx5_ulp_request,
    completion: *const bindings::mlx5_ulp_completion,
) {
    // SAFETY: Guaranteed by the caller.
    let Some(io) = unsafe { InFlight::told(request, completion) }.and_then(InFlight::put) else {
        return;
    };
    // SAFETY: `io` is not used after it has ended, nor is the disk.
    let core = unsafe { mq::core_of(io.rq()) };
    if io.result().is_err() {
        core.lost();
    }
    core.flush_ended(io);
}
