// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::config::{FunctionConfig, Kind};
use crate::iseg::MAX_TIMEOUT;
use crate::timing::Timing;
use crate::wire::Mac;

/// Text of `--help`.
pub const USAGE: &str = "\
usage: connectx --function KIND,socket=PATH[,mac=MAC] ... [options]

Serves the functions of a software ConnectX, each on a vfio-user socket of its own.

  --function KIND,...   a function: pf or vf; socket=PATH, mac=XX:XX:XX:XX:XX:XX, and how
                        it is set up on its bus: aspm=off|l0s|l1|both, mrrs=BYTES,
                        mps=BYTES, rcb=64|128, width=LANES, speed=2.5|5|8|16,
                        msix=VECTORS, msix-table=OFFSET; command-timeout=SECONDS for its driver
  --control PATH        socket for questions: one JSON object per line
  --counters FILE       write all counters as JSON at exit
  --script FILE         requests as for the control socket, executed at the start
  --pcap FILE           record the wire: for tshark, wireshark, tcpdump
  --log FILE            log to a file instead of standard error
  --verbose             log every command
  --timing[=STAGE=NS,...]
                        the stages doorbell, fetch, parse, payload and wire of a send take
                        time: about that of a card, or so many nanoseconds
  --scramble-reserved[=SEED]
                        fill reserved fields of what the device writes with random bytes
  --canary-pages        guard the pages given to the firmware with a pattern
  --help                this text
";

/// A function and its socket.
#[derive(Debug)]
pub struct FunctionArgs {
    /// The function.
    pub config: FunctionConfig,
    /// Its vfio-user socket.
    pub socket: PathBuf,
}

/// What the command line says.
#[derive(Debug, Default)]
pub struct Args {
    /// The functions.
    pub functions: Vec<FunctionArgs>,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// File for the counters at exit.
    pub counters: Option<PathBuf>,
    /// Record of the wire.
    pub pcap: Option<PathBuf>,
    /// Requests to execute at the start.
    pub script: Option<PathBuf>,
    /// Log file.
    pub log: Option<PathBuf>,
    /// Log every command.
    pub verbose: bool,
    /// Only the usage is wanted.
    pub help: bool,
}

