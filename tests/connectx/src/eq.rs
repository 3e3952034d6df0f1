// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Event queues.
//!
//! The device writes 64-byte entries (`struct mlx5_eqe`, `include/linux/mlx5/device.h`) and, if
//! the queue is armed, sends one MSI-X message. The driver tells how far it has read and arms the
//! queue anew with a doorbell; if entries came in between, the message is sent at once.

mod event;

use crate::dma::Kind;
use crate::field;
use crate::ifc;
use crate::io::Io;
use crate::table::Table;

pub use event::AsyncEvent;

use event::event_type;

/// Bytes of an entry.
const EQE_SIZE: usize = 64;
/// Where the 28 bytes of event data start.
const DATA: usize = 0x20;

/// What the driver asks for with CREATE_EQ.
#[derive(Clone, Debug)]
pub struct EqConfig {
    /// The EQ context, as given.
    pub context: [u8; 0x40],
    /// Event types to deliver, bit 0 of the first word is type 0.
    pub mask: [u64; 4],
    /// Addresses of the pages of the buffer.
    pub pages: Vec<u64>,
}

/// One event queue.
#[derive(Debug)]
pub struct Eq {
    config: EqConfig,
    log_size: u32,
    page_shift: u32,
    vector: u16,
    uar: u32,
    producer: u32,
    consumer: u32,
    armed: bool,
    /// Set by an overrun or an unwritable buffer; nothing is delivered any more.
    failed: bool,
}

impl Eq {
    /// A queue for a checked configuration.
    pub fn new(config: EqConfig) -> Self {
        let get = |field| ifc::get(&config.context, field);
        Self {
            log_size: get(field!(mlx5_ifc_eqc_bits, log_eq_size)),
            page_shift: 12 + get(field!(mlx5_ifc_eqc_bits, log_page_size)),
            vector: get(field!(mlx5_ifc_eqc_bits, intr)) as u16,
            uar: get(field!(mlx5_ifc_eqc_bits, uar_page)),
            config,
            producer: 0,
            consumer: 0,
            armed: false,
            failed: false,
        }
    }

    /// Pages that the buffer of a context takes, or `None` if the context is out of range.
    pub fn pages_needed(context: &[u8; 0x40]) -> Option<usize> {
        let log_size = ifc::get(context, field!(mlx5_ifc_eqc_bits, log_eq_size));
        let page_shift = 12 + ifc::get(context, field!(mlx5_ifc_eqc_bits, log_page_size));
        if log_size > crate::caps::LOG_MAX_EQ_SIZE || page_shift > 30 {
            return None;
        }
        Some(((EQE_SIZE << log_size) + (1 << page_shift) - 1) >> page_shift)
    }

    fn subscribes(&self, event_type: u8) -> bool {
        let word = self.config.mask.get(usize::from(event_type / 64));
        word.is_some_and(|word| (word >> (event_type % 64)) & 1 != 0)
    }

    /// Entries that the driver has not read yet, as far as it told.
    fn used(&self) -> u32 {
        self.producer.wrapping_sub(self.consumer) & 0xff_ffff
    }

    /// Address of the entry at a producer index.
    fn place(&self, index: u32) -> Option<u64> {
        let offset = (index & ((1 << self.log_size) - 1)) as usize * EQE_SIZE;
        let within = (offset & ((1 << self.page_shift) - 1)) as u64;
        let page = self.config.pages.get(offset >> self.page_shift)?;
        page.checked_add(within)
    }

    fn post(&mut self, io: &mut Io, event_type: u8, encode: impl FnOnce(&mut [u8; EQE_SIZE])) {
        if self.failed {
            return;
        }
        if self.used() >= 1 << self.log_size {
            log::error!("EQ overrun: {} entries unread", self.used());
            self.failed = true;
            return;
        }
        let mut eqe = io.blank::<EQE_SIZE>();
        eqe[1] = event_type;
        encode(&mut eqe);
        // First pass 0, second pass 1: the driver compares with the pass it is in.
        eqe[EQE_SIZE - 1] = ((self.producer >> self.log_size) & 1) as u8;
        let addr = self.place(self.producer);
        let written = addr.map(|addr| io.memory.write_entry(Kind::Eqe, addr, &eqe));
        if !matches!(written, Some(Ok(()))) {
            log::error!("EQ buffer cannot be written at {addr:x?}");
            self.failed = true;
            return;
        }
        io.counters.eqes += 1;
        self.producer = self.producer.wrapping_add(1);
        if self.armed {
            self.armed = false;
            io.interrupt(self.vector);
        }
    }

