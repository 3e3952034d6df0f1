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
/// per-CPU nesting count; this one is what C's `spin_lock_irqsave()` is, inline.
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

/// `_raw_spin_lock_irqsave()` and `_raw_spin_unlock_irqrestore()`, inline as far as nobody contends.
///
/// With interrupts off nothing preempts the owner, so the preemption count is left alone.
#[cfg(all(
    CONFIG_X86_64,
    CONFIG_QUEUED_SPINLOCKS,
    not(CONFIG_PREEMPT_RT),
    not(CONFIG_DEBUG_SPINLOCK),
    not(CONFIG_DEBUG_LOCK_ALLOC),
))]
mod irq_spin {
    use super::interrupts;
    use core::sync::atomic::{
        AtomicU32,
        Ordering::{
            Acquire,
            Relaxed, //
        }, //
    };
    use kernel::{
        bindings,
        ffi::c_ulong, //
    };

    /// The value of a lock that has an owner and nobody waiting: `_Q_LOCKED_VAL` of
    /// `<asm-generic/qspinlock_types.h>`.
    const LOCKED: u32 = 1;

    /// # Safety
    ///
    /// An initialized lock.
    #[inline(always)]
    pub(super) unsafe fn lock(ptr: *mut bindings::spinlock_t) -> c_ulong {
        let flags = interrupts::save();
        // SAFETY: An initialized lock by the caller's word. Without debugging a `spinlock_t` is the
        // `qspinlock`, an `atomic_t` that everybody accesses atomically.
        let word = unsafe { AtomicU32::from_ptr(ptr.cast()) };
        if word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            // SAFETY: An initialized lock by the caller's word.
            unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_spin_wait(ptr) };
        }
        flags
    }

    /// # Safety
    ///
    /// The caller owns the lock, and [`lock`] returned `flags` for it.
    #[inline(always)]
    pub(super) unsafe fn unlock(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        // A call: under a hypervisor there is more to it than one store, and the kernel patches that.
        // SAFETY: The caller owns the lock.
        unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_spin_release(ptr) };
        interrupts::restore(flags);
    }
}

#[cfg(not(all(
    CONFIG_X86_64,
    CONFIG_QUEUED_SPINLOCKS,
    not(CONFIG_PREEMPT_RT),
    not(CONFIG_DEBUG_SPINLOCK),
    not(CONFIG_DEBUG_LOCK_ALLOC),
)))]
mod irq_spin {
    use kernel::{
        bindings,
        ffi::c_ulong, //
    };

    /// The `raw_spinlock_t` inside: `spinlock_check()` of `<linux/spinlock.h>`.
    #[inline(always)]
    fn raw(lock: *mut bindings::spinlock_t) -> *mut bindings::raw_spinlock_t {
        // Without PREEMPT_RT a `spinlock_t` is a union that starts with it.
        lock.cast()
    }

    /// # Safety
    ///
    /// An initialized lock.
    #[inline(always)]
    pub(super) unsafe fn lock(ptr: *mut bindings::spinlock_t) -> c_ulong {
        // SAFETY: The caller guarantees an initialized lock.
        unsafe { bindings::_raw_spin_lock_irqsave(raw(ptr)) }
    }

    /// # Safety
    ///
    /// The caller owns the lock, and [`lock`] returned `flags` for it.
    #[inline(always)]
    pub(super) unsafe fn unlock(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        // SAFETY: Guaranteed by the caller.
        unsafe { bindings::_raw_spin_unlock_irqrestore(raw(ptr), flags) }
    }
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
        unsafe { irq_spin::lock(ptr) }
    }

    #[inline(always)]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: The caller owns the lock, and `flags` is what `lock` returned for it.
        unsafe { irq_spin::unlock(ptr, *flags) }
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

/// `local_irq_save()` and `local_irq_restore()`, inline.
#[cfg(CONFIG_X86_64)]
mod interrupts {
    use kernel::ffi::c_ulong;

    /// `X86_EFLAGS_IF`: interrupts are on.
    const ON: c_ulong = 1 << 9;

    /// Turns them off on this CPU; returns the flags as they were.
    #[inline(always)]
    pub(super) fn save() -> c_ulong {
        let flags: c_ulong;
        // SAFETY: The flags go to a register, then interrupts off. Not `nostack`: the flags pass over
        // the stack.
        unsafe { core::arch::asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        flags
    }

    /// Turns them on again if they were on in `flags`, which [`save`] returned on this CPU.
    #[inline(always)]
    pub(super) fn restore(flags: c_ulong) {
        if flags & ON != 0 {
            // SAFETY: They were on when `save` turned them off on this CPU.
            unsafe { core::arch::asm!("sti") };
        }
    }
}

/// Interrupts of this CPU are off while it exists, and then as they were before.
///
/// A grace period of RCU waits for it: `synchronize_rcu()` returns only after every CPU had its
/// interrupts on.
pub(crate) struct InterruptsOff {
    #[cfg(CONFIG_X86_64)]
    flags: c_ulong,
    #[cfg(not(CONFIG_X86_64))]
    _guard: kernel::sync::rcu::Guard,
    /// Bound to this CPU.
    _not_send: core::marker::PhantomData<*mut ()>,
}

impl InterruptsOff {
    /// Turns them off. Nests.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(CONFIG_X86_64)]
            flags: interrupts::save(),
            #[cfg(not(CONFIG_X86_64))]
            _guard: kernel::sync::rcu::read_lock(),
            _not_send: core::marker::PhantomData,
        }
    }
}

impl Drop for InterruptsOff {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(CONFIG_X86_64)]
        interrupts::restore(self.flags);
    }
}
