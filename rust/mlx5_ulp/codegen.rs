// SPDX-License-Identifier: GPL-2.0

//! What the compiler is not to know, where it would make worse code of it.

use core::ptr::NonNull;

/// Called where the usual case does not come: keeps the compiler from computing both cases and then choosing,
/// which costs the usual one more than a branch. No instruction.
#[inline(always)]
pub(crate) fn unusual() {
    // SAFETY: An empty instruction sequence.
    unsafe { core::arch::asm!("", options(nomem, nostack, preserves_flags)) };
}

/// The same number, of which the compiler does not know what it is: in a loop it stays where it is in place of being
/// made anew each time. No instruction.
#[inline(always)]
pub(crate) fn in_register(mut number: u64) -> u64 {
    // SAFETY: An empty instruction sequence.
    unsafe {
        core::arch::asm!("/* {} */", inout(reg) number,
            options(pure, nomem, nostack, preserves_flags));
    }
    number
}

/// The same reference, of which the compiler does not know where it comes from: so it takes it for the base of
/// all that it refers to, in place of the base of something around it or of parts that were looked at before.
/// No instruction.
// The pointer goes through a register; nothing is read by it.
#[expect(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub(crate) fn opaque<T>(of: &T) -> &T {
    let mut place = core::ptr::from_ref(of);
    // SAFETY: An empty instruction sequence.
    unsafe {
        core::arch::asm!("/* {} */", inout(reg) place,
            options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: It is what it was.
    unsafe { &*place }
}

/// As [`opaque`], of a place that is not only read. No instruction.
// As there.
#[expect(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub(crate) fn opaque_place<T>(place: NonNull<T>) -> NonNull<T> {
    let mut place = place.as_ptr();
    // SAFETY: An empty instruction sequence.
    unsafe {
        core::arch::asm!("/* {} */", inout(reg) place,
            options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: It is what it was: not null.
    unsafe { NonNull::new_unchecked(place) }
}
