// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Faults: what goes wrong on purpose.
//!
//! A [`Rule`] waits for its occasion: a completion, a WQE, a packet, a doorbell, a command. Its text form is one JSON
//! object, from a file or the control socket ([`crate::control`]). What happens at once instead is an [`Injection`].
//!
//! The code that a fault changes asks here, so that all else is as without the fault: a send that fails by a rule puts
//! its queue pair in error like any other.

mod injection;
mod wire;

pub use injection::{inject, Injection};
pub use wire::LateFrames;

use serde::{Deserialize, Serialize};

use crate::cmd::{CmdError, Status};
use crate::wire::NakCode;

/// How long a delayed frame waits at most for others to overtake it, in nanoseconds.
const MAX_LATE: u64 = 1_000_000;

/// What a responder answers in place of what it would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Receiver not ready; not carried out.
    NotReady,
    /// A packet before this one is missing; not carried out.
    Sequence,
    /// The queue pair fails, as after a request that means nothing.
    InvalidRequest,
    /// The queue pair fails, as after a wrong key, address or right.
    RemoteAccess,
    /// The queue pair fails, as after a failure of the responder's own.
    RemoteOperation,
}

impl Refusal {
    /// The code of a negative acknowledgment; `None` for "receiver not ready", which has another form.
    pub fn nak(self) -> Option<NakCode> {
        match self {
            Refusal::NotReady => None,
            Refusal::Sequence => Some(NakCode::PsnSequence),
            Refusal::InvalidRequest => Some(NakCode::InvalidRequest),
            Refusal::RemoteAccess => Some(NakCode::RemoteAccess),
            Refusal::RemoteOperation => Some(NakCode::RemoteOperation),
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Completions come late and together: `ns` nanoseconds after the first of them, or as soon as there are `bunch`.
    CqeDelay {
        ns: u64,
        #[serde(default)]
        bunch: Option<usize>,
    },
    /// A completion is not written.
    CqeDrop {},
    /// A completion is written twice.
    CqeDouble {},
    /// A send WQE fails with this syndrome.
    SendError {
        syndrome: u8,
        #[serde(default)]
        vendor: u8,
    },
    /// A receive that a SEND takes fails with this syndrome.
    ReceiveError {
        syndrome: u8,
        #[serde(default)]
        vendor: u8,
    },
    /// A request is refused.
    Nak { code: Refusal },
    /// A send doorbell does not arrive.
    DoorbellLoss {},
    /// A RoCE frame that the function sends does not arrive.
    FrameLoss {},
    /// It arrives twice.
    FrameDouble {},
    /// It arrives after `frames` others, or a millisecond later.
    FrameDelay { frames: u32 },
    /// A command is not executed, and answers this status and syndrome.
    CommandFailure {
        #[serde(default)]
        opcode: Option<u16>,
        status: u8,
        #[serde(default)]
        syndrome: u32,
    },
    /// A command is neither executed nor answered.
    CommandTimeout {
        #[serde(default)]
        opcode: Option<u16>,
    },
}

fn one() -> u64 {
    1
}

/// A fault and its occasion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub fault: Fault,
    /// Only this queue: CQN of a completion, destination QPN of a frame, QPN or SQN of all else.
    #[serde(default)]
    pub queue: Option<u32>,
    /// Occasions that are let pass before the first.
    #[serde(default)]
    pub after: u64,
    /// Then each so-many-th occasion.
    #[serde(default = "one")]
    pub every: u64,
    /// How often it happens; 0: without end.
    #[serde(default = "one")]
    pub count: u64,
    /// Occasions seen so far, and how often it happened.
    #[serde(skip_deserializing)]
    pub seen: u64,
    #[serde(skip_deserializing)]
    pub hits: u64,
}

impl Rule {
    /// A fault at the next occasion.
    pub fn once(fault: Fault) -> Self {
        Rule {
            fault,
            queue: None,
            after: 0,
            every: 1,
            count: 1,
            seen: 0,
            hits: 0,
        }
    }

