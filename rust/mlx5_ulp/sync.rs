// SPDX-License-Identifier: GPL-2.0

//! A spin lock for data shared with interrupt handlers, cheap enough to post under.

use core::ptr::NonNull;
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
    use super::interrupts;
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

/// `local_irq_save()` and `local_irq_restore()`, inline.
#[cfg(all(CONFIG_X86_64, not(CONFIG_TRACE_IRQFLAGS)))]
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

/// `local_irq_save()` and `local_irq_restore()`, where lockdep or a tracer has to hear of them.
#[cfg(all(CONFIG_X86_64, CONFIG_TRACE_IRQFLAGS))]
mod interrupts {
    use kernel::ffi::c_ulong;

    /// Turns them off on this CPU; returns the flags as they were.
    #[inline(always)]
    pub(super) fn save() -> c_ulong {
        // SAFETY: Any context.
        unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_irq_save() }
    }

    /// Turns them on again if they were on in `flags`, which [`save`] returned on this CPU.
    #[inline(always)]
    pub(super) fn restore(flags: c_ulong) {
        // SAFETY: Undoes `save`.
        unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_irq_restore(flags) };
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

/// Whether softirqs are off on this CPU, as in a softirq or between `local_bh_disable()` and
/// `local_bh_enable()`: they stay so until whoever turned them off turns them on. May say no where they are.
#[inline(always)]
pub(crate) fn softirqs_are_off() -> bool {
    #[cfg(CONFIG_X86_64)]
    {
        /// `SOFTIRQ_MASK` of `<linux/preempt.h>`.
        const SOFTIRQS: u32 = 0xff00;

        let count: u32;
        // SAFETY: What `preempt_count()` does: reads a per-CPU word, whose bits of softirqs do not change
        // when the task moves to another CPU, because it does not while they are set.
        unsafe {
            core::arch::asm!("mov {:e}, dword ptr gs:[rip + __preempt_count]", out(reg) count,
                options(nostack, preserves_flags, readonly))
        };
        count & SOFTIRQS != 0
    }
    #[cfg(not(CONFIG_X86_64))]
    false
}
