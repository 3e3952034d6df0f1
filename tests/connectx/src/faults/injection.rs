// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What happens to a function at once.

use serde::Deserialize;

use crate::cq;
use crate::cqfmt::cqe::{self, Opcode, Tail};
use crate::eq::AsyncEvent;
use crate::hca::Hca;
use crate::io::Scramble;

fn unknown_queue() -> u32 {
    0xff_fffe
}

fn unlikely_index() -> u16 {
    0xffff
}

/// An event that the function does not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Injection {
    /// A completion that nothing completed, at the producer index of a queue.
    Cqe {
        cqn: u32,
        /// The queue pair that it names.
        #[serde(default = "unknown_queue")]
        qpn: u32,
        /// The WQE that it names.
        #[serde(default = "unlikely_index")]
        index: u16,
        /// What it says that it is (`MLX5_CQE_*`); 0 is a send that was carried out.
        #[serde(default)]
        opcode: u8,
        /// The owner bit of the round before: an entry that is not there yet. It is overwritten by the next one.
        #[serde(default)]
        wrong_owner: bool,
        /// Random bytes from this seed in place of all of the above.
        #[serde(default)]
        garbage: Option<u64>,
    },
    /// An entry of an event queue.
    Eqe {
        eqn: u32,
        /// Event type (`MLX5_EVENT_TYPE_*`).
        event: u8,
        /// The queue that it names.
        #[serde(default = "unknown_queue")]
        number: u32,
        #[serde(default)]
        wrong_owner: bool,
        /// Random bytes from this seed in place of the event's data.
        #[serde(default)]
        garbage: Option<u64>,
    },
    /// The firmware dies: the health buffer says so, its counter stands still, no command is answered.
    Fatal {
        /// `health_buffer.synd`, not 0.
        syndrome: u8,
    },
    /// The cable is plugged in or pulled out.
    Port { up: bool },
    /// A reset that the driver does not know of: all objects are gone.
    Reset {},
    /// The card is pulled out: reads give all ones, writes go nowhere. Until the VMM connects anew.
    Remove {},
}

/// Makes it happen.
///
/// # Errors
///
/// When there is no such queue, or a value is out of its range.
pub fn inject(hca: &mut Hca, injection: Injection) -> Result<(), &'static str> {
    match injection {
        Injection::Cqe {
            cqn,
            qpn,
            index,
            opcode,
            wrong_owner,
            garbage,
        } => {
            if opcode > 15 {
                return Err("the opcode of a completion has four bits");
            }
            let mut entry = [0; cqe::SIZE];
            match garbage {
                Some(seed) => Scramble::new(seed).fill(&mut entry),
                None => {
                    let tail = Tail {
                        wqe_opcode: 0,
                        qpn,
                        wqe_counter: index,
                        signature: 0,
                        op_own: Tail::op_own(Opcode(opcode), false, 0, 0),
                    };
                    if let Some(end) = entry.last_chunk_mut() {
                        *end = tail.encode();
                    }
                }
            }
            cq::forge(hca, cqn, entry, wrong_owner)
        }
        Injection::Eqe {
            eqn,
            event,
            number,
            wrong_owner,
            garbage,
        } => {
            let mut data = [0; 28];
            match garbage {
                Some(seed) => Scramble::new(seed).fill(&mut data),
                None => {
                    // Completion and queue events have their number at the end, CQ errors at the start.
                    data[24..].copy_from_slice(&number.to_be_bytes());
                    if event == 4 {
                        data[..4].copy_from_slice(&number.to_be_bytes());
                    }
                }
            }
            let eq = hca.eqs.table.get_mut(eqn).ok_or("no such event queue")?;
            eq.forge(&mut hca.io, event, &data, wrong_owner);
            Ok(())
        }
        Injection::Fatal { syndrome: 0 } => Err("0 is no health syndrome"),
        Injection::Fatal { syndrome } => {
            hca.iseg.die(syndrome, hca.io.now);
            Ok(())
        }
        Injection::Port { up } => {
            if hca.port.plug(up) {
                let up = hca.port.link_up();
                hca.eqs.asynchronous(&mut hca.io, AsyncEvent::Port { up });
            }
            Ok(())
        }
        Injection::Reset {} => {
            hca.reset();
            Ok(())
        }
        Injection::Remove {} => {
            hca.remove();
            Ok(())
        }
    }
}
