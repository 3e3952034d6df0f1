// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The netdev's queues and the commands around them, through registers and the command queue.

mod lifetime;
mod loopback;
mod queues;
mod refusals;
mod roce;
mod stage;
