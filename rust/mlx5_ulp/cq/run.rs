// SPDX-License-Identifier: GPL-2.0

//! Completion entries that come as expected.
//!
//! Mostly requests are WQEs of one block each, all signaled, and each is reported by an entry of its own:
//! then every entry says the same as the one before, with the next block. Such entries are taken by two
//! comparisons: of the entry with what it should say, and of the mark of its WQE with what it should be.
//! Anything else is for the general way, which tells what to expect from there on.
//!
//! The places of entries, marks and cookies are known as far as none of the three rings comes to its end,
//! and there the general way takes over, too.

use super::cqe;
use crate::{
    codegen::in_register,
    hw::{
        barrier,
        cq::CqCore, //
    },
    queue::in_flight::{
        Cookie,
        Mark,
        View, //
    },
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::Ordering::Relaxed, //
};

/// What the next entries should be.
///
/// # Invariants
///
/// As long as the queue's rings and tables exist, `place` is where the last eight bytes of an entry are,
/// `mark` is a mark and `cookie` a cookie, and each is followed by `left - 1` more.
pub(super) struct Run {
    place: NonNull<u64>,
    mark: NonNull<Mark>,
    cookie: NonNull<Cookie>,
    /// What the entry should say, as a number.
    tail: u64,
    /// What the mark should be.
    expected: u64,
    left: u32,
}

// SAFETY: The places are shared memory that outlives the use of a `Run`.
unsafe impl Send for Run {}

impl Run {
    /// Nothing is expected.
    pub(super) const fn none() -> Self {
        // INVARIANT: None is left.
        Self {
            place: NonNull::dangling(),
            mark: NonNull::dangling(),
            cookie: NonNull::dangling(),
            tail: 0,
            expected: 0,
            left: 0,
        }
    }

    /// The entry at consumer counter `consumer` should be about the WQE at block `counter` of `qpn`, which
    /// carries request `retired` alone; and so on.
    pub(super) fn new(
        ring: &CqCore,
        requests: &View<'_>,
        qpn: u32,
        consumer: u32,
        counter: u16,
        retired: u32,
    ) -> Self {
        let (cookies, marks) = requests.from(retired, counter);
        let entries = 1u32 << (ring.log_entries() & 31);
        let index = consumer & entries.wrapping_sub(1);
        let left = (cookies.len() as u32)
            .min(marks.len() as u32)
            .min(entries.wrapping_sub(index));
        // INVARIANT: So many are left of the two tables and of the entries.
        // SAFETY: `index` is below the number of entries, of which each has so many bytes.
        let place = unsafe {
            ring.base()
                .add(index as usize * cqe::SIZE + cqe::TAIL)
                .cast()
        };
        Self {
            place,
            mark: NonNull::from(marks).cast(),
            cookie: NonNull::from(cookies).cast(),
            tail: cqe::plain(qpn, counter, consumer, ring.log_entries()),
            expected: Mark::word(counter.into(), retired, 1),
            left,
        }
    }

    /// Entries that are left.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// If the next entry is there and as expected, takes it, and tells the cookie of its request. There must
    /// be a request in flight.
    #[inline(always)]
    pub(super) fn take_one(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        // SAFETY: By the type invariant they are there.
        let (mark, cookie) = unsafe { (self.mark.as_ref(), self.cookie.as_ref()) };
        // SAFETY: As above. The device may write it at any time.
        let said = u64::from_be(unsafe { self.place.read_volatile() });
        if (said ^ self.tail) & cqe::PLAIN_MASK != 0 || mark.get() != self.expected {
            return None;
        }
        // Nothing that the device did before it wrote the entry may be read before that.
        barrier::dma_rmb();
        let cookie = cookie.load(Relaxed);
        // INVARIANT: On to the next of each, or behind the last.
        // SAFETY: As above.
        unsafe {
            self.place = self.place.byte_add(cqe::SIZE);
            self.mark = self.mark.add(1);
            self.cookie = self.cookie.add(1);
        }
        // The counter wraps with the ring only, where nothing is left.
        self.tail = self.tail.wrapping_add(cqe::PLAIN_STEP);
        self.expected = Mark::next(self.expected);
        self.left = self.left.wrapping_sub(1);
        Some(cookie)
    }

    /// As [`Run::take_one`], as many as are there, up to `most` and to what fits into `cookies`. Returns how
    /// many. At least `most` requests must be in flight.
    #[inline(always)]
    pub(super) fn take<const N: usize>(
        &mut self,
        most: u32,
        cookies: &mut [MaybeUninit<usize>; N],
    ) -> u32 {
        let most = most.min(self.left).min(N as u32);
        let (mut tail, mut expected) = (self.tail, self.expected);
        // Constants that are too long for an instruction.
        let (mask, step) = (in_register(cqe::PLAIN_MASK), in_register(Mark::next(0)));
        // All three in words of 8 bytes, an entry being 8 of these.
        let mut at = 0;
        while at != most as usize {
            // SAFETY: By the type invariant they are there.
            let (place, mark, cookie) = unsafe {
                (
                    self.place.add(at.wrapping_mul(cqe::SIZE / 8)),
                    self.mark.add(at).as_ref(),
                    self.cookie.add(at).as_ref(),
                )
            };
            // SAFETY: As above. The device may write it at any time.
            let said = u64::from_be(unsafe { place.read_volatile() });
            if (said ^ tail) & mask != 0 || mark.get() != expected {
                break;
            }
            // SAFETY: `most` is at most `N`.
            unsafe { cookies.get_unchecked_mut(at) }.write(cookie.load(Relaxed));
            tail = tail.wrapping_add(cqe::PLAIN_STEP);
            expected = expected.wrapping_add(step);
            at = at.wrapping_add(1);
        }
        // As in `take_one`.
        barrier::dma_rmb();
        // INVARIANT: On by as many, which were there.
        // SAFETY: As above.
        unsafe {
            self.place = self.place.add(at.wrapping_mul(cqe::SIZE / 8));
            self.mark = self.mark.add(at);
            self.cookie = self.cookie.add(at);
        }
        (self.tail, self.expected) = (tail, expected);
        self.left = self.left.wrapping_sub(at as u32);
        at as u32
    }
}

const _: () = assert!(size_of::<Mark>() == 8 && size_of::<Cookie>() == 8);
