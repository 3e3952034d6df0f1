// SPDX-License-Identifier: GPL-2.0

//! The local end of a request: several ranges, and bytes in the request itself.

use crate::{
    check,
    pair::{
        pattern,
        Pair,
        Tally,
        ALL, //
    },
    ulp::{
        Access,
        Bytes,
        Flags,
        Local,
        Operation,
        QueueAttr,
        Region,
        Request,
        Work,
        Write, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Most bytes in a request.
const MOST: usize = 64;

/// Two ranges go into one WRITE, one behind the other.
pub(crate) fn ranges() -> Result {
    let attr = QueueAttr {
        max_sge: 2,
        ..QueueAttr::new(4)
    };
    let pair = Pair::new(attr)?;
    let source = Region::new(&pair.at_here, pattern()?, Access::LOCAL)?;
    let target = Region::new(&pair.at_there, KVec::from_elem(0u8, 300, GFP_KERNEL)?, ALL)?;
    let tally = Tally::new()?;
    let both = [source.range(100, 50)?, source.range(0, 100)?];
    let write = |local| Write {
        local,
        remote_addr: target.address(),
        rkey: target.key(),
        flags: Flags::LAST,
    };
    pair.here.post_write(&tally, write(Local::Ranges(&both)))?;
    tally.data().wait(1)?;
    let three = [both[0], both[1], both[0]];
    let too_many = pair.here.post_write(&tally, write(Local::Ranges(&three)));
    check!(too_many == Err(EMSGSIZE));
    let (arrived, sent) = (target.into_memory()?, pattern()?);
    check!(arrived.get(..50) == sent.get(100..150));
    check!(arrived.get(50..150) == sent.get(..100));
    check!(arrived.iter().skip(150).all(|byte| *byte == 0));
    Ok(())
}

/// Posts what is at the place of its number in the target, from bytes that are something else when it is carried out.
fn inline(
    target: &Region<KVec<u8>>,
    number: u8,
    post: impl FnOnce(Local<'_>, u64) -> Result,
) -> Result {
    let mut bytes = [number; MOST];
    let to = target.address() + u64::from(number) * MOST as u64;
    let posted = post(Bytes::new(&bytes).into(), to);
    bytes.fill(0xff);
    // Or the compiler would not change what nobody reads.
    core::hint::black_box(&bytes);
    posted
}

/// A WRITE that is told to wait for the doorbell, of `local` and to `to` at the peer.
fn write(local: Local<'_>, to: (u64, u32)) -> Write<'_> {
    Write {
        local,
        remote_addr: to.0,
        rkey: to.1,
        flags: Flags::MORE,
    }
}

/// Likewise a request of any kind.
fn work<'a>(
    request: &'a Arc<Request<Tally>>,
    operation: Operation<'a>,
    local: Local<'a>,
    to: (u64, u32),
) -> Work<'a, Tally> {
    Work {
        request,
        operation,
        local,
        remote_addr: to.0,
        rkey: to.1,
        flags: Flags::MORE,
    }
}

/// Bytes are in the request when the post returns, by each of the ways to post; and only as many as there may be, and where
/// they are read.
pub(crate) fn inlined() -> Result {
    let attr = QueueAttr {
        max_inline: MOST as u32,
        ..QueueAttr::new(8)
    };
    let pair = Pair::new(attr)?;
    let memory = KVec::from_elem(0u8, 5 * MOST, GFP_KERNEL)?;
    let target = Region::new(&pair.at_there, memory, ALL)?;
    let (tally, key) = (Tally::new()?, target.key());
    inline(&target, 0, |local, to| {
        pair.here.post_write(&tally, write(local, (to, key)))
    })?;
    inline(&target, 1, |local, to| {
        pair.here.post_writes(&tally, &[write(local, (to, key))])
    })?;
    inline(&target, 2, |local, to| {
        pair.here
            .post(&[work(&tally, Operation::Write, local, (to, key))])
    })?;
    inline(&target, 3, |local, to| {
        let mut room = pair.here.reserve(1)?;
        room.post(&[work(&tally, Operation::Write, local, (to, key))])
    })?;
    pair.here.drain()?;
    tally.data().wait(4)?;

    let (long, to) = ([7; MOST + 1], (target.address() + 4 * MOST as u64, key));
    let long = || Local::Inline(Bytes::new(&long));
    check!(pair.here.post_write(&tally, write(long(), to)) == Err(EMSGSIZE));
    check!(
        pair.here
            .post(&[work(&tally, Operation::Write, long(), to)])
            == Err(EMSGSIZE)
    );
    inline(&target, 4, |local, _| {
        check!(pair.here.post(&[work(&tally, Operation::Read, local, to)]) == Err(EINVAL));
        Ok(())
    })?;
    pair.here.drain()?;
    check!(tally.data().ended() == 4);
    let arrived = target.into_memory()?;
    let as_posted = |(at, byte): (usize, &u8)| usize::from(*byte) == at / MOST;
    check!(arrived.iter().take(4 * MOST).enumerate().all(as_posted));
    check!(arrived.iter().skip(4 * MOST).all(|byte| *byte == 0));
    Ok(())
}
