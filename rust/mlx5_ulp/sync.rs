// SPDX-License-Identifier: GPL-2.0

//! A spin lock for data shared with interrupt handlers, cheap enough to post under.

use kernel::{
    bindings,
    ffi::c_ulong,
    sync::lock::{
        Backend,
        Guard,
        Lock, //
    },
};

/// A spin lock that saves and disables the interrupts of this CPU while it is held.
///
/// May be taken in any context, interrupts on or off, and nests.
/// [`kernel::sync::SpinLockIrq`] reaches `vmlinux` through a helper function and keeps a
/// per-CPU nesting count; this one is a direct call of what C's `spin_lock_irqsave()` is.
pub(crate) type IrqLock<T> = Lock<T, IrqSaveBackend>;

/// What [`IrqLock::lock`] returns; unlocks and restores the interrupt state when dropped.
#[expect(dead_code)]
pub(crate) type IrqGuard<'a, T> = Guard<'a, T, IrqSaveBackend>;

/// Creates the initializer of an [`IrqLock`] with its own lock class and name.
macro_rules! new_irq_lock {
    ($value:expr, $name:literal) => {
        $crate::sync::IrqLock::new($value, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;

/// `spinlock_t` taken with interrupts saved and disabled; the guard keeps the old state.
pub(crate) struct IrqSaveBackend;

/// The `raw_spinlock_t` inside: `spinlock_check()` of `<linux/spinlock.h>`.
#[inline(always)]
fn raw(lock: *mut bindings::spinlock_t) -> *mut bindings::raw_spinlock_t {
    // Without PREEMPT_RT a `spinlock_t` is a union that starts with it.
    lock.cast()
}

// SAFETY: The kernel's spin lock makes sure that one owner at a time exists, until `unlock`.
// `relock` is the default one and takes the same lock in the same way.
unsafe impl Backend for IrqSaveBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    #[inline]
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const kernel::ffi::c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: The caller guarantees that `ptr` is valid for writes and that `name` and `key`
        // stay valid.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline(always)]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller guarantees an initialized lock.
        unsafe { bindings::_raw_spin_lock_irqsave(raw(ptr)) }
    }

    #[inline(always)]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: The caller owns the lock, and `flags` is what `lock` returned for it.
        unsafe { bindings::_raw_spin_unlock_irqrestore(raw(ptr), *flags) }
    }

    #[inline]
    unsafe fn try_lock(_ptr: *mut Self::State) -> Option<Self::GuardState> {
        // Nobody needs it; failing is always a correct answer.
        None
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller guarantees an initialized lock.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
