// SPDX-License-Identifier: GPL-2.0

//! Calls that other tests have no use for: the exclusive queue; leaving the peer; keeping a queue in the cache.

use crate::{
    check,
    errno::ecanceled,
    pair::{
        pattern,
        Pair,
        Tally,
        ALL, //
    },
    ulp::{
        Access,
        Device,
        Exclusive,
        Flags,
        Operation,
        Queue,
        QueueAttr,
        Receive,
        Region,
        Work,
        Write, //
    }, //
};
use kernel::prelude::*;

/// A chain of WRITEs and one of other requests arrive, and nothing waits for a doorbell; it has no name.
pub(crate) fn exclusive() -> Result {
    let (at_here, at_there) = (Device::open(c"mlx5_0")?, Device::open(c"mlx5_1")?);
    let attr = QueueAttr::new(16);
    let named = QueueAttr {
        name: Some((0, 7)),
        ..attr
    };
    check!(Exclusive::new(&at_here, named).err() == Some(EINVAL));
    let mut here = Exclusive::new(&at_here, attr)?;
    let there = Queue::new(
        &at_there,
        QueueAttr {
            access: ALL,
            ..attr
        },
    )?;
    here.connect(&there.address(None)?, None)?;
    there.connect(&here.address(None)?, None)?;
    let source = Region::new(&at_here, pattern()?, Access::LOCAL_WRITE)?;
    let target = Region::new(&at_there, KVec::from_elem(0u8, 300, GFP_KERNEL)?, ALL)?;
    let tally = Tally::new()?;
    let write = |offset: u64| -> Result<Write<'_>> {
        Ok(Write {
            local: source.range(offset, 100)?,
            remote_addr: target.address() + offset,
            rkey: target.key(),
            flags: Flags::MORE,
        })
    };
    here.post_writes(&tally, &[write(0)?, write(100)?])?;
    here.post(&[Work {
        request: &tally,
        operation: Operation::Write,
        ranges: &[source.range(200, 100)?],
        remote_addr: target.address() + 200,
        rkey: target.key(),
        flags: Flags::MORE,
    }])?;
    tally.data().wait(3)?;
    here.drain()?;
    check!(here.statistics().doorbells >= 2);
    check!(here.post_writes(&tally, &[write(0)?; 17]) == Err(EMSGSIZE));
    here.stop()?;
    check!(here.post_writes(&tally, &[write(0)?]) == Err(EPIPE));
    check!(tally.data().ended() == 3);
    check!(target.into_memory()?.iter().eq(pattern()?.iter().take(300)));
    Ok(())
}

/// A message that asks for an event arrives; who leaves posts nothing any more, and what waited has ended.
pub(crate) fn disconnect() -> Result {
    let receives = QueueAttr {
        max_recv_depth: 2,
        ..QueueAttr::new(4)
    };
    let pair = Pair::between(QueueAttr::new(4), receives)?;
    check!(pair.here.pin().is_ok());
    check!(pair.here.unpin().is_ok());
    check!(pair.here.unpin() == Err(ENOENT));
    let source = Region::new(&pair.at_here, pattern()?, Access::LOCAL)?;
    let target = Region::new(&pair.at_there, pattern()?, Access::LOCAL_WRITE)?;
    let (sent, received) = (Tally::new()?, Tally::new()?);
    let ranges = [target.range(0, 64)?];
    let receive = || Receive {
        request: &received,
        ranges: &ranges,
    };
    pair.there.post_receives(&[receive(), receive()])?;
    let send = || -> Result {
        pair.here.post(&[Work {
            request: &sent,
            operation: Operation::Send,
            ranges: &[source.range(0, 64)?],
            remote_addr: 0,
            rkey: 0,
            flags: Flags::SOLICITED.and(Flags::LAST),
        }])
    };
    send()?;
    sent.data().wait(1)?;
    received.data().wait(1)?;
    pair.there.disconnect()?;
    pair.there.disconnect()?;
    // The other receive ends by itself.
    check!(received.data().wait(2) == Err(ecanceled()));
    pair.here.disconnect()?;
    check!(send() == Err(EPIPE));
    check!(sent.data().ended() == 1);
    Ok(())
}
