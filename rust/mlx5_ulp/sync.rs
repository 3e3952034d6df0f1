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

    #[inline(always)]
    unsafe fn assert_is_held(_ptr: *mut Self::State) {
        // Every guard asserts that when it is made. Without lock checking it is a call of nothing.
        #[cfg(CONFIG_LOCKDEP)]
        // SAFETY: The caller guarantees an initialized lock.
        unsafe {
            bindings::spin_assert_is_held(_ptr)
        }
    }
}

/// Interrupts of this CPU are off while it exists, and then as they were before.
///
/// A grace period of RCU waits for it: `synchronize_rcu()` returns only after every CPU had its
/// interrupts on.
pub(crate) struct InterruptsOff {
    #[cfg(CONFIG_X86_64)]
    flags: u64,
    #[cfg(not(CONFIG_X86_64))]
    _guard: kernel::sync::rcu::Guard,
    /// Bound to this CPU.
    _not_send: core::marker::PhantomData<*mut ()>,
}

impl InterruptsOff {
    /// Turns them off. Nests.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        #[cfg(CONFIG_X86_64)]
        let flags: u64;
        // SAFETY: What `local_irq_save()` does: the flags go to a register, then interrupts off. Not
        // `nostack`: the flags pass over the stack.
        #[cfg(CONFIG_X86_64)]
        unsafe {
            core::arch::asm!("pushfq", "pop {}", "cli", out(reg) flags)
        };
        Self {
            #[cfg(CONFIG_X86_64)]
            flags,
            #[cfg(not(CONFIG_X86_64))]
            _guard: kernel::sync::rcu::read_lock(),
            _not_send: core::marker::PhantomData,
        }
    }
}

impl Drop for InterruptsOff {
    #[inline(always)]
    fn drop(&mut self) {
        /// `X86_EFLAGS_IF`.
        #[cfg(CONFIG_X86_64)]
        const IF: u64 = 1 << 9;
        #[cfg(CONFIG_X86_64)]
        if self.flags & IF != 0 {
            // SAFETY: They were on when `new` turned them off on this CPU.
            unsafe { core::arch::asm!("sti") };
        }
    }
}