    /// Writes an entry that no event is behind; one with the owner bit of the round before is not there yet.
    pub fn forge(&mut self, io: &mut Io, event_type: u8, data: &[u8; 28], wrong_owner: bool) {
        let before = self.producer;
        self.post(io, event_type, |eqe| {
            eqe[DATA..DATA + 28].copy_from_slice(data);
        });
        if !wrong_owner || self.producer == before {
            return;
        }
        self.producer = before;
        let owner = ((before >> self.log_size) & 1) as u8 ^ 1;
        if let Some(last) = self.place(before).and_then(|addr| addr.checked_add(63)) {
            // The rest of the entry was written just now, so its last byte can be, too.
            let _ = io.memory.write_entry(Kind::Eqe, last, &[owner]);
        }
    }

    fn doorbell(&mut self, io: &mut Io, consumer: u32, arm: bool) {
        self.consumer = consumer;
        if !arm {
            return;
        }
        if self.used() == 0 {
            self.armed = true;
        } else {
            self.armed = false;
            io.interrupt(self.vector);
        }
    }

    /// Where it stands, for people.
    pub fn state(&self) -> serde_json::Value {
        serde_json::json!({
            "vector": self.vector,
            "producer": self.producer & 0xff_ffff,
            "consumer": self.consumer,
            "armed": self.armed,
            "failed": self.failed,
        })
    }

    /// The context as QUERY_EQ answers it.
    pub fn context(&self) -> [u8; 0x40] {
        let mut context = self.config.context;
        let mut set = |field, value| ifc::set(&mut context, field, value);
        // EQ state and status: mlx5 PRM, "EQ context": 0x9 armed, 0xa fired; 0xa write failure.
        set(
            field!(mlx5_ifc_eqc_bits, st),
            if self.armed { 0x9 } else { 0xa },
        );
        set(
            field!(mlx5_ifc_eqc_bits, status),
            if self.failed { 0xa } else { 0 },
        );
        set(field!(mlx5_ifc_eqc_bits, consumer_counter), self.consumer);
        set(field!(mlx5_ifc_eqc_bits, producer_counter), self.producer);
        context
    }
}

/// Event queues of a function.
#[derive(Debug)]
pub struct EventQueues {
    /// The queues by EQN.
    pub table: Table<Eq>,
}

impl Default for EventQueues {
    fn default() -> Self {
        Self {
            table: Table::new("eq", 0, crate::caps::MAX_EQS),
        }
    }
}

impl EventQueues {
    /// Raises a completion event for a CQ on the EQ it names.
    pub fn completion(&mut self, io: &mut Io, eqn: u8, cqn: u32) {
        let Some(eq) = self.table.get_mut(eqn.into()) else {
            log::warn!("completion event of CQ {cqn:#x} for EQ {eqn}, which does not exist");
            return;
        };
        eq.post(io, event_type::COMPLETION, |eqe| {
            eqe[3] = 0;
            eqe[DATA + 24..DATA + 28].copy_from_slice(&cqn.to_be_bytes());
        });
    }

    /// Raises an asynchronous event on the EQ that subscribed to its type, if any.
    pub fn asynchronous(&mut self, io: &mut Io, event: AsyncEvent) {
        let kind = event.event_type();
        match self.table.iter_mut().find(|(_, eq)| eq.subscribes(kind)) {
            Some((_, eq)) => eq.post(io, kind, |eqe| event.encode(eqe)),
            None => log::debug!("nobody subscribed to {event:?}"),
        }
    }

    /// Whether some EQ takes command completions.
    pub fn takes_commands(&self) -> bool {
        self.table
            .iter()
            .any(|(_, eq)| eq.subscribes(event_type::COMMAND))
    }

