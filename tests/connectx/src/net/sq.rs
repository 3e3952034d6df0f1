// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Send queues of the netdev.

use std::collections::VecDeque;

use super::cqe;
use super::frame::{self, Headers};
use super::loopback::{self, Onward};
use super::wq::WorkQueue;
use crate::cqfmt::cqe::Opcode as CqeOpcode;
use crate::cqfmt::syndrome::Syndrome;
use crate::dma::Kind;
use crate::field;
use crate::hca::Hca;
use crate::ifc;
use crate::io::{Frame, Io};
use crate::mkey::{Access, Right, Span};
use crate::wqe::ctrl::{self, Ctrl};
use crate::wqe::data::{Segment, Segments};
use crate::wqe::opcode::Opcode;

/// Bytes of a basic block.
const BLOCK: usize = 64;
/// Word of the doorbell record with the producer counter of a send queue.
const SEND_COUNTER: u64 = 1;
/// BlueFlame copies that wait for their turn; more are taken from memory.
const MAX_BLUEFLAME: usize = 64;

/// Where the Ethernet segment starts, and its fields (`struct mlx5_wqe_eth_seg`).
const ETH: usize = 16;
const ETH_CS_FLAGS: usize = ETH + 4;
const ETH_MSS: usize = ETH + 6;
const ETH_INLINE_SIZE: usize = ETH + 12;
const ETH_INLINE: usize = ETH + 14;
/// `MLX5_ETH_WQE_L3_CSUM` and `MLX5_ETH_WQE_L4_CSUM`.
const L3_CSUM: u8 = 1 << 6;
const L4_CSUM: u8 = 1 << 7;
/// Longest frame, a large send included, in bytes.
const MAX_FRAME: usize = 256 * 1024;

/// State of a queue (`MLX5_SQC_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Reset: 0.
    Reset = 0,
    /// Ready: 1.
    Ready = 1,
    /// Error: 3.
    Error = 3,
}

impl State {
    /// The state with a number in `sqc.state` or `rqc.state`.
    pub fn from_number(number: u32) -> Option<Self> {
        [State::Reset, State::Ready, State::Error]
            .into_iter()
            .find(|state| *state as u32 == number)
    }
}

/// A send queue.
#[derive(Debug)]
pub struct Sq {
    /// The ring.
    pub wq: WorkQueue,
    /// CQ for completions.
    pub cqn: u32,
    /// UAR page of its doorbells.
    pub uar: u32,
    /// TIS that it sends under, if any.
    pub tis: Option<u32>,
    /// Context as the driver gave it.
    pub context: [u8; 0x30],
    /// Whether the reserved key may be used.
    pub reserved_lkey: bool,
    /// Whether WQEs complete as flushed once the queue is in error (`flush_in_error_en`).
    flushes: bool,
    /// State.
    pub state: State,
    /// Next basic block to execute.
    consumer: u16,
    /// WQEs written through a BlueFlame register, by index.
    blueflame: VecDeque<(u16, Vec<u8>)>,
    /// In the list of queues with work.
    pub(super) queued: bool,
}

impl Sq {
    /// A queue in reset.
    pub fn new(wq: WorkQueue, cqn: u32, uar: u32, tis: Option<u32>, context: [u8; 0x30]) -> Self {
        Self {
            wq,
            cqn,
            uar,
            tis,
            context,
            reserved_lkey: ifc::flag(&context, field!(mlx5_ifc_sqc_bits, rlky)),
            flushes: ifc::flag(&context, field!(mlx5_ifc_sqc_bits, flush_in_error_en)),
            state: State::Reset,
            consumer: 0,
            blueflame: VecDeque::new(),
            queued: false,
        }
    }

    /// Takes a WQE from a BlueFlame register.
    pub(super) fn blueflame(&mut self, index: u16, wqe: Vec<u8>) {
        if self.blueflame.len() < MAX_BLUEFLAME {
            self.blueflame.push_back((index, wqe));
        }
    }

    /// Changes the state; reset starts from index 0.
    pub fn set_state(&mut self, state: State) {
        self.state = state;
        if state == State::Reset {
            self.consumer = 0;
            self.blueflame.clear();
        }
    }

