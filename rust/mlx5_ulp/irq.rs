// SPDX-License-Identifier: GPL-2.0

//! Interrupts and softirqs of this CPU: turned off, and whether they are.

#[cfg(CONFIG_X86_64)]
use kernel::ffi::c_ulong;

/// `local_irq_save()` and `local_irq_restore()`, inline.
#[cfg(all(CONFIG_X86_64, not(CONFIG_TRACE_IRQFLAGS)))]
pub(crate) mod interrupts {
    use kernel::ffi::c_ulong;

    /// `X86_EFLAGS_IF`: interrupts are on.
    const ON: c_ulong = 1 << 9;

    /// Turns them off on this CPU; returns the flags as they were.
    #[inline(always)]
    pub(crate) fn save() -> c_ulong {
        let flags: c_ulong;
        // SAFETY: The flags go to a register, then interrupts off. Not `nostack`: the flags pass over
        // the stack.
        unsafe { core::arch::asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        flags
    }

    /// Turns them on again if they were on in `flags`, which [`save`] returned on this CPU.
    #[inline(always)]
    pub(crate) fn restore(flags: c_ulong) {
        if flags & ON != 0 {
            // SAFETY: They were on when `save` turned them off on this CPU.
            unsafe { core::arch::asm!("sti") };
        }
    }
}

/// `local_irq_save()` and `local_irq_restore()`, where lockdep or a tracer has to hear of them.
#[cfg(all(CONFIG_X86_64, CONFIG_TRACE_IRQFLAGS))]
pub(crate) mod interrupts {
    use kernel::ffi::c_ulong;

    /// Turns them off on this CPU; returns the flags as they were.
    #[inline(always)]
    pub(crate) fn save() -> c_ulong {
        // SAFETY: Any context.
        unsafe { mlx5_ulp_bindings::mlx5_ulp_shim_irq_save() }
    }

    /// Turns them on again if they were on in `flags`, which [`save`] returned on this CPU.
    #[inline(always)]
    pub(crate) fn restore(flags: c_ulong) {
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
