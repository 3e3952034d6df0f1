// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state of one function.

use std::collections::BTreeMap;

use crate::caps::{self, Caps};
use crate::config::FunctionConfig;
use crate::cq::{self, Cqs};
use crate::eq::EventQueues;
use crate::io::{GidChange, Io, Output};
use crate::iseg::{self, InitSegment};
use crate::mkey::Mkeys;
use crate::net::{self, Net};
use crate::pages::Pages;
use crate::qp::{self, Qps};
use crate::srq::Srqs;
use crate::table::Table;
use crate::uar::{self, HeldDoorbells};
use crate::vport::{NicVport, Port, RoceAddresses};

pub use crate::uar::Uar;

/// How far the driver has brought the function up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Before ENABLE_HCA.
    Disabled,
    /// Between ENABLE_HCA and INIT_HCA: capabilities and pages.
    Enabled,
    /// After INIT_HCA: everything.
    Initialized,
}

/// A protection domain.
#[derive(Debug)]
pub struct Pd;

/// An XRC domain.
#[derive(Debug)]
pub struct Xrcd;

/// A transport domain.
#[derive(Debug)]
pub struct TransportDomain;

/// A set of Q counters: events of the queue pairs that name it (`query_q_counter_out`).
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct QCounters {
    pub rx_write_requests: u32,
    pub rx_read_requests: u32,
    pub rx_atomic_requests: u32,
    pub out_of_buffer: u32,
    pub out_of_sequence: u32,
    pub duplicate_request: u32,
    pub rnr_nak_retry_err: u32,
    pub packet_seq_err: u32,
    pub implied_nak_seq_err: u32,
    pub local_ack_timeout_err: u32,
    pub req_remote_access_errors: u32,
    pub resp_remote_access_errors: u32,
}

impl QCounters {
    /// Adds the counts of another set; they wrap.
    pub fn add(&mut self, other: &QCounters) {
        macro_rules! add {
            ($($name:ident),+) => {
                $(self.$name = self.$name.wrapping_add(other.$name);)+
            };
        }
        add!(
            rx_write_requests,
            rx_read_requests,
            rx_atomic_requests,
            out_of_buffer,
            out_of_sequence,
            duplicate_request,
            rnr_nak_retry_err,
            packet_seq_err,
            implied_nak_seq_err,
            local_ack_timeout_err,
            req_remote_access_errors,
            resp_remote_access_errors
        );
    }
}

/// One function (VHCA): no threads, no sockets. See the crate documentation.
#[derive(Debug)]
pub struct Hca {
    /// What the command line says about the function.
    pub config: FunctionConfig,
    /// The way to the outside.
    pub io: Io,
    /// How far the function is up.
    pub state: State,
    /// Interface step sequence id that the driver chose.
    pub issi: u32,
    /// The initialization segment.
    pub iseg: InitSegment,
    /// Capabilities.
    pub caps: Caps,
    /// Pages that the driver gave.
    pub pages: Pages,
    /// The physical port.
    pub port: Port,
    /// Addresses and filters of the virtual port.
    pub vport: NicVport,
    /// RoCE addresses.
    pub gids: RoceAddresses,
    /// Event queues.
    pub eqs: EventQueues,
    /// Protection domains.
    pub pds: Table<Pd>,
    /// UAR pages.
    pub uars: Table<Uar>,
    /// XRC domains.
    pub xrcds: Table<Xrcd>,
    /// Transport domains.
    pub transport_domains: Table<TransportDomain>,
    /// Q counter sets.
    pub q_counters: Table<QCounters>,
    /// Completion queues.
    pub cqs: Cqs,
    /// Memory keys.
    pub mkeys: Mkeys,
    /// Shared receive queues of all kinds.
    pub srqs: Srqs,
    /// Queue pairs.
    pub qps: Qps,
    /// Objects of the netdev.
    pub net: Net,
    /// Doorbells that may be the start of a BlueFlame write.
    pub(crate) held: HeldDoorbells,
    /// Objects that were alive at teardowns, summed up.
    leaked: BTreeMap<&'static str, usize>,
    /// The card is not in its slot any more.
    removed: bool,
}