    /// The WQE at the consumer index: from a BlueFlame copy, or from memory.
    fn fetch(&mut self, io: &mut Io, sqn: u32) -> Result<Vec<u8>, Syndrome> {
        let index = self.consumer;
        while let Some((at, wqe)) = self.blueflame.pop_front() {
            if at == index {
                io.counters.wqes_from_blueflame += 1;
                return Ok(wqe);
            }
            // Copies of WQEs that were executed from memory are behind; later ones stay.
            if at.wrapping_sub(index) < 0x8000 {
                self.blueflame.push_front((at, wqe));
                break;
            }
        }
        io.event(sqn, "WQE Fetch Start", index.into());
        let mut wqe = vec![0; BLOCK];
        let error = Syndrome::LOCAL_QP_OPERATION;
        self.wq
            .read(io, Kind::WqeFetch, index, &mut wqe)
            .map_err(|_| error)?;
        let len = wqe_len(&wqe);
        if len > BLOCK {
            wqe.resize(len, 0);
            let rest = wqe.get_mut(BLOCK..).unwrap_or_default();
            let next = index.wrapping_add(1);
            self.wq
                .read(io, Kind::WqeFetch, next, rest)
                .map_err(|_| error)?;
        }
        Ok(wqe)
    }
}

/// Bytes of a WQE by its control segment.
fn wqe_len(wqe: &[u8]) -> usize {
    usize::from(wqe.get(7).copied().unwrap_or(0) & 0x3f) * 16
}

/// Basic blocks of a WQE; one that says nothing sensible takes one.
fn wqe_blocks(wqe: &[u8]) -> u16 {
    wqe_len(wqe).div_ceil(BLOCK).max(1) as u16
}

/// What [`step`] did.
pub(super) enum Step {
    /// One WQE.
    Executed,
    /// Nothing: there is none, or the queue does not run.
    Idle,
}

/// Executes the next WQE of a queue, or flushes it.
pub(super) fn step(hca: &mut Hca, sqn: u32) -> Step {
    let Hca { net, io, .. } = hca;
    let Some(sq) = net.sqs.get_mut(sqn) else {
        return Step::Idle;
    };
    match sq.state {
        State::Ready => {}
        State::Error => return flush(hca, sqn),
        State::Reset => return Step::Idle,
    }
    let Ok(posted) = sq.wq.posted(io, SEND_COUNTER, sq.consumer) else {
        log::error!("SQ {sqn:#x}: doorbell record is no memory");
        sq.set_state(State::Error);
        return Step::Idle;
    };
    if posted == 0 {
        return Step::Idle;
    }
    let index = sq.consumer;
    let cqn = sq.cqn;
    let fetched = if u32::from(posted) > sq.wq.size() {
        Err(Syndrome::LOCAL_QP_OPERATION)
    } else {
        sq.fetch(io, sqn)
    };
    let blocks = fetched.as_deref().map_or(1, wqe_blocks);
    let executed = fetched.and_then(|wqe| {
        let ctrl = wqe.first_chunk::<{ ctrl::SIZE }>().map(Ctrl::decode);
        let ctrl = ctrl.ok_or(Syndrome::LOCAL_QP_OPERATION)?;
        let len = wqe_len(&wqe);
        let wqe = wqe.get(..len).ok_or(Syndrome::LOCAL_QP_OPERATION)?;
        let head = ctrl.head;
        let fits = len >= ctrl::SIZE && blocks <= posted;
        if !fits || head.qpn != sqn || head.index != index {
            return Err(Syndrome::LOCAL_QP_OPERATION);
        }
        execute(hca, sqn, ctrl.head.opcode, wqe)?;
        Ok(ctrl)
    });
    let Hca {
        net, io, cqs, eqs, ..
    } = hca;
    let Some(sq) = net.sqs.get_mut(sqn) else {
        return Step::Idle;
    };
    sq.consumer = index.wrapping_add(blocks.min(posted));
    match executed {
        Ok(ctrl) => {
            if ctrl.flags.signaled() {
                let opcode = ctrl.head.opcode.0;
                let cqe = cqe::success(io, CqeOpcode::REQ, opcode, sqn, index);
                io.event(sqn, "CQE Write", index.into());
                // A failed CQ has raised its own event.
                let _ = crate::cq::post(cqs, eqs, io, cqn, cqe);
            }
        }
        Err(syndrome) => {
            log::warn!("SQ {sqn:#x}: WQE {index} failed: {}", syndrome.text());
            sq.set_state(State::Error);
            let cqe = cqe::failure(io, CqeOpcode::REQ_ERR, syndrome, sqn, index);
            let _ = crate::cq::post(cqs, eqs, io, cqn, cqe);
        }
    }
    Step::Executed
}