fn mac(text: &str) -> Option<Mac> {
    let mut bytes = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok());
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = bytes.next()??;
    }
    (bytes.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

fn function(index: u16, text: &str) -> Result<FunctionArgs, String> {
    let mut parts = text.split(',');
    let kind = match parts.next() {
        Some("pf") => Kind::Pf,
        Some("vf") => Kind::Vf,
        _ => return Err(format!("--function {text}: starts with neither pf nor vf")),
    };
    let mut config = FunctionConfig::new(index, kind);
    let mut socket = None;
    for part in parts {
        match part.split_once('=') {
            Some(("socket", path)) => socket = Some(PathBuf::from(path)),
            Some(("mac", text)) => {
                config.mac = mac(text).ok_or(format!("{text} is no unicast MAC address"))?;
            }
            Some(("command-timeout", text)) => {
                let seconds = text.parse().ok().filter(|s| (1..=MAX_TIMEOUT).contains(s));
                config.command_timeout = Some(seconds.ok_or(format!("{text} is no time-out"))?);
            }
            Some((name, value)) if config.pci.set(name, value).is_some() => {}
            _ => return Err(format!("--function {text}: unknown setting {part}")),
        }
    }
    let socket = socket.ok_or(format!("--function {text}: socket=PATH is missing"))?;
    Ok(FunctionArgs { config, socket })
}

impl Args {
    /// Reads a command line without the program's name.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong.
    pub fn parse<I>(args: I) -> Result<Self, String>
    where
        I: IntoIterator,
        I::Item: Into<std::ffi::OsString>,
    {
        let mut parser = lexopt::Parser::from_args(args);
        let mut parsed = Self::default();
        let mut scramble = None;
        let mut canary = false;
        let mut timing = Timing::default();
        let text = |error: lexopt::Error| error.to_string();
        while let Some(arg) = parser.next().map_err(text)? {
            match arg {
                Long("function") => {
                    let value = parser.value().and_then(|v| v.string()).map_err(text)?;
                    let index = u16::try_from(parsed.functions.len());
                    let index = index.map_err(|_| "too many functions")?;
                    parsed.functions.push(function(index, &value)?);
                }
                Long("control") => parsed.control = Some(parser.value().map_err(text)?.into()),
                Long("counters") => parsed.counters = Some(parser.value().map_err(text)?.into()),
                Long("script") => parsed.script = Some(parser.value().map_err(text)?.into()),
                Long("pcap") => parsed.pcap = Some(parser.value().map_err(text)?.into()),
                Long("log") => parsed.log = Some(parser.value().map_err(text)?.into()),
                Long("verbose") => parsed.verbose = true,
                Long("timing") => {
                    timing = Timing::CARD;
                    if let Some(value) = parser.optional_value() {
                        let value = value.string().map_err(text)?;
                        let set = timing.set(&value);
                        set.ok_or(format!("--timing {value}: not STAGE=NS,..."))?;
                    }
                }
                Long("canary-pages") => canary = true,
                Long("scramble-reserved") => {
                    scramble = Some(match parser.optional_value() {
                        Some(seed) => seed.parse().map_err(text)?,
                        None => 1,
                    });
                }
                Long("help") | Short('h') => parsed.help = true,
                other => return Err(other.unexpected().to_string()),
            }
        }
        for (i, function) in parsed.functions.iter_mut().enumerate() {
            function.config.scramble = scramble.map(|seed: u64| seed.wrapping_add(i as u64));
            function.config.pages.canary = canary;
            function.config.timing = timing;
        }
        if parsed.functions.is_empty() && !parsed.help {
            return Err("no --function given".into());
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_numbered_in_order() {
        let args = Args::parse([
            "--function",
            "pf,socket=/tmp/a,mac=02:00:00:00:00:0a,msix=8",
            "--function=vf,socket=/tmp/b,command-timeout=20",
            "--scramble-reserved=7",
            "--canary-pages",
            "--timing=wire=5",
        ]);
        let args = args.unwrap();
        let [a, b] = &args.functions[..] else {
            panic!("{args:?}");
        };
        assert_eq!(
            (a.config.name(), b.config.name()),
            ("pf0".into(), "vf1".into())
        );
        assert_eq!(a.config.mac, [2, 0, 0, 0, 0, 0xa]);
        assert_eq!((a.config.pci.vectors, b.config.pci.vectors), (8, 64));
        let timeouts = (a.config.command_timeout, b.config.command_timeout);
        assert_eq!(timeouts, (None, Some(20)));
        assert_eq!((a.config.scramble, b.config.scramble), (Some(7), Some(8)));
        assert!(a.config.pages.canary);
        let wire = 5;
        let want = Timing {
            wire,
            ..Timing::CARD
        };
        assert_eq!((a.config.timing, b.config.timing), (want, want));
        assert_ne!(a.config.mac, b.config.mac);
    }

    #[test]
    fn mistakes_are_named() {
        for (args, reason) in [
            (vec![], "no --function given"),
            (vec!["--function", "pf"], "socket=PATH is missing"),
            (vec!["--function", "nic,socket=x"], "neither pf nor vf"),
            (
                vec!["--function", "pf,socket=x,mac=01:00:00:00:00:00"],
                "no unicast MAC",
            ),
            (
                vec!["--function", "pf,socket=x,color=red"],
                "unknown setting color=red",
            ),
            (
                vec!["--function", "pf,socket=x,mrrs=100"],
                "unknown setting mrrs=100",
            ),
            (
                vec!["--function", "pf,socket=x,command-timeout=0"],
                "0 is no time-out",
            ),
            (vec!["--timing=wire"], "--timing wire: not STAGE=NS"),
            (vec!["--frobnicate"], "--frobnicate"),
        ] {
            let error = Args::parse(args).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
