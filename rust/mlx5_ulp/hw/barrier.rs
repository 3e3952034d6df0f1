// SPDX-License-Identifier: GPL-2.0

//! Barriers and register writes of the data path, inline.
//!
//! The kernel crate has them as calls of helper functions in `vmlinux`. On x86 they are one
//! instruction or none, so they are written out here; any other architecture takes the
//! kernel crate's.

use crate::wqe::BLOCK_WORDS;

/// Orders writes to coherent memory: what was written before is seen by the device before
/// what is written after (`dma_wmb()`).
#[inline(always)]
pub(crate) fn dma_wmb() {
    #[cfg(CONFIG_X86_64)]
    // x86 keeps stores to write-back memory in order; only the compiler has to.
    // SAFETY: An empty instruction sequence.
    unsafe {
        core::arch::asm!("", options(nostack, preserves_flags))
    };
    #[cfg(not(CONFIG_X86_64))]
    kernel::sync::barrier::dma_mb(kernel::sync::barrier::Write);
}

/// Orders reads of coherent memory: what is read after is not older than what was read
/// before (`dma_rmb()`).
#[inline(always)]
pub(crate) fn dma_rmb() {
    #[cfg(CONFIG_X86_64)]
    // x86 keeps loads in order; only the compiler has to.
    // SAFETY: An empty instruction sequence.
    unsafe {
        core::arch::asm!("", options(nostack, preserves_flags))
    };
    #[cfg(not(CONFIG_X86_64))]
    kernel::sync::barrier::dma_mb(kernel::sync::barrier::Read);
}

/// Orders writes to memory before writes to registers, and flushes write-combining buffers
/// (`wmb()`).
#[inline(always)]
pub(crate) fn wmb() {
    #[cfg(CONFIG_X86_64)]
    // SAFETY: `sfence` only orders stores.
    unsafe {
        core::arch::asm!("sfence", options(nostack, preserves_flags))
    };
    #[cfg(not(CONFIG_X86_64))]
    kernel::sync::barrier::mb(kernel::sync::barrier::Write);
}

/// Orders everything before against everything after, on all CPUs (`smp_mb()`).
#[inline(always)]
pub(crate) fn smp_mb() {
    #[cfg(CONFIG_X86_64)]
    // As in C: on most CPUs cheaper than `mfence`, and as good for write-back memory.
    // SAFETY: Leaves the word on the stack as it is. A locked instruction is a full barrier.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0")
    };
    #[cfg(not(CONFIG_X86_64))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// Writes 8 bytes to a register in one access, in memory order (`__raw_writeq()`).
///
/// # Safety
///
/// `register` must be a mapped device register, aligned to 8 bytes.
#[inline(always)]
pub(crate) unsafe fn write64(register: *mut u64, value: u64) {
    #[cfg(CONFIG_X86_64)]
    // An operand in assembler so that the compiler can neither split it nor turn it into an
    // instruction that a device mapping cannot take.
    // SAFETY: The caller guarantees a mapped, aligned register.
    unsafe {
        core::arch::asm!("mov qword ptr [{}], {}", in(reg) register, in(reg) value,
            options(nostack, preserves_flags))
    };
    #[cfg(not(CONFIG_X86_64))]
    // SAFETY: The caller guarantees a mapped, aligned register.
    unsafe {
        register.write_volatile(value)
    };
}

/// Writes a basic block to a register in accesses of 8 bytes, in the order of their addresses.
///
/// # Safety
///
/// `register` must be 64 bytes of a mapped device register, aligned to 8.
#[inline(always)]
pub(crate) unsafe fn write_block(register: *mut u64, block: &[u64; BLOCK_WORDS]) {
    #[cfg(CONFIG_X86_64)]
    // In assembler for the reasons of `write64`.
    // SAFETY: The caller guarantees the register, the reference the block.
    unsafe {
        core::arch::asm!(
            "mov {word}, qword ptr [{block}]",
            "mov qword ptr [{register}], {word}",
            "mov {word}, qword ptr [{block} + 8]",
            "mov qword ptr [{register} + 8], {word}",
            "mov {word}, qword ptr [{block} + 16]",
            "mov qword ptr [{register} + 16], {word}",
            "mov {word}, qword ptr [{block} + 24]",
            "mov qword ptr [{register} + 24], {word}",
            "mov {word}, qword ptr [{block} + 32]",
            "mov qword ptr [{register} + 32], {word}",
            "mov {word}, qword ptr [{block} + 40]",
            "mov qword ptr [{register} + 40], {word}",
            "mov {word}, qword ptr [{block} + 48]",
            "mov qword ptr [{register} + 48], {word}",
            "mov {word}, qword ptr [{block} + 56]",
            "mov qword ptr [{register} + 56], {word}",
            word = out(reg) _,
            block = in(reg) block.as_ptr(),
            register = in(reg) register,
            options(nostack, preserves_flags)
        )
    };
    #[cfg(not(CONFIG_X86_64))]
    for (at, &word) in block.iter().enumerate() {
        // SAFETY: The caller guarantees so many words.
        unsafe { write64(register.add(at), word) };
    }
}

/// Asks the CPU for the cache line at `place`, to write to it soon. Only a hint: nothing is written, and
/// any address will do.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(place: *const T) {
    #[cfg(CONFIG_X86_64)]
    // SAFETY: A prefetch neither faults nor changes memory. CPUs without the instruction take it for a
    // NOP.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(CONFIG_X86_64))]
    let _ = place;
}
