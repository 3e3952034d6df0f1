// SPDX-License-Identifier: GPL-2.0

//! The queue with one poster.

use crate::{
    check,
    pair::{
        pattern,
        until,
        Tally,
        Told,
        ALL, //
    },
    ulp::{
        Access,
        Completions,
        Device,
        Exclusive,
        Flags,
        Operation,
        Qid,
        Queue,
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

/// Requests of a queue that is filled.
const DEPTH: u32 = 4;

/// An exclusive queue, its peer, and memory at both. Dropped in the order of the fields.
struct Ends {
    here: Exclusive,
    _there: Queue,
    source: Region<KVec<u8>>,
    target: Region<KVec<u8>>,
}

impl Ends {
    /// `here` as it is made.
    fn new(here: impl FnOnce(&Arc<Device>) -> Result<Exclusive>) -> Result<Self> {
        let (at_here, at_there) = (Device::open(c"mlx5_0")?, Device::open(c"mlx5_1")?);
        let attr = QueueAttr {
            access: ALL,
            ..QueueAttr::new(1)
        };
        let (here, there) = (here(&at_here)?, Queue::new(&at_there, attr)?);
        here.connect(&there.address(None)?, None)?;
        there.connect(&here.address(None)?, None)?;
        Ok(Self {
            here,
            _there: there,
            source: Region::new(&at_here, pattern()?, Access::LOCAL_WRITE)?,
            target: Region::new(&at_there, KVec::from_elem(0u8, 300, GFP_KERNEL)?, ALL)?,
        })
    }
}

/// A WRITE of 100 bytes.
fn work<'a>(
    request: &'a Arc<Request<Tally>>,
    source: &'a Region<KVec<u8>>,
    target: &Region<KVec<u8>>,
) -> Result<Work<'a, Tally>> {
    Ok(Work {
        request,
        operation: Operation::Write,
        local: source.range(200, 100)?.into(),
        remote_addr: target.address() + 200,
        rkey: target.key(),
        flags: Flags::MORE,
    })
}

/// A chain of WRITEs and one of other requests arrive, and nothing waits for a doorbell; it has no name.
pub(crate) fn exclusive() -> Result {
    let device = Device::open(c"mlx5_0")?;
    let named = QueueAttr {
        name: Some(Qid::new(0, 7)?),
        ..QueueAttr::new(16)
    };
    check!(Exclusive::new(&device, named).err() == Some(EINVAL));
    let Ends {
        mut here,
        _there,
        source,
        target,
    } = Ends::new(|device| Exclusive::new(device, QueueAttr::new(16)))?;
    let tally = Tally::new()?;
    let write = |offset: u64| -> Result<Write<'_>> {
        Ok(Write {
            local: source.range(offset, 100)?.into(),
            remote_addr: target.address() + offset,
            rkey: target.key(),
            flags: Flags::MORE,
        })
    };
    here.post_writes(&tally, &[write(0)?, write(100)?])?;
    here.post(&[work(&tally, &source, &target)?])?;
    tally.data().wait(3)?;
    here.drain()?;
    check!(here.statistics().doorbells >= 2);
    check!(here.post_writes(&tally, &[write(0)?; 17]) == Err(EMSGSIZE));
    // Who finds it by its number does not post to it.
    let found = device.with_queue_qpn(here.qpn(), |queue| {
        queue.post_writes(&tally, &[write(0).map_err(|_| ENOENT)?])
    });
    check!(found == Some(Err(EINVAL)));
    here.stop()?;
    check!(here.post_writes(&tally, &[write(0)?]) == Err(EPIPE));
    check!(tally.data().ended() == 3);
    check!(target.into_memory()?.iter().eq(pattern()?.iter().take(300)));
    Ok(())
}

/// Its poster posts from what he has reserved when the queue is full, and beside that what is left; the rest goes back.
pub(crate) fn reservation() -> Result {
    // Completions wait until we look, so the queue stays full.
    let attr = QueueAttr {
        completions: Completions::Polled,
        ..QueueAttr::new(DEPTH)
    };
    let mut ends = Ends::new(|device| Exclusive::new(device, attr))?;
    let tally = Tally::new()?;
    let one = [work(&tally, &ends.source, &ends.target)?];
    let mut room = ends.here.reserve(2)?;
    check!(room.beside().reserve(DEPTH).err() == Some(EAGAIN));
    for _ in 2..DEPTH {
        room.beside().post(&one)?;
    }
    check!(room.beside().post(&one) == Err(EAGAIN));
    room.post(&one)?;
    check!(room.left() == 1);
    check!(room.beside().post(&one) == Err(EAGAIN));
    drop(room);
    ends.here.post(&one)?;
    check!(ends.here.post(&one) == Err(EAGAIN));
    ends.here.drain()?;
    check!(tally.data().ended() == DEPTH);
    tally.data().wait(DEPTH)
}

/// Its poster hears of room, too.
pub(crate) fn space() -> Result {
    let told = Told::new()?;
    let space = told.clone();
    let mut ends = Ends::new(|device| Exclusive::with_space(device, QueueAttr::new(DEPTH), space))?;
    let tally = Tally::new()?;
    let one = [work(&tally, &ends.source, &ends.target)?];
    let mut posted = 0;
    // Requests are carried out as fast as they are posted, or not.
    while told.times() == 0 {
        match ends.here.post(&one) {
            Ok(()) => posted += 1,
            Err(e) if e == EAGAIN => until(|| told.times() != 0),
            Err(e) => return Err(e),
        }
    }
    ends.here.post(&one)?;
    tally.data().wait(posted + 1)
}
