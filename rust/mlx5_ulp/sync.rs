// SPDX-License-Identifier: GPL-2.0

//! A spin lock for data shared with interrupt handlers, cheap enough to post under.

use crate::codegen::opaque;
use kernel::{
    bindings,
    error::to_result,
    ffi::c_ulong,
    prelude::*,
    sync::lock::{
        Backend,
        Lock, //
    },
    types::Opaque, //
};

/// A spin lock that saves and disables the interrupts of this CPU while it is held.
///
/// May be taken in any context, interrupts on or off, and nests.
/// [`kernel::sync::SpinLockIrq`] reaches `vmlinux` through a helper function and keeps a
/// per-CPU nesting count; this one is what C's `spin_lock_irqsave()` is, inline.
pub(crate) type IrqLock<T> = Lock<T, IrqSaveBackend>;

/// Finds out how to unlock here. Before any lock is taken.
///
/// # Errors
///
/// `EOPNOTSUPP` where what is written out in this file does not do.
pub(crate) fn prepare() -> Result {
    // SAFETY: Process context, once.
    to_result(unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_prepare_locks() })
}

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
    not(CONFIG_DEBUG_SPINLOCK),
    not(CONFIG_DEBUG_LOCK_ALLOC),
))]
mod irq_spin {
    use crate::irq::interrupts;
    use core::sync::atomic::{
        AtomicU32,
        AtomicU8,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    };
    use kernel::{
        bindings,
        ffi::c_ulong,
        jump_label::static_branch_unlikely, //
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
    /// An initialized lock.
    #[inline(always)]
    pub(super) unsafe fn try_lock(ptr: *mut bindings::spinlock_t) -> Option<c_ulong> {
        let flags = interrupts::save();
        // SAFETY: As in `lock`.
        let word = unsafe { AtomicU32::from_ptr(ptr.cast()) };
        if word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            interrupts::restore(flags);
            return None;
        }
        Some(flags)
    }

    /// # Safety
    ///
    /// The caller owns the lock, and [`lock`] returned `flags` for it.
    #[inline(always)]
    pub(super) unsafe fn unlock(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        if is_native() {
            // SAFETY: Guaranteed by the caller.
            unsafe { unlock_native(ptr, flags) };
        } else {
            // SAFETY: Guaranteed by the caller.
            unsafe { unlock_paravirtual(ptr, flags) };
        }
    }

    /// Whether unlocking is one store, and no hypervisor has to hear of it.
    #[inline(always)]
    pub(super) fn is_native() -> bool {
        // SAFETY: A static key may be looked at by anyone.
        !unsafe {
            static_branch_unlikely!(
                mlx5_ulp_bindings::mlx5_ulp_paravirtual_key,
                mlx5_ulp_bindings::mlx5_ulp_static_key,
                key
            )
        }
    }

    /// # Safety
    ///
    /// As [`unlock`], and [`is_native`].
    #[inline(always)]
    pub(super) unsafe fn unlock_native(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        // SAFETY: As in `lock`; the owner's byte is the first one, and only the owner changes it:
        // `native_queued_spin_unlock()`.
        unsafe { AtomicU8::from_ptr(ptr.cast()) }.store(0, Release);
        interrupts::restore(flags);
    }

    /// # Safety
    ///
    /// As [`unlock`].
    #[inline(always)]
    pub(super) unsafe fn unlock_paravirtual(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        // SAFETY: Guaranteed by the caller.
        unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_spin_release(ptr, flags) };
    }
}

#[cfg(not(all(
    CONFIG_X86_64,
    CONFIG_QUEUED_SPINLOCKS,
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
        // Without PREEMPT_RT, for which this is not built, a `spinlock_t` is a union that starts with it.
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

    /// Waits: only in configurations that are not made for speed.
    ///
    /// # Safety
    ///
    /// An initialized lock.
    #[inline(always)]
    pub(super) unsafe fn try_lock(ptr: *mut bindings::spinlock_t) -> Option<c_ulong> {
        // SAFETY: The caller guarantees an initialized lock.
        Some(unsafe { lock(ptr) })
    }

    /// # Safety
    ///
    /// The caller owns the lock, and [`lock`] returned `flags` for it.
    #[inline(always)]
    pub(super) unsafe fn unlock(ptr: *mut bindings::spinlock_t, flags: c_ulong) {
        // SAFETY: Guaranteed by the caller.
        unsafe { bindings::_raw_spin_unlock_irqrestore(raw(ptr), flags) }
    }

    /// There is one way only.
    #[inline(always)]
    pub(super) fn is_native() -> bool {
        true
    }

    pub(super) use unlock as unlock_native;
    pub(super) use unlock as unlock_paravirtual;
}

/// A lock like [`IrqLock`], for who keeps the interrupt state by himself: it fits into a register.
#[pin_data]
pub(crate) struct RawIrqLock {
    #[pin]
    raw: Opaque<bindings::spinlock_t>,
}

// SAFETY: A lock is there to be shared.
unsafe impl Sync for RawIrqLock {}
// SAFETY: Nobody holds it while it moves.
unsafe impl Send for RawIrqLock {}

impl RawIrqLock {
    /// A free one.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|raw| {
                // SAFETY: A valid place for a lock.
                unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_lock_init(raw) }
            }),
        })
    }

    /// Takes it. Returns the interrupt state, for [`RawIrqLock::unlock`].
    #[inline(always)]
    pub(crate) fn lock(&self) -> c_ulong {
        // SAFETY: Initialized by `new`.
        unsafe { irq_spin::lock(self.raw.get()) }
    }

    /// Takes it if nobody has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<c_ulong> {
        // SAFETY: Initialized by `new`.
        unsafe { irq_spin::try_lock(self.raw.get()) }
    }

    /// Gives the lock of `owner` back where that is one store, and returns `well`; leaves both to `otherwise`
    /// elsewhere.
    ///
    /// # Safety
    ///
    /// The caller has it, and these are the `flags` that taking it has returned.
    #[inline(always)]
    pub(crate) unsafe fn unlock_else<T, R>(
        owner: &T,
        lock: impl Fn(&T) -> &Self,
        flags: c_ulong,
        otherwise: impl FnOnce() -> R,
        well: R,
    ) -> R {
        if !irq_spin::is_native() {
            return otherwise();
        }
        // SAFETY: Guaranteed by the caller.
        unsafe { irq_spin::unlock_native(lock(owner).raw.get(), flags) };
        well
    }

    /// Gives the lock of `owner` back.
    ///
    /// # Safety
    ///
    /// The caller has it, and these are the `flags` that taking it has returned.
    #[inline(always)]
    pub(crate) unsafe fn unlock<T>(owner: &T, lock: impl Fn(&T) -> &Self, flags: c_ulong) {
        let otherwise = || {
            // Found anew: the usual case does not need the place of the lock in a register.
            // SAFETY: Guaranteed by the caller.
            unsafe { irq_spin::unlock_paravirtual(lock(opaque(owner)).raw.get(), flags) };
        };
        // SAFETY: Guaranteed by the caller.
        unsafe { Self::unlock_else(owner, &lock, flags, otherwise, ()) };
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
