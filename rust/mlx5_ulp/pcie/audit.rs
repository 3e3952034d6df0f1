// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What of a function's PCI Express set-up costs throughput or latency.
//!
//! Looks at [registers](super::registers) that were read before, changes nothing.

use super::registers::{
    Express,
    Msix, //
};
use core::fmt;

/// Smallest maximum read request with which WQE and payload fetches keep the link busy, bytes.
const GOOD_MRRS: u32 = 256;
/// Smallest maximum payload of a virtual function that keeps packet overhead low, bytes.
const GOOD_VF_MPS: u32 = 256;
/// A table within pages of its own can be trapped without trapping its neighbours, bytes.
const TABLE_ALIGNMENT: u32 = 4096;
/// Vectors that are not for completions: the asynchronous event queue.
const OTHER_VECTORS: u32 = 1;

/// What a function is in the scheme of single-root virtualization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A physical function with that many virtual ones enabled.
    Physical(u16),
    /// A virtual function beside its physical one.
    Virtual,
    /// A virtual function whose physical one another system has.
    PassedThrough,
}

/// All that is known of a function.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its own capability. Of a virtual function beside its physical one, that of the physical one:
    /// its own control registers are not implemented.
    pub function: Option<Express>,
    /// That of the port above.
    pub port: Option<Express>,
    /// Its vectors.
    pub msix: Option<Msix>,
    /// Its role.
    pub role: Role,
    /// Completion vectors that the driver uses.
    pub vectors_used: u32,
    /// CPUs that are online.
    pub cpus: u32,
    /// Completion queues of this module.
    pub queues: u32,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to gain.
    Ok,
    /// Something to gain: see the advice.
    Warn,
    /// The system does not tell.
    Unknown,
}

/// One line of the audit.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// What was found.
    detail: Detail,
    /// What to do about it, if anything.
    advice: &'static str,
}

/// Values of a finding, by the way they are told.
#[derive(Clone, Copy, Debug)]
enum Detail {
    NotTold,
    Speed { is: u32, could: u32 },
    Width { is: u32, could: u32 },
    Aspm(u16),
    Bytes(u32),
    Payload { is: u32, port: Option<u32> },
    Offset(u32),
    Vectors { used: u32, cpus: u32, queues: u32 },
    Role(Role),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Unknown => "unknown",
        };
        write!(f, "{} {verdict} {}", self.name, self.detail)?;
        if self.verdict == Verdict::Warn {
            write!(f, ": {}", self.advice)?;
        }
        Ok(())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Detail::NotTold => f.write_str("not told"),
            Detail::Speed { is, could } if is < could => {
                write!(f, "{} of {}", Rate(is), Rate(could))
            }
            Detail::Speed { is, .. } => write!(f, "{}", Rate(is)),
            Detail::Width { is, could } if is < could => write!(f, "x{is} of x{could}"),
            Detail::Width { is, .. } => write!(f, "x{is}"),
            Detail::Aspm(0) => f.write_str("off"),
            Detail::Aspm(1) => f.write_str("L0s"),
            Detail::Aspm(2) => f.write_str("L1"),
            Detail::Aspm(_) => f.write_str("L0s and L1"),
            Detail::Bytes(n) => write!(f, "{n} bytes"),
            Detail::Payload { is, port: Some(p) } if p != is => {
                write!(f, "{is} bytes, {p} at the port")
            }
            Detail::Payload { is, .. } => write!(f, "{is} bytes"),
            Detail::Offset(n) => write!(f, "table at {n:#x}"),
            Detail::Vectors { used, cpus, queues } => write!(
                f,
                "{used} completion vectors, {cpus} CPUs, {queues} completion queues"
            ),
            Detail::Role(Role::Physical(0)) => f.write_str("physical function"),
            Detail::Role(Role::Physical(n)) => {
                write!(f, "physical function with {n} virtual functions")
            }
            Detail::Role(Role::Virtual) => f.write_str("virtual function"),
            Detail::Role(Role::PassedThrough) => {
                f.write_str("virtual function, its physical function is elsewhere")
            }
        }
    }
}

