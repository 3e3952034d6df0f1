// SPDX-License-Identifier: GPL-2.0 OR MIT

//! UAR pages: where doorbells are rung.

/// A send queue doorbell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// Queue number.
    pub qpn: u32,
    /// WQE index of the WQE whose control segment was written: basic blocks, modulo 65536.
    pub wqe_index: u16,
    /// The WQE as written through the BlueFlame register, if it was written as a whole. It takes
    /// the place of the WQE at `wqe_index` in memory.
    pub blueflame: Option<Vec<u8>>,
}
