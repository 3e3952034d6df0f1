// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a PCIe analyzer beside the function would count.
//!
//! Reads and writes of guest memory are counted where they are made ([`crate::dma`]); the rest
//! is here. A snapshot of both is one JSON object, see [`snapshot`].

use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::dma::{GuestMemory, Kind};

/// Register accesses of the guest.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Mmio {
    /// Reads of any register.
    pub reads: u64,
    /// Writes of any register.
    pub writes: u64,
    /// Writes of the command doorbell vector.
    pub cmd_doorbells: u64,
    /// SQ doorbells of 8 bytes.
    pub sq_doorbells: u64,
    /// WQEs written through a BlueFlame register as a whole.
    pub blueflame_wqes: u64,
    /// Bytes written to BlueFlame registers beyond the doorbell itself.
    pub blueflame_bytes: u64,
    /// CQ arm doorbells.
    pub cq_arms: u64,
    /// EQ consumer index doorbells, arming or not.
    pub eq_doorbells: u64,
    /// Doorbells of a queue through another UAR page than its own. They are ignored.
    pub foreign_uar: u64,
    /// CQ arm doorbells that say something else than the doorbell record does. The record counts.
    pub arm_mismatches: u64,
    /// Writes that mean nothing: unknown offsets or sizes, unknown queues.
    pub ignored: u64,
}

/// The counters of one function.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// Register accesses.
    pub mmio: Mmio,
    /// Commands executed.
    pub commands: u64,
    /// Commands that ended with a status other than OK.
    pub commands_failed: u64,
    /// MSI-X messages sent.
    pub interrupts: u64,
    /// Event queue entries written.
    pub eqes: u64,
    /// Completions written.
    pub cqes: u64,
    /// Compressed blocks among them, of two completions and more each.
    pub cqe_blocks: u64,
    /// WQEs executed on send queues of QPs.
    pub wqes: u64,
    /// Send queue WQEs that were not fetched from memory but taken from a BlueFlame register.
    pub wqes_from_blueflame: u64,
    /// WQEs of QPs in which a reserved bit was set.
    pub wqes_with_reserved_bits: u64,
    /// Receive WQEs consumed.
    pub recv_wqes: u64,
    /// Frames that left through the port.
    pub frames_sent: u64,
    /// Frames received from the wire.
    pub frames_received: u64,
    /// Frames received and dropped, and those for a port that is down.
    pub frames_dropped: u64,
}

/// All counters of a function as JSON: those of [`Counters`], and `dma_reads` and `dma_writes`
/// with one object per [`Kind`] plus `total`.
pub fn snapshot(counters: &Counters, memory: &GuestMemory) -> Value {
    let direction = |of: &dyn Fn(Kind) -> crate::dma::Traffic| {
        let mut map = Map::new();
        let mut total = crate::dma::Traffic::default();
        for kind in Kind::ALL {
            let t = of(kind);
            total.accesses += t.accesses;
            total.bytes += t.bytes;
            total.lines += t.lines;
            map.insert(kind.name().into(), json!(t));
        }
        map.insert("total".into(), json!(total));
        Value::Object(map)
    };
    let mut value = json!(counters);
    value["dma_reads"] = direction(&|kind| memory.reads(kind));
    value["dma_writes"] = direction(&|kind| memory.writes(kind));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_every_kind_and_the_total() {
        let mut memory = GuestMemory::anonymous(0, 4096);
        memory.write(Kind::Cqe, 0, &[0; 64]).unwrap();
        memory.write(Kind::Payload, 0, &[0; 100]).unwrap();
        let v = snapshot(&Counters::default(), &memory);
        assert_eq!(v["dma_writes"]["cqe"]["bytes"], 64);
        assert_eq!(v["dma_writes"]["total"]["lines"], 3);
        assert_eq!(v["dma_reads"]["total"]["accesses"], 0);
        assert_eq!(v["mmio"]["sq_doorbells"], 0);
    }
}
