// SPDX-License-Identifier: GPL-2.0

//! Places for `perf probe`: calls of functions that do nothing, out of the hot paths. See `probes.h`, which says
//! why they are in C, and Documentation/tracing.rst.

use mlx5_ulp_bindings as bindings;

/// Expands to a function for each of `probes.h`.
macro_rules! probes {
    ($($(#[$meta:meta])* fn $name:ident = $called:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(
            $(#[$meta])*
            #[inline]
            pub(crate) fn $name($($arg: $type),*) {
                // SAFETY: Takes plain values and does nothing.
                unsafe { bindings::$called($($arg),*) };
            }
        )*
    };
}

probes! {
    /// A post of so many requests was refused with this error number.
    fn refused = mlx5_ulp_on_refused(pci: u32, qpn: u32, count: u32, error: i32);

    /// The hold time of so many WQEs is over.
    fn held = mlx5_ulp_on_held(pci: u32, qpn: u32, wqes: u32);

    /// The adaptive mode has changed its batch.
    fn batch = mlx5_ulp_on_batch(pci: u32, qpn: u32, from: u32, to: u32);

    /// A completion entry is an error or nonsense.
    fn bad_cqe = mlx5_ulp_on_bad_cqe(pci: u32, qpn: u32, counter: u16, opcode: u8, syndrome: u8);

    /// A queue takes no more posts.
    fn queue_failed = mlx5_ulp_on_queue_failed(pci: u32, qpn: u32);

    /// A queue was made.
    fn queue_made = mlx5_ulp_on_queue_made(pci: u32, qpn: u32);

    /// A queue is about to be given back.
    fn queue_gone = mlx5_ulp_on_queue_gone(pci: u32, qpn: u32);
}
