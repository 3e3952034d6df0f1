// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/mlx5_ulp_demo/run`.

use crate::{
    options::Options,
    transfer::{
        self,
        Report, //
    },
};
use kernel::{
    debugfs::{
        Dir,
        File,
        Reader,
        Writer, //
    },
    fmt,
    new_mutex,
    prelude::*,
    sync::Mutex,
    uaccess::UserSliceReader, //
};

/// Longest option line.
const LINE: usize = 512;

/// The folder and its file, removed when dropped, after a run that is under way.
pub(crate) struct Control {
    _run: Pin<KBox<File<Run>>>,
    _dir: Dir,
}

impl Control {
    /// Makes them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let dir = Dir::new(c"mlx5_ulp_demo");
        let run = KBox::pin_init(
            dir.read_write_file(
                c"run",
                pin_init!(Run {
                    last <- new_mutex!(Outcome::None, "mlx5_ulp_demo_run"),
                }),
            ),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _run: run,
            _dir: dir,
        })
    }
}

/// How the last run ended.
enum Outcome {
    None,
    Refused(&'static str),
    Failed(Error),
    Done(Report),
}

/// The file `run`. One run at a time.
#[pin_data]
struct Run {
    #[pin]
    last: Mutex<Outcome>,
}

impl Reader for Run {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let mut line = [0u8; LINE];
        let len = reader.len();
        let line = line.get_mut(..len).ok_or(EINVAL)?;
        reader.read_slice(line)?;
        let line = core::str::from_utf8(line).map_err(|_| EINVAL)?;

        let mut last = self.last.lock();
        let options = match Options::parse(line) {
            Ok(options) => options,
            Err(reason) => {
                pr_info!("refused: {reason}\n");
                *last = Outcome::Refused(reason);
                return Err(EINVAL);
            }
        };
        match transfer::run(&options) {
            Ok(report) => {
                pr_info!(
                    "{} bytes in {} WRITEs with {} doorbells, sha256 {} sent, {} arrived\n",
                    report.bytes,
                    report.stats.posted,
                    report.stats.doorbells,
                    report.sent,
                    report.arrived
                );
                let same = report.sent == report.arrived;
                *last = Outcome::Done(report);
                if same {
                    Ok(())
                } else {
                    Err(EIO)
                }
            }
            Err(e) => {
                pr_info!("failed: {e:?}\n");
                *last = Outcome::Failed(e);
                Err(e)
            }
        }
    }
}

impl Writer for Run {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.last.lock() {
            Outcome::None => f.write_fmt(fmt!("state idle\n")),
            Outcome::Refused(reason) => f.write_fmt(fmt!("state refused\nreason {reason}\n")),
            Outcome::Failed(e) => f.write_fmt(fmt!("state failed\nreason {e:?}\n")),
            Outcome::Done(report) => {
                let state = if report.sent == report.arrived {
                    "ok"
                } else {
                    "differs"
                };
                f.write_fmt(fmt!("state {state}\nbytes {}\n", report.bytes))?;
                f.write_fmt(fmt!(
                    "writes {}\ndoorbells {}\ncompleted {}\n",
                    report.stats.posted,
                    report.stats.doorbells,
                    report.stats.completed
                ))?;
                f.write_fmt(fmt!(
                    "sha256_sent {}\nsha256_arrived {}\n",
                    report.sent,
                    report.arrived
                ))
            }
        }
    }
}
