// SPDX-License-Identifier: GPL-2.0

//! Room in a queue: who hears of it, and who has reserved it.

use crate::{
    check,
    pair::{
        pattern,
        until,
        Pair,
        Tally,
        Told,
        ALL, //
    },
    ulp::{
        Access,
        Flags,
        Operation,
        QueueAttr,
        Region,
        Request,
        Work, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Requests of a queue.
const DEPTH: u32 = 4;

/// Two regions, and a WRITE from one to the other.
struct Regions {
    source: Region<KVec<u8>>,
    target: Region<KVec<u8>>,
}

impl Regions {
    fn new(pair: &Pair) -> Result<Self> {
        Ok(Self {
            source: Region::new(&pair.at_here, pattern()?, Access::LOCAL)?,
            target: Region::new(&pair.at_there, pattern()?, ALL)?,
        })
    }

    /// Has `post` post a WRITE that asks for a doorbell only if it is the `last`.
    fn write(
        &self,
        tally: &Arc<Request<Tally>>,
        last: bool,
        post: impl FnOnce(&[Work<'_, Tally>]) -> Result,
    ) -> Result {
        post(&[Work {
            request: tally,
            operation: Operation::Write,
            local: self.source.range(0, 64)?.into(),
            remote_addr: self.target.address(),
            rkey: self.target.key(),
            flags: if last { Flags::LAST } else { Flags::MORE },
        }])
    }
}

/// Posts until the queue is full, and returns how many that took.
fn fill(pair: &Pair, regions: &Regions, tally: &Arc<Request<Tally>>) -> Result<u32> {
    let mut posted = 0;
    loop {
        match regions.write(tally, false, |works| pair.here.post(works)) {
            Ok(()) => posted += 1,
            Err(e) if e == EAGAIN => return Ok(posted),
            Err(e) => return Err(e),
        }
    }
}

/// Who has found the queue full hears that there is room again, and finds it.
pub(crate) fn space() -> Result {
    let told = Told::new()?;
    let pair = Pair::with_space(QueueAttr::new(DEPTH), told.clone())?;
    let regions = Regions::new(&pair)?;
    let tally = Tally::new()?;
    check!(told.times() == 0);
    let posted = fill(&pair, &regions, &tally)?;
    check!(posted >= DEPTH);
    pair.here.flush();
    until(|| told.times() != 0);
    regions.write(&tally, true, |works| pair.here.post(works))?;
    tally.data().wait(posted + 1)?;
    drop(pair);
    // The queue has given back its reference: nobody is told any more.
    check!(Arc::into_unique_or_drop(told).is_some());
    Ok(())
}

/// What is reserved can be posted when the queue is full, and goes back when it is dropped.
pub(crate) fn reservation() -> Result {
    // Completions wait until we look, so the queue stays full.
    let attr = QueueAttr {
        completions: crate::ulp::Completions::Polled,
        ..QueueAttr::new(DEPTH)
    };
    let pair = Pair::new(attr)?;
    let regions = Regions::new(&pair)?;
    let tally = Tally::new()?;
    let mut reservation = pair.here.reserve(2)?;
    check!(fill(&pair, &regions, &tally)? == DEPTH - 2);
    regions.write(&tally, true, |works| reservation.post(works))?;
    check!(reservation.left() == 1);
    check!(regions.write(&tally, true, |works| pair.here.post(works)) == Err(EAGAIN));
    drop(reservation);
    regions.write(&tally, true, |works| pair.here.post(works))?;
    pair.here.drain()?;
    check!(tally.data().ended() == DEPTH);
    tally.data().wait(DEPTH)
}

/// A reservation that is forgotten costs room, and nothing else.
pub(crate) fn forgotten() -> Result {
    let pair = Pair::new(QueueAttr::new(DEPTH))?;
    let regions = Regions::new(&pair)?;
    let tally = Tally::new()?;
    core::mem::forget(pair.here.reserve(DEPTH - 1)?);
    for count in 1..=3 {
        regions.write(&tally, true, |works| pair.here.post(works))?;
        check!(pair.here.reserve(DEPTH).err() == Some(EAGAIN));
        tally.data().wait(count)?;
    }
    Ok(())
}