/// Transfer rate of a generation.
struct Rate(u32);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "2.5 GT/s",
            2 => "5 GT/s",
            3 => "8 GT/s",
            4 => "16 GT/s",
            5 => "32 GT/s",
            6 => "64 GT/s",
            _ => "an unknown rate",
        })
    }
}

/// Number of findings.
pub const CHECKS: usize = 9;

/// Looks at all there is to look at.
pub fn audit(facts: &Facts) -> [Finding; CHECKS] {
    [
        link_speed(facts),
        link_width(facts),
        aspm(facts),
        read_completion_boundary(facts),
        read_request(facts),
        payload(facts),
        msix_table(facts),
        msix_vectors(facts),
        role(facts),
    ]
}

/// A finding that is good or bad.
fn finding(name: &'static str, good: bool, detail: Detail, advice: &'static str) -> Finding {
    Finding {
        name,
        verdict: if good { Verdict::Ok } else { Verdict::Warn },
        detail,
        advice,
    }
}

/// A check that could not be made.
fn unknown(name: &'static str) -> Finding {
    Finding {
        name,
        verdict: Verdict::Unknown,
        detail: Detail::NotTold,
        advice: "",
    }
}

/// The lesser of what both ends could do, or what the one can that is known.
fn both(facts: &Facts, could: impl Fn(&Express) -> u32) -> u32 {
    [facts.function, facts.port]
        .iter()
        .flatten()
        .map(could)
        .filter(|n| *n != 0)
        .min()
        .unwrap_or(0)
}

fn link_speed(facts: &Facts) -> Finding {
    const NAME: &str = "link_speed";
    let Some(is) = facts.function.map(|e| e.speed()).filter(|n| *n != 0) else {
        return unknown(NAME);
    };
    let could = both(facts, Express::speed_supported);
    finding(
        NAME,
        is >= could,
        Detail::Speed { is, could },
        "the link trained down; look for errors (lspci -vv, AER), the slot's setting and its riser",
    )
}

fn link_width(facts: &Facts) -> Finding {
    const NAME: &str = "link_width";
    let Some(is) = facts.function.map(|e| e.width()).filter(|n| *n != 0) else {
        return unknown(NAME);
    };
    let could = both(facts, Express::width_supported);
    finding(
        NAME,
        is >= could,
        Detail::Width { is, could },
        "lanes are missing; use a slot that has all of them, and look at bifurcation",
    )
}

fn aspm(facts: &Facts) -> Finding {
    const NAME: &str = "aspm";
    let Some(function) = facts.function else {
        return unknown(NAME);
    };
    let states = function.aspm() | facts.port.map_or(0, |p| p.aspm());
    finding(
        NAME,
        states == 0,
        Detail::Aspm(states),
        "leaving a power-saving state costs microseconds; boot with pcie_aspm=off or write \
         performance to /sys/module/pcie_aspm/parameters/policy",
    )
}

fn read_completion_boundary(facts: &Facts) -> Finding {
    const NAME: &str = "rcb";
    let Some(function) = facts.function else {
        return unknown(NAME);
    };
    let boundary = function
        .boundary()
        .max(facts.port.map_or(0, |p| p.boundary()));
    finding(
        NAME,
        boundary == 64,
        Detail::Bytes(boundary),
        "reads are answered in pieces that end at 128 bytes, a WQE has 64; set it to 64 in the \
         firmware set-up",
    )
}

fn read_request(facts: &Facts) -> Finding {
    const NAME: &str = "mrrs";
    let Some(function) = facts.function else {
        return unknown(NAME);
    };
    let is = function.read_request();
    finding(
        NAME,
        is >= GOOD_MRRS,
        Detail::Bytes(is),
        "payload is fetched in too small pieces; setpci -s <bdf> CAP_EXP+8.w=2000:7000 makes it 512",
    )
}

