// SPDX-License-Identifier: GPL-2.0

//! Hardware contexts without interrupts: whoever waits for a request of theirs looks for its end (`REQ_POLLED`).
//!
//! A flush has to be heard of on those as well, and whoever waits for a flush does not look there. So as long as one has
//! a READ on its way through such a queue, a work item looks.

use crate::{
    disk::Core,
    work_item::{
        Work,
        WorkItem, //
    }, //
};
use core::{
    mem::offset_of,
    sync::atomic::{
        AtomicU32,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// Most completion entries of one look.
pub(crate) const BUDGET: u32 = 64;
/// Between two looks of the work item that find nothing.
const PAUSE: Delta = Delta::from_micros(20);

/// The flushes that the work item looks for.
#[pin_data]
pub(crate) struct Lookout {
    flushes: AtomicU32,
    #[pin]
    item: WorkItem,
}

impl Lookout {
    /// # Safety
    ///
    /// It must be [`Core::lookout`], and [`Lookout::end`] be called before that is dropped.
    pub(crate) unsafe fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            flushes: AtomicU32::new(0),
            // SAFETY: By contract at the offset that `Work` for `Core` tells.
            item <- unsafe { WorkItem::new::<Core>() },
        })
    }

    /// A flush is about to be sent through queues without interrupts. Any context.
    pub(crate) fn expect(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// It was sent, and may have ended.
    pub(crate) fn look(&self) {
        self.item.queue();
    }

    /// It has ended.
    pub(crate) fn ended(&self) {
        self.flushes.fetch_sub(1, Release);
    }

    /// Nobody looks any more when this returns. No flush is under way. Sleeps.
    pub(crate) fn end(&self) {
        self.item.disable();
    }
}

impl Work for Core {
    const ITEM: usize = offset_of!(Core, lookout) + offset_of!(Lookout, item);

    fn work(&self) {
        // As many queues as there are, and no more than one look at each, between two questions whether to go on.
        while self.lookout.flushes.load(Acquire) != 0 {
            let taken = self
                .channels()
                .iter()
                .fold(0, |taken, channel| taken | channel.poll(BUDGET));
            if taken == 0 {
                fsleep(PAUSE);
            }
        }
    }
}
