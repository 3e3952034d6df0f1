// SPDX-License-Identifier: GPL-2.0

//! Calls that other tests have no use for: leaving the peer; keeping a queue in the cache.

use crate::{
    check,
    errno::ecanceled,
    pair::{
        pattern,
        Pair,
        Tally, //
    },
    ulp::{
        Access,
        Flags,
        Operation,
        QueueAttr,
        Receive,
        Region,
        Work, //
    }, //
};
use kernel::prelude::*;

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
            local: source.range(0, 64)?.into(),
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
