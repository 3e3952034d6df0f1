// SPDX-License-Identifier: GPL-2.0

//! Memory by DMA address: scatterlists, fast registration, the key to all memory.

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
        FastRegion,
        Flags,
        ListRegion,
        Local,
        Operation,
        Queue,
        QueueAttr,
        Range,
        Region,
        Work, //
    },
    ulp_bindings as bindings, //
};
use kernel::{
    device::{
        Bound,
        Device as KernelDevice, //
    },
    dma::DataDirection,
    prelude::*,
    scatterlist::{
        Owned,
        SGTable, //
    }, //
};

/// Bytes of a scatterlist.
const LENGTH: u32 = 3 * kernel::page::PAGE_SIZE as u32;

/// A scatterlist of pages that are mapped for the device of `pair.at_there`.
struct List(Pin<KBox<SGTable<Owned<VVec<u8>>>>>);

impl List {
    fn new(pair: &Pair) -> Result<Self> {
        let device = pair.at_there.dma_device().ok_or(ENODEV)?;
        // SAFETY: Nobody removes the device during the test, and mlx5_core is bound to it.
        let device = unsafe { KernelDevice::<Bound>::from_raw(device.as_ptr()) };
        let memory = VVec::from_elem(7u8, LENGTH as usize, GFP_KERNEL)?;
        let table = SGTable::new(device, memory, DataDirection::Bidirectional, GFP_KERNEL);
        Ok(Self(KBox::pin_init(table, GFP_KERNEL)?))
    }

    /// Its first entry, and how many there are.
    fn entries(&self) -> (*mut bindings::scatterlist, u32) {
        let table: &SGTable = &self.0;
        let table = core::ptr::from_ref(table).cast::<kernel::bindings::sg_table>();
        // SAFETY: A `SGTable` is a `struct sg_table` and nothing else; it is not changed.
        unsafe { ((*table).sgl.cast(), (*table).nents) }
    }

    fn dma_address(&self) -> Result<u64> {
        Ok(self.0.iter().next().ok_or(EINVAL)?.dma_address())
    }
}

/// READs from the peer, and returns what has come.
fn read(pair: &Pair, remote_addr: u64, rkey: u32) -> Result<KVec<u8>> {
    let target = Region::new(&pair.at_here, pattern()?, Access::LOCAL_WRITE)?;
    let ranges = [target.range(0, LENGTH / 3)?, target.range(4096, 100)?];
    carry_out(&pair.here, Operation::Read, &ranges, (remote_addr, rkey))?;
    target.into_memory()
}

/// Posts one request and waits for it; `to` is address and key at the peer.
fn carry_out(
    queue: &Queue,
    operation: Operation<'_>,
    ranges: &[Range<'_>],
    to: (u64, u32),
) -> Result {
    let tally = Tally::new()?;
    queue.post(&[Work {
        request: &tally,
        operation,
        local: Local::Ranges(ranges),
        remote_addr: to.0,
        rkey: to.1,
        flags: Flags::LAST,
    }])?;
    tally.data().wait(1)
}

/// Whether all of `LENGTH / 3` bytes, and 100 more, are 7.
fn sevens(memory: &[u8]) -> bool {
    let (first, second) = (memory.get(..4096), memory.get(4096..4196));
    let all = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(|byte| *byte == 7));
    all(first) && all(second)
}

/// The end that reads: two ranges.
fn reader() -> QueueAttr {
    QueueAttr {
        max_sge: 2,
        ..QueueAttr::new(16)
    }
}

/// A region of a scatterlist, which a peer reads until it is destroyed.
pub(crate) fn list() -> Result {
    let pair = Pair::new(reader())?;
    let list = List::new(&pair)?;
    let (sgl, nents) = list.entries();
    // SAFETY: The list is mapped for this device, and is unmapped when it is dropped: behind `destroy`. If that fails,
    // the test does, too, and the device with it.
    let region = unsafe { ListRegion::new(&pair.at_there, sgl, nents, ALL)? };
    check!(sevens(&read(&pair, region.address(), region.key())?));
    let (address, key) = (region.address(), region.key());
    region.destroy()?;
    let refused = read(&pair, address, key).err();
    check!(refused.is_some_and(|e| e.to_errno() == -(kernel::bindings::EREMOTEIO as i32)));
    Ok(())
}

/// Fast registration: what is registered can be read, and is refused when it is invalidated.
pub(crate) fn registration() -> Result {
    // The peer registers, so his queue has room for that.
    let registrar = QueueAttr {
        registers: true,
        ..QueueAttr::new(4)
    };
    let pair = Pair::between(reader(), registrar)?;
    let list = List::new(&pair)?;
    let region = FastRegion::new(&pair.at_there, 3)?;
    let (sgl, nents) = list.entries();
    // SAFETY: The list is mapped for this device and dropped behind the region; nothing is in flight.
    unsafe { region.map(sgl, nents)? };
    // SAFETY: The region outlives the request, which `carry_out` waits for.
    let register = unsafe { region.register(ALL) };
    carry_out(&pair.there, register, &[], (0, 0))?;
    check!(sevens(&read(&pair, region.address(), region.key())?));
    let invalidate = Operation::Invalidate(region.key());
    carry_out(&pair.there, invalidate, &[], (0, 0))?;
    check!(read(&pair, region.address(), region.key()).is_err());
    region.destroy()
}

/// The key to all memory reaches what no region names.
pub(crate) fn global() -> Result {
    let pair = Pair::new(reader())?;
    let list = List::new(&pair)?;
    // SAFETY: Both ends are this module's, and what it reads is the list, by a page.
    let key = unsafe { pair.at_there.unsafe_global_key(Access::REMOTE_READ)? };
    let target = Region::new(&pair.at_here, pattern()?, Access::LOCAL_WRITE)?;
    let (ranges, from) = ([target.range(0, 4096)?], list.dma_address()?);
    carry_out(&pair.here, Operation::Read, &ranges, (from, key))?;
    let read = target.into_memory()?;
    check!(read.iter().take(4096).all(|byte| *byte == 7));
    Ok(())
}
