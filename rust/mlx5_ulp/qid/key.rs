// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The two keys of a queue, and the word that holds both.

use core::fmt;

/// Largest function number. One above it marks slots without a queue.
pub const MAX_VF_ID: u8 = 0xfe;

/// Largest local queue number; one above the largest QPN. 24 bits.
pub const MAX_NUMBER: u32 = 0xff_ffff;

/// Function number of a slot without a queue; no key has it.
const NO_FUNCTION: u8 = 0xff;

/// The names in a slot without a queue.
const NO_QUEUE: u64 = (MAX_NUMBER as u64) << 40 | NO_FUNCTION as u64;

/// A consumer's name of a queue: `local_qid << 8 | vf_id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Name(u32);

impl Name {
    /// `vf_id` is 0 for the physical function, at most [`MAX_VF_ID`]; `local_qid` at most
    /// [`MAX_NUMBER`]. `None` outside.
    pub const fn new(vf_id: u8, local_qid: u32) -> Option<Name> {
        if vf_id > MAX_VF_ID || local_qid > MAX_NUMBER {
            return None;
        }
        Some(Name(local_qid << 8 | vf_id as u32))
    }

    /// The name that a consumer has put together himself. What is out of range finds no queue.
    #[inline(always)]
    pub const fn from_raw(raw: u32) -> Name {
        Name(raw)
    }

    /// The function.
    pub const fn vf_id(self) -> u8 {
        self.0 as u8
    }

    /// The consumer's number.
    pub const fn local_qid(self) -> u32 {
        self.0 >> 8
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.vf_id(), self.local_qid())
    }
}

/// The device's name of a queue: its QPN. A table is that of one function, which numbers for itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Number(u32);

impl Number {
    /// `qpn` is below [`MAX_NUMBER`], the number of multicast, which no queue has. `None` outside.
    pub const fn new(qpn: u32) -> Option<Number> {
        if qpn >= MAX_NUMBER {
            return None;
        }
        Some(Number(qpn))
    }

    /// The QPN.
    pub const fn qpn(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a slot holds, in one word: function in bits 7:0, local queue number in 31:8, generation in 39:32,
/// QPN in 63:40.
///
/// So the name is the low half and the number the top: one comparison each. A slot without a queue has a
/// function and a QPN that no key has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Entry(pub(super) u64);

impl Entry {
    /// A queue.
    pub(super) const fn new(name: Name, qpn: u32, generation: u8) -> Entry {
        let qpn = (qpn & MAX_NUMBER) as u64;
        Entry(qpn << 40 | (generation as u64) << 32 | name.0 as u64)
    }

    /// No queue; the slot may be taken.
    pub(super) const fn free(generation: u8) -> Entry {
        Entry(NO_QUEUE | (generation as u64) << 32)
    }

    /// No queue; the slot must not be taken yet.
    pub(super) const fn retired(generation: u8) -> Entry {
        Entry(NO_QUEUE | (generation as u64) << 32 | 1 << 8)
    }

    /// Whether there is a queue.
    pub(super) const fn is_live(self) -> bool {
        self.0 as u8 != NO_FUNCTION
    }

    /// Whether the slot may be taken.
    pub(super) const fn is_free(self) -> bool {
        self.0 as u32 == NO_FUNCTION as u32
    }

    /// The function.
    #[inline(always)]
    pub const fn vf_id(self) -> u8 {
        self.0 as u8
    }

    /// The consumer's name.
    #[inline(always)]
    pub const fn name(self) -> Name {
        Name(self.0 as u32)
    }

    /// The device's name.
    #[inline(always)]
    pub const fn number(self) -> Number {
        Number((self.0 >> 40) as u32)
    }

    /// The QPN, 24 bits.
    #[inline(always)]
    pub const fn qpn(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Counts how often the slot was taken, modulo 256.
    #[inline(always)]
    pub const fn generation(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, qpn, generation) = (self.name(), self.qpn(), self.generation());
        write!(f, "{name:?} qpn {qpn:#x} generation {generation}")
    }
}

/// A queue that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Its slot, below the capacity of the table. The owner of the queues keeps them in an array by slot.
    pub slot: u32,
    /// Its names as they stood there.
    pub entry: Entry,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Name {}
    impl Sealed for super::Number {}
}

/// A key of 32 bits by which a queue is found: [`Name`] or [`Number`].
pub trait Key: Copy + PartialEq + fmt::Debug + sealed::Sealed {
    /// Whether it comes from the device.
    const FROM_DEVICE: bool;

    /// The key as a number. Never all ones.
    fn raw(self) -> u32;

    /// The key of this kind that `entry` holds.
    fn of(entry: Entry) -> Self;

    /// A multiplier that puts the number, plus `157 * vf_id` of a [`Name`], into the top `bits` bits of
    /// the product with [`Key::raw`]; `bits` is 3..=16.
    ///
    /// Numbers are mostly consecutive, so consecutive numbers get places of their own: up to a whole
    /// cache of them without one collision. The functions of a device start at distances near the
    /// golden ratio of 256, so few queues on each of many functions spread as well. Bits of the number
    /// above those used shift the place a little, against strides of a power of two.
    fn multiplier(bits: u32) -> u32;
}

/// Odd, close to 256 divided by the golden ratio.
const SPREAD: u32 = 157;

impl Key for Name {
    const FROM_DEVICE: bool = false;

