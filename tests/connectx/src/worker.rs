// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The thread that runs the queues of a function.

use std::sync::Arc;

use crate::fabric::Fabric;
use crate::function::Function;

/// Frames and WQEs that are worked on before the HCA is let go of: the guest's register accesses
/// wait that long.
const ROUND: u32 = 32;

/// Runs a function for ever.
pub fn run(function: Arc<Function>, fabric: Arc<Fabric>) {
    let mut more = false;
    let mut deadline = None;
    loop {
        let mail = function.take_frames(ROUND as usize, !more, deadline);
        let mut hca = function.hca_for_worker();
        let now = function.now();
        hca.overflow(mail.overflow);
        for frame in mail.frames {
            hca.receive(now, &frame);
        }
        more = hca.run(now, ROUND);
        deadline = hca.next_deadline();
        let output = hca.take_output();
        drop(hca);
        fabric.deliver(&function, output);
    }
}
