// SPDX-License-Identifier: GPL-2.0

//! Finding queues by name and by number, on the first device; ways to connect.

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
        ConnectAttr,
        Device,
        Flags,
        Qid,
        Queue,
        QueueAttr,
        QueueRef,
        Region,
        Write, //
    }, //
};
use kernel::prelude::*;

/// A queue is found by name and by number, by any handle of its device, and posted to; and no more when it is gone.
pub(crate) fn found() -> Result {
    let (name, other) = (Qid::new(3, 0xff_ffff)?, Qid::new(3, 1)?);
    check!(Qid::new(254, 1).err() == Some(EINVAL));
    check!(Qid::new(3, 0x100_0000).err() == Some(EINVAL));
    let attr = QueueAttr {
        name: Some(name),
        ..QueueAttr::new(4)
    };
    let pair = Pair::new(attr)?;
    check!(Queue::new(&pair.at_here, attr).err() == Some(EEXIST));
    let source = Region::new(&pair.at_here, pattern()?, Access::LOCAL)?;
    let target = Region::new(&pair.at_there, KVec::from_elem(0u8, 200, GFP_KERNEL)?, ALL)?;
    let tally = Tally::new()?;
    let post = |queue: QueueRef<'_>, offset: u64| -> Result<u32> {
        let write = Write {
            local: source.range(offset, 100)?.into(),
            remote_addr: target.address() + offset,
            rkey: target.key(),
            flags: Flags::LAST,
        };
        queue.post_write(&tally, write)?;
        Ok(queue.qpn())
    };
    let qpn = pair.here.qpn();
    let anybody = Device::open(c"mlx5_0")?;
    anybody.prefetch(&[]);
    anybody.prefetch(&[name, other]);
    check!(anybody.with_queue(name, |queue| post(queue, 0)) == Some(Ok(qpn)));
    check!(anybody.with_queue_qpn(qpn, |queue| post(queue, 100)) == Some(Ok(qpn)));
    check!(anybody.with_queue(other, |queue| queue.qpn()).is_none());
    // Beyond the 24 bits of a number.
    check!(anybody
        .with_queue_qpn(qpn | 1 << 24, |queue| queue.qpn())
        .is_none());
    tally.data().wait(2)?;
    check!(target.into_memory()?.iter().eq(pattern()?.iter().take(200)));
    drop(pair);
    check!(anybody.with_queue(name, |queue| queue.qpn()).is_none());
    check!(anybody.with_queue_qpn(qpn, |queue| queue.qpn()).is_none());
    Ok(())
}

/// Makes attributes that are refused.
type Spoil = fn(&mut ConnectAttr);

/// Values that are out of range, and what is answered.
const SPOILT: [(Spoil, Error); 4] = [
    (|attr| attr.timeout = 32, EINVAL),
    (|attr| attr.retry_count = 8, EINVAL),
    (|attr| attr.rnr_retry = 8, EINVAL),
    (|attr| attr.gid_index = Some(255), ENOENT),
];

/// What is said of the connection reaches the queue: each value that is out of range is refused, and the queue is connected
/// then. An address is plain numbers.
pub(crate) fn connected() -> Result {
    let device = Device::open(c"mlx5_0")?;
    let queue = Queue::new(&device, QueueAttr::new(1))?;
    let address = queue.address(Some(0)).or_else(|_| queue.address(None))?;
    check!(address.qpn == queue.qpn());
    check!(address.mtu >= 256);
    for (spoil, error) in SPOILT {
        let mut attr = ConnectAttr::default();
        spoil(&mut attr);
        check!(queue.connect(&address, Some(&attr)) == Err(error));
    }
    let attr = ConnectAttr {
        timeout: 10,
        retry_count: 1,
        rnr_retry: 1,
        traffic_class: 8,
        max_reads: 1,
        max_peer_reads: 1,
        ..ConnectAttr::default()
    };
    queue.connect(&address, Some(&attr))
}