fn payload(facts: &Facts) -> Finding {
    const NAME: &str = "mps";
    let Some(function) = facts.function else {
        return unknown(NAME);
    };
    let is = function.payload();
    let port = facts.port.map(|p| p.payload());
    let detail = Detail::Payload { is, port };
    if port.is_some_and(|p| p != is) {
        return finding(
            NAME,
            false,
            detail,
            "both ends must agree; boot with pci=pcie_bus_safe",
        );
    }
    let wanted = match facts.role {
        Role::Physical(_) => both(facts, Express::payload_supported),
        Role::Virtual | Role::PassedThrough => GOOD_VF_MPS,
    };
    finding(
        NAME,
        is >= wanted,
        detail,
        "packets are smaller than they could be; boot with pci=pcie_bus_perf (for a virtual \
         function: on its host)",
    )
}

fn msix_table(facts: &Facts) -> Finding {
    const NAME: &str = "msix_table";
    let Some(msix) = facts.msix else {
        return unknown(NAME);
    };
    finding(
        NAME,
        msix.offset() % TABLE_ALIGNMENT == 0,
        Detail::Offset(msix.offset()),
        "the table shares a page with other registers; a hypervisor has to trap these, too",
    )
}

fn msix_vectors(facts: &Facts) -> Finding {
    const NAME: &str = "msix_vectors";
    let Some(msix) = facts.msix else {
        return unknown(NAME);
    };
    let detail = Detail::Vectors {
        used: facts.vectors_used,
        cpus: facts.cpus,
        queues: facts.queues,
    };
    if msix.vectors() < facts.cpus.saturating_add(OTHER_VECTORS) {
        return finding(
            NAME,
            false,
            detail,
            "there are fewer vectors than CPUs: completions of several CPUs share one; raise \
             NUM_PF_MSIX or NUM_VF_MSIX in the firmware's configuration (mlxconfig)",
        );
    }
    finding(
        NAME,
        facts.vectors_used >= facts.cpus,
        detail,
        "the driver uses fewer vectors than there are CPUs; look at the channels of its network \
         device and at its log",
    )
}