    #[inline(always)]
    fn raw(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn of(entry: Entry) -> Name {
        entry.name()
    }

    #[inline(always)]
    fn multiplier(bits: u32) -> u32 {
        // The name's number stands in bits 31:8, its function in 7:0.
        let top = 32 - bits;
        (SPREAD << top) | (1 << (top - 8)) | (1 << (top - 8) >> 8)
    }
}

impl Key for Number {
    const FROM_DEVICE: bool = true;

    #[inline(always)]
    fn raw(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn of(entry: Entry) -> Number {
        entry.number()
    }

    #[inline(always)]
    fn multiplier(bits: u32) -> u32 {
        let top = 32 - bits;
        (1 << top) | (1 << top >> 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert!(Name::new(MAX_VF_ID, MAX_NUMBER).is_some());
        assert!(Name::new(0xff, 0).is_none());
        assert!(Name::new(0, 1 << 24).is_none());
        assert!(Number::new(MAX_NUMBER - 1).is_some());
        assert!(Number::new(MAX_NUMBER).is_none());
    }

    #[test]
    fn the_name_is_the_published_key() {
        let name = Name::new(3, 0x12_3456).unwrap();
        assert_eq!(name.raw(), 0x12_3456 << 8 | 3);
    }

    #[test]
    fn a_word_holds_both_names() {
        for (vf, qid, qpn) in [(0, 0, 0), (0xfe, 0xff_ffff, 0xff_fffe), (7, 5, 0xab_cdef)] {
            let name = Name::new(vf, qid).unwrap();
            let e = Entry::new(name, qpn, 0xa5);
            assert!(e.is_live() && !e.is_free());
            assert_eq!((e.name(), e.qpn(), e.generation()), (name, qpn, 0xa5));
            assert_eq!(e.number(), Number::new(qpn).unwrap());
            assert_eq!(e.number().qpn(), qpn);
            assert_eq!((e.name().vf_id(), e.name().local_qid()), (vf, qid));
        }
    }

    #[test]
    fn a_slot_without_queue_matches_no_key() {
        for e in [Entry::free(9), Entry::retired(9)] {
            assert!(!e.is_live());
            assert_eq!(e.generation(), 9);
            assert!(e.name().vf_id() > MAX_VF_ID);
            assert!(Number::new(e.number().qpn()).is_none());
        }
        assert!(Entry::free(0).is_free() && !Entry::retired(0).is_free());
    }

    fn places<K: Key>(keys: impl Iterator<Item = K>, bits: u32) -> Vec<u32> {
        let mut used = vec![0; 1 << bits];
        for key in keys {
            used[(key.raw().wrapping_mul(K::multiplier(bits)) >> (32 - bits)) as usize] += 1;
        }
        used
    }

    #[test]
    fn consecutive_numbers_get_places_of_their_own() {
        for bits in [3, 8, 10, 16] {
            let n = 1u32 << bits.min(8);
            let names = places((0..n).filter_map(|q| Name::new(0, q)), bits);
            assert!(names.iter().all(|&n| n <= 1), "{bits} bits");
            // Elsewhere the shift by the bits above may fall into the row, once.
            let shared = |places: Vec<u32>| places.iter().filter(|&&n| n > 1).count();
            let names = places((0..n).filter_map(|q| Name::new(2, 77 + q)), bits);
            assert!(shared(names) <= 1, "{bits} bits");
            let numbers = places((0..n).filter_map(|q| Number::new(0x123 + q)), bits);
            assert!(shared(numbers) <= 1, "{bits} bits");
        }
    }

    #[test]
    fn strides_of_a_power_of_two_do_not_share_one_line() {
        let lines = |places: Vec<u32>| {
            places
                .chunks(8)
                .filter(|l| l.iter().any(|&n| n > 0))
                .count()
        };
        let names = places((0..64).filter_map(|q| Name::new(0, q * 256)), 8);
        assert!(lines(names) >= 8);
        let numbers = places((0..64).filter_map(|q| Number::new(q * 256)), 8);
        assert!(lines(numbers) >= 8);
    }

    #[test]
    fn several_functions_spread() {
        // As many queues as places, in several shapes: at least four of five find room in their line.
        fn room(places: &[u32]) -> u32 {
            places.chunks(8).map(|l| l.iter().sum::<u32>().min(8)).sum()
        }
        for functions in [2u8, 4, 8, 16, 32, 64] {
            let each = 256 / u32::from(functions);
            let all = || (0..functions).flat_map(move |vf| (0..each).map(move |q| (vf, q)));
            let names = places(all().filter_map(|(vf, q)| Name::new(vf, q)), 8);
            assert!(room(&names) >= 205, "{functions}: {}", room(&names));
        }
    }
}
