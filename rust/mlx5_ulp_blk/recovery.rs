// SPDX-License-Identifier: GPL-2.0

//! What happens when the peer is away.
//!
//! Whoever sees a request fail, or finds that a queue has failed, calls [`Core::lost`]. The work then stops
//! the block layer, takes down all connections, which ends what is in flight and gives it back to
//! the block layer, and tries to connect anew, at once and then once a second. Requests wait meanwhile; when they have waited for
//! `reconnect_s`, which also ends an attempt that waits for an answer, or the disk or its device goes, or a target answers that has not got our data, the disk is given
//! up and they fail.

use crate::{
    channel::Still,
    disk::{
        Control,
        Core, //
    },
    errno::{
        enotconn,
        estale, //
    },
    gendisk::{
        self,
        GenDisk,
        Quiesced, //
    },
    state::State,
    work::Later, //
};
use kernel::{
    prelude::*,
    time::{
        Delta,
        Instant, //
    }, //
};

/// Between two attempts to connect, ms.
const PAUSE_MS: u32 = 1000;

impl Later for Core {
    const LATER: usize = core::mem::offset_of!(Core, work);

    fn later(&self) {
        self.recover();
    }
}

impl Core {
    /// A connection does not work any more. Any context.
    pub(crate) fn lost(&self) {
        if self.condition.lost() {
            self.work.after(0);
        }
    }

    /// Takes down all connections: all that is in flight ends. Sleeps.
    pub(crate) fn disconnect(&self, control: &mut Control) {
        let disk = self.gendisk();
        if disk.is_null() {
            return;
        }
        if control.quiesced.is_none() {
            // SAFETY: The disk is put after the work was disabled and `control.quiesced` is gone.
            control.quiesced = unsafe { Quiesced::new(disk) };
        }
        if let Some(quiesced) = &control.quiesced {
            // SAFETY: The lock is held, as `control` says; what it keeps is of this disk.
            let still = unsafe { Still::new(self.channels(), quiesced) };
            for channel in self.channels() {
                // SAFETY: The channel is one of this disk, and comes here once.
                drop(unsafe { channel.replace(&still, None) });
            }
        }
    }

    /// Brings the disk back, or gives it up. Sleeps.
    fn recover(&self) {
        let mut control = self.control.lock();
        // With the lock: whoever makes the disk has it.
        let disk = self.gendisk();
        if self.state() == State::Live || disk.is_null() {
            return;
        }
        control.lost_at.get_or_insert_with(Instant::now);
        if control.quiesced.is_none() && self.state() == State::Away {
            pr_info!("{}: the target is away\n", self.name());
        }
        self.disconnect(&mut control);

        if self.state() == State::Away && self.is_hasty(&mut control) {
            self.work.after(PAUSE_MS);
            // After that, as below.
            if !self.attempts().are_given_up() {
                return;
            }
        }
        if self.state() == State::Away {
            match self.reconnect(&mut control) {
                Ok(()) => pr_info!("{}: the target is back\n", self.name()),
                Err(e) if e == estale() => {
                    pr_err!(
                        "{}: the target has lost the data of the disk\n",
                        self.name()
                    );
                    self.condition.die();
                }
                Err(e) => {
                    let patient = self.patience_ms(&control) != Some(0);
                    if patient {
                        self.work.after(PAUSE_MS);
                    }
                    // After that: whoever gives up asks for this work behind it, so one of the two sees the other.
                    let wanted = !self.attempts().are_given_up();
                    if patient && wanted {
                        return;
                    }
                    if wanted {
                        pr_err!("{}: the target stays away ({e:?}), given up\n", self.name());
                    }
                    self.condition.die();
                }
            }
        }
        // Requests come again, or fail.
        control.quiesced = None;
        let dead = self.state() == State::Dead;
        let added = control.disk.as_ref().is_some_and(GenDisk::is_added);
        drop(control);
        // SAFETY: The disk is dropped after this work was disabled.
        unsafe { gendisk::kick(disk) };
        if dead && added {
            // SAFETY: As above. It was added, and who deletes it since puts it behind this work, too.
            unsafe { gendisk::mark_dead(disk) };
        }
    }

    /// Whether connections are made and lost faster than attempts are to follow each other, and there is time to wait: a
    /// target that does that would have requests use up theirs at once, and keep us busy without end.
    fn is_hasty(&self, control: &mut Control) -> bool {
        let patient = self.patience_ms(control).is_none_or(|ms| ms > PAUSE_MS);
        let pause = Delta::from_millis(PAUSE_MS.into());
        patient
            && control
                .back_at
                .take()
                .is_some_and(|at| at.elapsed() < pause)
    }

    /// Connects all anew.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if one of the new connections was lost before all were made, or the disk is dead; `ESTALE` if there is a target, but not the one that has the data; those of the connector.
    fn reconnect(&self, control: &mut Control) -> Result {
        self.condition.anew();
        let (links, peer) = self.connect(control)?;
        if control.peer != Some(peer) {
            return Err(estale());
        }
        let Some(quiesced) = &control.quiesced else {
            return Err(EIO);
        };
        // SAFETY: The lock is held, as `control` says; what it keeps is of this disk.
        let still = unsafe { Still::new(self.channels(), quiesced) };
        for (channel, link) in self.channels().iter().zip(links) {
            // SAFETY: The channel is one of this disk, and comes here once.
            drop(unsafe { channel.replace(&still, Some(link)) });
            // The target has destroyed the queue pairs that this was written by.
            channel.flushed(channel.unflushed().unwrap_or(0));
        }
        if !self.condition.back() {
            return Err(enotconn());
        }
        control.lost_at = None;
        control.back_at = Some(Instant::now());
        self.count_reconnect();
        Ok(())
    }
}