fn role(facts: &Facts) -> Finding {
    finding("sriov", true, Detail::Role(facts.role), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gen 4 x16, MPS 256, MRRS 512, everything as it should be.
    const GOOD: Express = Express {
        dev_cap: 1,
        dev_ctl: 0x2020,
        link_cap: 0x104,
        link_ctl: 0,
        link_sta: 0x104,
    };

    fn facts() -> Facts {
        Facts {
            function: Some(GOOD),
            port: Some(GOOD),
            msix: Some(Msix {
                control: 63,
                table: 0x2000,
            }),
            role: Role::Physical(0),
            vectors_used: 8,
            cpus: 8,
            queues: 3,
        }
    }

    /// The line of one check.
    fn line(facts: &Facts, name: &str) -> String {
        audit(facts)
            .iter()
            .find(|f| f.name == name)
            .expect("there is such a check")
            .to_string()
    }

    #[track_caller]
    fn warns(name: &str, text: &str, change: impl Fn(&mut Facts)) {
        let mut facts = facts();
        change(&mut facts);
        let line = line(&facts, name);
        assert!(line.starts_with(&format!("{name} warn {text}: ")), "{line}");
        // And nothing else changed its mind.
        for finding in audit(&facts) {
            assert!(
                finding.name == name || finding.verdict == Verdict::Ok,
                "{finding}"
            );
        }
    }

    fn function(facts: &mut Facts) -> &mut Express {
        facts.function.as_mut().expect("it was set")
    }

    fn port(facts: &mut Facts) -> &mut Express {
        facts.port.as_mut().expect("it was set")
    }

    #[test]
    fn a_good_set_up_has_no_warning() {
        for finding in audit(&facts()) {
            assert_eq!(finding.verdict, Verdict::Ok, "{finding}");
        }
        assert_eq!(line(&facts(), "link_speed"), "link_speed ok 16 GT/s");
        assert_eq!(line(&facts(), "link_width"), "link_width ok x16");
    }

    #[test]
    fn each_fault_warns_of_itself_only() {
        warns("link_speed", "8 GT/s of 16 GT/s", |f| {
            function(f).link_sta = 0x103
        });
        warns("link_width", "x4 of x16", |f| function(f).link_sta = 0x044);
        warns("aspm", "L1", |f| function(f).link_ctl = 2);
        warns("aspm", "L0s", |f| port(f).link_ctl = 1);
        warns("rcb", "128 bytes", |f| function(f).link_ctl = 8);
        warns("rcb", "128 bytes", |f| port(f).link_ctl = 8);
        warns("mrrs", "128 bytes", |f| function(f).dev_ctl = 0x0020);
        warns("mps", "128 bytes, 256 at the port", |f| {
            function(f).dev_ctl = 0x2000
        });
        warns("mps", "256 bytes, 128 at the port", |f| {
            port(f).dev_ctl = 0x2000
        });
        warns("mps", "128 bytes", |f| {
            function(f).dev_ctl = 0x2000;
            port(f).dev_ctl = 0x2000;
        });
        warns("msix_table", "table at 0x2800", |f| {
            f.msix.as_mut().expect("it was set").table = 0x2800
        });
        warns(
            "msix_vectors",
            "8 completion vectors, 64 CPUs, 3 completion queues",
            |f| f.cpus = 64,
        );
        warns(
            "msix_vectors",
            "2 completion vectors, 8 CPUs, 3 completion queues",
            |f| f.vectors_used = 2,
        );
        // One of the table's eight is not for completions.
        warns(
            "msix_vectors",
            "8 completion vectors, 8 CPUs, 3 completion queues",
            |f| f.msix.as_mut().expect("it was set").control = 7,
        );
    }

    #[test]
    fn the_advice_is_for_the_cause() {
        let advised = |name, change: &dyn Fn(&mut Facts), advice| {
            let mut facts = facts();
            change(&mut facts);
            let line = line(&facts, name);
            assert!(line.contains(&format!(": {advice}")), "{line}");
        };
        advised(
            "mps",
            &|f| function(f).dev_ctl = 0x2000,
            "both ends must agree",
        );
        advised(
            "mps",
            &|f| {
                function(f).dev_ctl = 0x2000;
                port(f).dev_ctl = 0x2000;
            },
            "packets are smaller",
        );
        advised(
            "msix_vectors",
            &|f| f.cpus = 64,
            "there are fewer vectors than CPUs",
        );
        advised(
            "msix_vectors",
            &|f| f.vectors_used = 2,
            "the driver uses fewer vectors",
        );
    }

    #[test]
    fn a_slow_port_is_no_fault_of_the_link() {
        let mut facts = facts();
        port(&mut facts).link_cap = 0x083;
        function(&mut facts).link_sta = 0x083;
        assert_eq!(line(&facts, "link_speed"), "link_speed ok 8 GT/s");
        assert_eq!(line(&facts, "link_width"), "link_width ok x8");
    }

    #[test]
    fn a_virtual_function_wants_256_bytes() {
        let mut facts = facts();
        facts.role = Role::PassedThrough;
        facts.port = None;
        assert_eq!(line(&facts, "mps"), "mps ok 256 bytes");
        function(&mut facts).dev_ctl = 0x2000;
        assert!(line(&facts, "mps").starts_with("mps warn 128 bytes: "));
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let mut facts = facts();
        facts.function = None;
        facts.msix = None;
        for finding in audit(&facts) {
            let verdict = if finding.name == "sriov" {
                Verdict::Ok
            } else {
                Verdict::Unknown
            };
            assert_eq!(finding.verdict, verdict, "{finding}");
        }
        facts.function = Some(Express {
            link_sta: 0,
            ..GOOD
        });
        assert_eq!(line(&facts, "link_width"), "link_width unknown not told");
    }
}