impl Hca {
    /// A function after power-on.
    pub fn new(config: FunctionConfig) -> Self {
        let mut io = Io::new(config.scramble);
        io.timing = config.timing;
        Self {
            io,
            state: State::Disabled,
            issi: 0,
            iseg: InitSegment::new(config.command_timeout),
            caps: Caps::new(config.vhca_id()),
            pages: Pages::new(config.pages),
            port: Port::default(),
            vport: NicVport::new(&config),
            gids: RoceAddresses::default(),
            eqs: EventQueues::default(),
            pds: Table::new("pd", 1, 1 << caps::LOG_MAX_PD),
            uars: Table::new("uar", uar::FIRST, uar::COUNT),
            xrcds: Table::new("xrcd", 1, 1 << caps::LOG_MAX_XRCD),
            transport_domains: Table::new("td", 1, 1 << caps::LOG_MAX_TRANSPORT_DOMAIN),
            q_counters: Table::new("q_counter", 1, caps::MAX_Q_COUNTERS - 1),
            cqs: Cqs::default(),
            mkeys: Mkeys::default(),
            srqs: Srqs::default(),
            qps: Qps::default(),
            net: Net::default(),
            held: HeldDoorbells::default(),
            leaked: BTreeMap::new(),
            removed: false,
            config,
        }
    }

    /// Name in logs: `pf0`, `vf1`.
    pub fn name(&self) -> String {
        self.config.name()
    }

    /// PCI reset: everything but the mapped memory, the counters and the event log starts anew.
    pub fn reset(&mut self) {
        self.report_leaks("reset");
        self.clear_objects();
        self.gids.clear(&mut self.io);
        let new = Hca::new(self.config.clone());
        self.state = new.state;
        self.issi = new.issi;
        self.iseg = new.iseg;
        self.caps = new.caps;
        self.pages.reset();
        self.port = new.port;
        self.vport = new.vport;
    }

    /// The card is pulled out of its slot.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    /// The card is in its slot again, with power.
    pub fn plug_in(&mut self) {
        self.removed = false;
    }

    /// Whether the card is pulled out.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Forgets all objects, whoever uses them.
    pub fn clear_objects(&mut self) {
        self.eqs = EventQueues::default();
        self.pds.clear();
        self.uars.clear();
        self.xrcds.clear();
        self.transport_domains.clear();
        self.q_counters.clear();
        self.cqs = Cqs::default();
        self.mkeys = Mkeys::default();
        self.srqs = Srqs::default();
        self.qps = Qps::default();
        self.net = Net::default();
        self.held = HeldDoorbells::default();
    }

    /// Live objects of each kind.
    pub fn objects(&self) -> Vec<(&'static str, usize)> {
        let mut objects = vec![
            (self.eqs.table.kind(), self.eqs.table.len()),
            (self.pds.kind(), self.pds.len()),
            (self.uars.kind(), self.uars.len()),
            (self.xrcds.kind(), self.xrcds.len()),
            (self.transport_domains.kind(), self.transport_domains.len()),
            (self.q_counters.kind(), self.q_counters.len()),
            (self.cqs.table.kind(), self.cqs.table.len()),
            (self.mkeys.table.kind(), self.mkeys.table.len()),
            (self.srqs.table.kind(), self.srqs.table.len()),
            (self.qps.table.kind(), self.qps.table.len()),
            ("multicast_member", self.qps.groups.len()),
        ];
        objects.extend(self.net.objects());
        objects
    }