    /// A consumer index doorbell: `word` as written to offset 0x40 (arm) or 0x48 of UAR page
    /// `page`. What names no EQ, or one of another page, is counted and ignored.
    pub fn doorbell(&mut self, io: &mut Io, page: u32, word: u32, arm: bool) {
        match self.table.get_mut(word >> 24) {
            Some(eq) if eq.uar == page => eq.doorbell(io, word & 0xff_ffff, arm),
            Some(_) => io.counters.mmio.foreign_uar += 1,
            None => io.counters.mmio.ignored += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::GuestMemory;

    const UAR: u32 = 7;

    fn setup(mask: u64) -> (EventQueues, Io) {
        let mut io = Io::new(None);
        io.memory = GuestMemory::anonymous(0x1000, 0x1000);
        let mut context = [0; 0x40];
        ifc::set(&mut context, field!(mlx5_ifc_eqc_bits, log_eq_size), 2);
        ifc::set(&mut context, field!(mlx5_ifc_eqc_bits, intr), 3);
        ifc::set(&mut context, field!(mlx5_ifc_eqc_bits, uar_page), UAR);
        let mut eqs = EventQueues::default();
        let eq = Eq::new(EqConfig {
            context,
            mask: [mask, 0, 0, 0],
            pages: vec![0x1000],
        });
        eqs.table.insert(eq).unwrap();
        (eqs, io)
    }

    fn entry(io: &mut Io, index: u64) -> [u8; 64] {
        let mut eqe = [0; 64];
        io.memory
            .read(Kind::Eqe, 0x1000 + index * 64, &mut eqe)
            .unwrap();
        eqe
    }

    #[test]
    fn an_armed_queue_interrupts_once() {
        let (mut eqs, mut io) = setup(0);
        eqs.doorbell(&mut io, UAR, 0, true);
        eqs.completion(&mut io, 0, 0x81);
        eqs.completion(&mut io, 0, 0x82);
        assert_eq!((io.output.vectors, io.counters.interrupts), (1 << 3, 1));
        let eqe = entry(&mut io, 1);
        assert_eq!((eqe[1], eqe[0x3b], eqe[0x3f]), (0, 0x82, 0));
        // One entry is unread: arming interrupts at once.
        eqs.doorbell(&mut io, UAR, 1, true);
        assert_eq!(io.counters.interrupts, 2);
        eqs.doorbell(&mut io, UAR, 2, true);
        assert_eq!(io.counters.interrupts, 2);
    }

    #[test]
    fn a_doorbell_through_another_page_is_ignored() {
        let (mut eqs, mut io) = setup(0);
        eqs.doorbell(&mut io, UAR + 1, 0, true);
        eqs.completion(&mut io, 0, 0x81);
        assert_eq!(io.counters.interrupts, 0);
        assert_eq!(io.counters.mmio.foreign_uar, 1);
        eqs.doorbell(&mut io, UAR, 1 << 24, true);
        assert_eq!(io.counters.mmio.ignored, 1);
    }

    #[test]
    fn a_page_at_the_end_of_all_addresses_fails_the_queue() {
        let (mut eqs, mut io) = setup(0);
        let mut config = eqs.table.get(0).unwrap().config.clone();
        config.pages = vec![u64::MAX - 4095];
        ifc::set(
            &mut config.context,
            field!(mlx5_ifc_eqc_bits, log_eq_size),
            7,
        );
        ifc::set(
            &mut config.context,
            field!(mlx5_ifc_eqc_bits, log_page_size),
            1,
        );
        let eqn = eqs.table.insert(Eq::new(config)).unwrap();
        for _ in 0..65 {
            eqs.completion(&mut io, eqn as u8, 0x81);
        }
        let context = eqs.table.get(eqn).unwrap().context();
        assert_eq!(ifc::get(&context, field!(mlx5_ifc_eqc_bits, status)), 0xa);
    }

    #[test]
    fn the_owner_bit_tells_the_pass() {
        let (mut eqs, mut io) = setup(0);
        for i in 0..6 {
            eqs.completion(&mut io, 0, 0x81);
            eqs.doorbell(&mut io, UAR, i + 1, false);
        }
        assert_eq!(entry(&mut io, 1)[63], 1);
        assert_eq!(entry(&mut io, 2)[63], 0);
    }

    #[test]
    fn an_overrun_stops_the_queue() {
        let (mut eqs, mut io) = setup(0);
        for _ in 0..6 {
            eqs.completion(&mut io, 0, 0x81);
        }
        assert_eq!(io.counters.eqes, 4);
        let context = eqs.table.get(0).unwrap().context();
        assert_eq!(ifc::get(&context, field!(mlx5_ifc_eqc_bits, status)), 0xa);
        eqs.doorbell(&mut io, UAR, 4, true);
        eqs.completion(&mut io, 0, 0x81);
        assert_eq!(io.counters.eqes, 4);
    }

    #[test]
    fn events_go_to_who_subscribed() {
        let (mut eqs, mut io) = setup(1 << 9);
        eqs.asynchronous(&mut io, AsyncEvent::CqError(0x80, 1));
        assert_eq!(io.counters.eqes, 0);
        eqs.asynchronous(&mut io, AsyncEvent::Port { up: true });
        let eqe = entry(&mut io, 0);
        assert_eq!((eqe[1], eqe[3], eqe[0x28]), (9, 4, 0x10));
        assert!(!eqs.takes_commands());
    }
}
