// SPDX-License-Identifier: GPL-2.0

//! Tracepoints (`<trace/events/mlx5_ulp.h>`), callable from the data path: a no-op of a few
//! bytes while nobody listens.

use kernel::jump_label::static_branch_unlikely;
use mlx5_ulp_bindings as bindings;

/// Expands to what `kernel::declare_trace!` does, for tracepoints of this module: that one
/// looks for them in the kernel's bindings.
macro_rules! tracepoints {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        ::kernel::macros::paste! { $(
            $(#[$meta])*
            #[inline(always)]
            pub(crate) fn $name($($arg: $type),*) {
                // SAFETY: The static key of a tracepoint may be looked at by anyone.
                if unsafe {
                    static_branch_unlikely!(
                        bindings::[<__tracepoint_mlx5_ulp_ $name>],
                        bindings::tracepoint,
                        key
                    )
                } {
                    // SAFETY: Takes plain values.
                    unsafe { bindings::[<rust_do_trace_mlx5_ulp_ $name>]($($arg),*) };
                }
            }
        )* }
    };
}

/// Whether somebody wants to know of each post, by a tracepoint or to measure latencies.
#[inline(always)]
pub(crate) fn posting() -> bool {
    // SAFETY: A static key may be looked at by anyone.
    unsafe {
        static_branch_unlikely!(
            bindings::mlx5_ulp_posting_key,
            bindings::mlx5_ulp_static_key,
            key
        )
    }
}

/// Whether somebody wants to know of each completion, likewise.
#[inline(always)]
pub(crate) fn completing() -> bool {
    // SAFETY: A static key may be looked at by anyone.
    unsafe {
        static_branch_unlikely!(
            bindings::mlx5_ulp_completing_key,
            bindings::mlx5_ulp_static_key,
            key
        )
    }
}

// `pci` is the address of the function, see `Hold::pci_address`.
tracepoints! {
    /// A work request was encoded: its first basic block (not reduced to the ring), the opcode
    /// of its control segment, and its payload in bytes.
    fn post(pci: u32, qpn: u32, index: u16, opcode: u8, bytes: u32);

    /// The doorbell was rung with this producer counter, in basic blocks, for that many WQEs.
    fn doorbell(pci: u32, qpn: u32, producer: u16, wqes: u32);

    /// A queue goes from one mode to another, of its doorbell or of its completions; numbers as in
    /// [`mode_name`](super::event_log::mode_name).
    fn mode(pci: u32, qpn: u32, from: u8, to: u8);

    /// A completion queue entry was taken; `opcode` is the CQE's, `syndrome` 0 if all is well.
    fn completion(pci: u32, qpn: u32, counter: u16, opcode: u8, syndrome: u8);
}
