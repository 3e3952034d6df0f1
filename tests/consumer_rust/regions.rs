// SPDX-License-Identifier: GPL-2.0

//! Regions: memory goes to the device and comes back, and a request does not outlive what it names.

use crate::{
    check,
    pair::{
        pattern,
        Pair,
        Tally,
        ALL,
        BYTES, //
    },
    ulp::{
        Access,
        Flags,
        Local,
        Operation,
        QueueAttr,
        Region,
        Work,
        Write, //
    }, //
};
use kernel::prelude::*;

/// What is written arrives, by copies and by taking the memory back, of a vector and of a box.
pub(crate) fn memory() -> Result {
    let pair = Pair::new(QueueAttr::new(16))?;
    let source = Region::new(&pair.at_here, pattern()?, Access::LOCAL)?;
    let memory = KBox::new([0u8; BYTES], GFP_KERNEL)?;
    let address = memory.as_ptr();
    let target = Region::new(&pair.at_there, memory, ALL)?;
    let tally = Tally::new()?;
    source.copy_from(1, b"new")?;
    pair.here.post_write(
        &tally,
        Write {
            local: source.range(0, 5000)?.into(),
            remote_addr: target.address() + 10,
            rkey: target.key(),
            flags: Flags::LAST,
        },
    )?;
    tally.data().wait(1)?;
    let mut some = [0; 6];
    target.copy_to(9, &mut some)?;
    check!(some == [0, 0, b'n', b'e', b'w', 4]);
    let (arrived, sent) = (target.into_memory()?, source.into_memory()?);
    check!(arrived.as_ptr() == address);
    check!(arrived.get(10..5010) == sent.get(..5000));
    check!(arrived.iter().skip(5010).all(|byte| *byte == 0));
    Ok(())
}

/// Who has his memory back has it for himself: the peer's key reaches it no more, nor that of a region that is dropped.
pub(crate) fn ended() -> Result {
    type End = fn(Region<KVec<u8>>) -> Result;
    let ends: [End; 2] = [
        |region| region.into_memory().map(drop),
        |region| {
            drop(region);
            Ok(())
        },
    ];
    for end in ends {
        // The refusal ends the queue.
        let pair = Pair::new(QueueAttr::new(16))?;
        let region = Region::new(&pair.at_there, pattern()?, ALL)?;
        let (address, key) = (region.address(), region.key());
        read_one(&pair, address, key)?;
        end(region)?;
        let refused = read_one(&pair, address, key).err();
        check!(refused.is_some_and(|e| e.to_errno() == -(kernel::bindings::EREMOTEIO as i32)));
    }
    Ok(())
}

/// READs a byte from the peer.
fn read_one(pair: &Pair, remote_addr: u64, rkey: u32) -> Result {
    let target = Region::new(&pair.at_here, pattern()?, Access::LOCAL_WRITE)?;
    let tally = Tally::new()?;
    pair.here.post(&[Work {
        request: &tally,
        operation: Operation::Read,
        local: Local::Ranges(&[target.range(0, 1)?]),
        remote_addr,
        rkey,
        flags: Flags::LAST,
    }])?;
    tally.data().wait(1)
}

/// There are no ranges, and no copies, beyond the memory.
pub(crate) fn outside() -> Result {
    let pair = Pair::new(QueueAttr::new(16))?;
    let region = Region::new(&pair.at_here, pattern()?, Access::LOCAL_WRITE)?;
    let bytes = BYTES as u64;
    check!(region
        .range(0, BYTES as u32)
        .is_ok_and(|r| r.len() == BYTES as u32));
    for (offset, length) in [
        (0, BYTES as u32 + 1),
        (bytes, 1),
        (1, BYTES as u32),
        (u64::MAX, 2),
    ] {
        check!(region.range(offset, length).is_err());
    }
    let mut byte = [0u8];
    for offset in [BYTES, usize::MAX] {
        check!(region.copy_to(offset, &mut byte).is_err());
        check!(region.copy_from(offset, &byte).is_err());
    }
    let empty = KVec::<u8>::new();
    check!(Region::new(&pair.at_here, empty, Access::LOCAL).err() == Some(EINVAL));
    Ok(())
}

/// A region is dropped with requests in flight: each of them ends, and the device reads nothing of it any more. The
/// device is told late of those requests (`MORE`, and no flush), so they are carried out behind the end of the key.
pub(crate) fn dropped() -> Result {
    const COUNT: u32 = 8;
    let pair = Pair::new(QueueAttr::new(16))?;
    let source = Region::new(&pair.at_here, pattern()?, Access::LOCAL)?;
    let memory = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
    let target = Region::new(&pair.at_there, memory, ALL)?;
    let tally = Tally::new()?;
    for _ in 0..COUNT {
        pair.here.post_write(
            &tally,
            Write {
                local: source.range(0, BYTES as u32)?.into(),
                remote_addr: target.address(),
                rkey: target.key(),
                flags: Flags::MORE,
            },
        )?;
    }
    drop(source);
    pair.here.flush();
    // Those that were quick are done, the first that was not has failed, others are flushed.
    let result = tally.data().wait(COUNT);
    check!(result.is_ok() || result == Err(EIO));
    check!(tally.data().ended() == COUNT);
    Ok(())
}