/// Completes the next WQE of a queue in error as flushed.
fn flush(hca: &mut Hca, sqn: u32) -> Step {
    let Hca {
        net, io, cqs, eqs, ..
    } = hca;
    let Some(sq) = net.sqs.get_mut(sqn).filter(|sq| sq.flushes) else {
        return Step::Idle;
    };
    let index = sq.consumer;
    let posted = sq.wq.posted(io, SEND_COUNTER, index).unwrap_or(0);
    if posted == 0 || u32::from(posted) > sq.wq.size() {
        return Step::Idle;
    }
    let Ok(wqe) = sq.fetch(io, sqn) else {
        return Step::Idle;
    };
    sq.consumer = index.wrapping_add(wqe_blocks(&wqe).min(posted));
    let cqe = cqe::failure(io, CqeOpcode::REQ_ERR, Syndrome::FLUSHED, sqn, index);
    io.event(sqn, "Error CQE Write", Syndrome::FLUSHED.0.into());
    // A failed CQ has raised its own event; the flush goes on without it.
    let _ = crate::cq::post(cqs, eqs, io, sq.cqn, cqe);
    Step::Executed
}

/// Does what a WQE says.
fn execute(hca: &mut Hca, sqn: u32, opcode: Opcode, wqe: &[u8]) -> Result<(), Syndrome> {
    let large = match opcode {
        Opcode::NOP => return Ok(()),
        Opcode::SEND => false,
        Opcode::LSO => true,
        _ => return Err(Syndrome::LOCAL_QP_OPERATION),
    };
    let word = |at: usize| {
        let bytes = wqe.get(at..at + 2);
        bytes
            .map(|b| (u16::from(b[0]) << 8) | u16::from(b[1]))
            .ok_or(Syndrome::LOCAL_QP_OPERATION)
    };
    let cs_flags = *wqe.get(ETH_CS_FLAGS).ok_or(Syndrome::LOCAL_QP_OPERATION)?;
    let mss = usize::from(word(ETH_MSS)? & 0x3fff);
    let inline = usize::from(word(ETH_INLINE_SIZE)? & 0x3ff);
    let head = wqe
        .get(ETH_INLINE..ETH_INLINE + inline)
        .ok_or(Syndrome::LOCAL_QP_OPERATION)?;
    // The first two inline bytes are part of the segment.
    let data = ETH + 16 + inline.saturating_sub(2).next_multiple_of(16);
    let mut frame = head.to_vec();
    gather(hca, sqn, wqe.get(data..).unwrap_or(&[]), &mut frame)?;

    let frames = if large {
        frame::segment(&frame, inline, mss).ok_or(Syndrome::LOCAL_QP_OPERATION)?
    } else {
        vec![frame]
    };
    for mut frame in frames {
        // Too short or too long to be sent: lost, as on a cable.
        if frame.len() < 14 || !hca.port.carries(frame.len()) {
            hca.io.counters.frames_dropped += 1;
            continue;
        }
        if let Some(ip) = Headers::parse(&frame).and_then(|headers| headers.ip) {
            if cs_flags & L3_CSUM != 0 {
                frame::write_ip_checksum(&mut frame, &ip);
            }
            if cs_flags & L4_CSUM != 0 {
                frame::write_l4_checksum(&mut frame, &ip);
            }
        }
        if loopback::send(hca, sqn, &frame) == Onward::Wire {
            hca.io.send(frame);
        }
    }
    Ok(())
}

/// Appends what the data segments point to.
fn gather(hca: &mut Hca, sqn: u32, segments: &[u8], frame: &mut Frame) -> Result<(), Syndrome> {
    let Hca { net, mkeys, io, .. } = hca;
    let sq = net.sqs.get(sqn).ok_or(Syndrome::LOCAL_QP_OPERATION)?;
    for segment in Segments::new(segments) {
        match segment.map_err(|_| Syndrome::LOCAL_QP_OPERATION)? {
            Segment::Inline(bytes) => frame.extend_from_slice(bytes),
            Segment::Pointer(data) => {
                let access = Access {
                    key: data.lkey,
                    va: data.addr,
                    len: data.byte_count.into(),
                    right: Right::LocalRead,
                    pd: sq.wq.pd,
                    qpn: sqn,
                    reserved_lkey: sq.reserved_lkey,
                };
                if access.len > MAX_FRAME as u64 {
                    return Err(Syndrome::LOCAL_LENGTH);
                }
                let mut spans = Vec::new();
                mkeys
                    .translate(&access, &mut spans)
                    .map_err(|_| Syndrome::LOCAL_PROTECTION)?;
                for span in spans {
                    let at = frame.len();
                    match span {
                        Span::Memory { addr, len } => {
                            frame.resize(at + len, 0);
                            let part = frame.get_mut(at..).unwrap_or_default();
                            let read = io.memory.read(Kind::Payload, addr, part);
                            read.map_err(|_| Syndrome::LOCAL_PROTECTION)?;
                        }
                        Span::Null { len } => frame.resize(at + len, 0),
                    }
                }
            }
        }
        if frame.len() > MAX_FRAME {
            return Err(Syndrome::LOCAL_LENGTH);
        }
    }
    Ok(())
}