    /// Objects that were alive when the driver tore the function down, over all times it did.
    pub fn leaked(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.leaked.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Remembers and logs what is alive.
    pub(crate) fn report_leaks(&mut self, when: &str) {
        if self.state != State::Initialized {
            return;
        }
        let alive = self.objects().into_iter().filter(|(_, count)| *count != 0);
        for (kind, count) in alive {
            *self.leaked.entry(kind).or_default() += count;
            log::warn!("{}: {when} with {count} {kind} alive", self.config.name());
        }
    }

    /// The guest reads BAR0.
    pub fn mmio_read(&mut self, now: u64, offset: u64, buf: &mut [u8]) {
        self.io.now = now;
        self.io.counters.mmio.reads += 1;
        if self.removed {
            buf.fill(0xff);
            return;
        }
        match offset {
            0..iseg::SIZE => self.iseg.read(offset, buf, now),
            _ => buf.fill(0),
        }
    }

    /// The guest writes BAR0.
    pub fn mmio_write(&mut self, now: u64, offset: u64, data: &[u8]) {
        self.io.now = now;
        self.io.counters.mmio.writes += 1;
        if self.removed {
            return;
        }
        match offset {
            0..iseg::SIZE => match <[u8; 4]>::try_from(data) {
                Ok(word) => {
                    if let Some(slots) = self.iseg.write(offset, u32::from_be_bytes(word)) {
                        self.io.counters.mmio.cmd_doorbells += 1;
                        crate::cmd::queue::doorbell(self, slots);
                    }
                }
                Err(_) => self.io.counters.mmio.ignored += 1,
            },
            _ => uar::write(self, offset, data),
        }
    }

    /// A frame arrives from the wire.
    pub fn receive(&mut self, now: u64, frame: &[u8]) {
        self.io.now = now;
        self.io.counters.frames_received += 1;
        let passes = self.port.link_up() && self.port.carries(frame.len());
        if self.removed || self.state != State::Initialized || !passes {
            self.io.counters.frames_dropped += 1;
        } else if self.vport.speaks_roce() && crate::wire::net::parse(frame).is_some() {
            qp::delivery::receive(self, frame);
        } else {
            net::receive(self, frame);
        }
    }

    /// So many frames came from the wire and found the port's buffer full.
    pub fn overflow(&mut self, frames: u64) {
        self.io.counters.frames_received += frames;
        self.io.counters.frames_dropped += frames;
    }

    /// Makes progress, about `budget` steps; true if more could be done at once.
    pub fn run(&mut self, now: u64, budget: u32) -> bool {
        self.io.now = now;
        if self.removed {
            return false;
        }
        self.io.run();
        uar::run(self);
        cq::run(self);
        let more = qp::run(self, budget);
        net::run(self, budget) || more
    }

    /// When [`run`](Self::run) must be called next even if nothing happens until then.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.removed {
            return None;
        }
        let deadlines = [
            self.io.next_deadline(),
            cq::next_deadline(self),
            qp::next_deadline(self),
            net::next_deadline(self),
            self.held.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Takes the interrupts and GID changes that wait for delivery. Frames stay, so that all of
    /// them leave through one thread and in order.
    pub fn take_signals(&mut self) -> (u64, Vec<GidChange>) {
        let output = &mut self.io.output;
        (
            std::mem::take(&mut output.vectors),
            std::mem::take(&mut output.gids),
        )
    }

    /// Starts counting from zero.
    pub fn reset_counters(&mut self) {
        self.io.counters = Default::default();
        self.io.memory.reset_traffic();
    }

    /// Takes what waits for delivery. A port that is down sends nothing, and one that is up nothing that is longer than
    /// its MTU, whatever queue it comes from.
    pub fn take_output(&mut self) -> Output {
        let mut output = std::mem::take(&mut self.io.output);
        let port = self.port;
        let all = output.frames.len();
        output
            .frames
            .retain(|frame| port.link_up() && port.carries(frame.len()));
        let sent = output.frames.len();
        self.io.counters.frames_sent += sent as u64;
        self.io.counters.frames_dropped += (all - sent) as u64;
        output
    }
}