    /// An occasion: does it happen?
    fn strikes(&mut self) -> bool {
        if self.count != 0 && self.hits >= self.count {
            return false;
        }
        let nth = self.seen;
        self.seen += 1;
        // `every` of 0 stands for 1.
        let strikes = nth
            .checked_sub(self.after)
            .is_some_and(|n| n % self.every.max(1) == 0);
        self.hits += u64::from(strikes);
        strikes
    }
}

/// What becomes of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    Dropped,
    Doubled,
    Delayed { ns: u64, bunch: usize },
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transit {
    Lost,
    Doubled,
    Late { frames: u32 },
}

/// The rules of a function.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    /// Adds a rule, behind the others.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn add(&mut self, rule: Rule) -> Result<(), &'static str> {
        if let Fault::CommandFailure { status, .. } = rule.fault {
            if Status::from_number(status).is_none_or(|status| status == Status::Ok) {
                return Err("no such status of a failed command");
            }
        }
        if matches!(rule.fault, Fault::CqeDelay { bunch: Some(0), .. }) {
            return Err("a bunch is at least one");
        }
        self.rules.push(rule);
        Ok(())
    }

    /// All rules, with what they did so far.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Takes all rules away.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// The first rule among those that `choose` chooses that happens now.
    fn find<T>(&mut self, queue: Option<u32>, choose: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.rules
            .iter_mut()
            .filter(|rule| rule.queue.is_none() || rule.queue == queue)
            .find_map(|rule| choose(&rule.fault).filter(|_| rule.strikes()))
    }

    /// A completion is about to be written.
    pub fn completion(&mut self, cqn: u32) -> Option<Completion> {
        self.find(Some(cqn), |fault| match *fault {
            Fault::CqeDrop {} => Some(Completion::Dropped),
            Fault::CqeDouble {} => Some(Completion::Doubled),
            Fault::CqeDelay { ns, bunch } => Some(Completion::Delayed {
                ns,
                bunch: bunch.unwrap_or(usize::MAX),
            }),
            _ => None,
        })
    }

    /// A send WQE was taken: syndrome and vendor syndrome if it fails.
    pub fn send(&mut self, qpn: u32) -> Option<(u8, u8)> {
        self.find(Some(qpn), |fault| match *fault {
            Fault::SendError { syndrome, vendor } => Some((syndrome, vendor)),
            _ => None,
        })
    }

    /// A receive is about to be filled: syndrome and vendor syndrome if it fails.
    pub fn receive(&mut self, qpn: u32) -> Option<(u8, u8)> {
        self.find(Some(qpn), |fault| match *fault {
            Fault::ReceiveError { syndrome, vendor } => Some((syndrome, vendor)),
            _ => None,
        })
    }

    /// A request is about to be carried out.
    pub fn request(&mut self, qpn: u32) -> Option<Refusal> {
        self.find(Some(qpn), |fault| match *fault {
            Fault::Nak { code } => Some(code),
            _ => None,
        })
    }

    /// A send doorbell arrives: is it lost?
    pub fn loses_doorbell(&mut self, queue: u32) -> bool {
        let lost = self.find(Some(queue), |fault| {
            (*fault == Fault::DoorbellLoss {}).then_some(())
        });
        lost.is_some()
    }

    /// A frame is sent. Only RoCE frames are looked at.
    pub fn frame(&mut self, frame: &[u8]) -> Option<Transit> {
        if self.rules.is_empty() {
            return None;
        }
        let queue = crate::wire::destination(frame)?;
        self.find(Some(queue), |fault| match *fault {
            Fault::FrameLoss {} => Some(Transit::Lost),
            Fault::FrameDouble {} => Some(Transit::Doubled),
            Fault::FrameDelay { frames } => Some(Transit::Late { frames }),
            _ => None,
        })
    }

    /// A command is about to be executed: how it fails, and with which syndrome.
    pub fn command_failure(&mut self, opcode: u16) -> Option<(CmdError, u32)> {
        self.find(None, |fault| match *fault {
            Fault::CommandFailure {
                opcode: wanted,
                status,
                syndrome,
            } if wanted.is_none_or(|wanted| wanted == opcode) => Status::from_number(status)
                .map(|status| (CmdError::new(status, "fault by a rule"), syndrome)),
            _ => None,
        })
    }

    /// A command was taken from the queue: is it never answered?
    pub fn command_times_out(&mut self, opcode: u16) -> bool {
        let lost = self.find(None, |fault| match *fault {
            Fault::CommandTimeout { opcode: wanted } => {
                wanted.is_none_or(|wanted| wanted == opcode).then_some(())
            }
            _ => None,
        });
        lost.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_its_occasions() {
        let mut faults = Faults::default();
        faults
            .add(Rule {
                queue: Some(7),
                after: 2,
                every: 3,
                count: 2,
                ..Rule::once(Fault::CqeDrop {})
            })
            .unwrap();
        let hits: Vec<bool> = (0..12).map(|_| faults.completion(7).is_some()).collect();
        let struck: Vec<usize> = (0..12).filter(|i| hits[*i]).collect();
        assert_eq!(struck, [2, 5]);
        assert_eq!(faults.completion(8), None);
        assert_eq!(faults.rules()[0].hits, 2);
    }

    #[test]
    fn rules_for_one_occasion_take_turns() {
        let mut faults = Faults::default();
        faults.add(Rule::once(Fault::CqeDrop {})).unwrap();
        faults.add(Rule::once(Fault::CqeDouble {})).unwrap();
        assert_eq!(faults.completion(1), Some(Completion::Dropped));
        assert_eq!(faults.completion(1), Some(Completion::Doubled));
        assert_eq!(faults.completion(1), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut faults = Faults::default();
        for text in [
            r#"{"fault":{"kind":"command-failure","status":0}}"#,
            r#"{"fault":{"kind":"command-failure","status":11}}"#,
            r#"{"fault":{"kind":"cqe-delay","ns":5,"bunch":0}}"#,
        ] {
            let rule: Rule = serde_json::from_str(text).unwrap();
            assert!(faults.add(rule).is_err(), "{text}");
        }
        for text in [
            r#"{"fault":{"kind":"bad-weather"}}"#,
            r#"{"fault":{"kind":"cqe-drop","colour":"red"}}"#,
            r#"{"fault":{"kind":"cqe-drop"},"when":3}"#,
            r#"{"fault":{"kind":"nak","code":"nonsense"}}"#,
        ] {
            assert!(serde_json::from_str::<Rule>(text).is_err(), "{text}");
        }
        assert!(faults.rules().is_empty());
    }
}
