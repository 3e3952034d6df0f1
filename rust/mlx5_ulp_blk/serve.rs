// SPDX-License-Identifier: GPL-2.0

//! An export that waits for disks at a port.
//!
//! One queue serves each queue of a disk. It goes when its connection has ended, when the disk does not
//! [answer](crate::alive), or when the same queue of the same disk comes again, which has lost its connections then,
//! all of them: the newcomer is refused until the old queue pairs are destroyed, and tries again.

use crate::{
    alive::{
        self,
        Alive, //
    },
    export::Export,
    greeting::{
        Guest,
        ANSWER, //
    },
    ulp::{
        Queue,
        Request, //
    },
    ulp_cm::{
        self,
        Address,
        Conn,
        Decide,
        Offer,
        Welcome, //
    },
    work::{
        DelayedWork,
        Later, //
    },
    work_item::{
        Work,
        WorkItem, //
    }, //
};
use core::mem::offset_of;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Requests that may wait for the decision.
const BACKLOG: i32 = 128;
/// Most queues that one export serves.
const MAX_GUESTS: usize = 4096;

/// A queue that serves one of a disk.
struct Served {
    guest: Guest,
    /// With its queue; `None` while it is being given back.
    conn: Option<Conn>,
    alive: Arc<Request<Alive>>,
}

/// What a listener knows.
#[pin_data]
struct Service {
    export: Arc<Export>,
    answer: [u8; ANSWER],
    #[pin]
    served: Mutex<KVec<Served>>,
    /// Gives back queues whose disk is gone.
    #[pin]
    reap: WorkItem,
    /// Asks disks whether they are there.
    #[pin]
    pulse: DelayedWork,
}

/// Waits for disks, until it is dropped.
pub(crate) struct Listener {
    /// `None` when it is being dropped.
    listener: Option<ulp_cm::Listener<Service>>,
    service: Arc<Service>,
}

impl Listener {
    /// Waits at a port of all addresses. Sleeps.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else does, `ENOMEM`.
    pub(crate) fn new(export: Arc<Export>, port: u16) -> Result<Self> {
        let answer = export.peer().encode();
        let service = Arc::pin_init(
            try_pin_init!(Service {
                export,
                answer,
                served <- new_mutex!(KVec::new(), "mlx5_ulp_blk_served"),
                // SAFETY: At the offset that is told; `drop` disables it.
                reap <- unsafe { WorkItem::new::<Service>() },
                // SAFETY: As above.
                pulse <- unsafe { DelayedWork::new::<Service>(None) },
            }? Error),
            GFP_KERNEL,
        )?;
        let listener = ulp_cm::Listener::new(&Address::any(port)?, BACKLOG, service.clone())?;
        let this = Self {
            listener: Some(listener),
            service,
        };
        this.service.pulse.after(alive::PERIOD_MS);
        Ok(this)
    }

    /// How many queues are served. Sleeps.
    pub(crate) fn serves(&self) -> usize {
        self.service.served.lock().len()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.listener.take());
        self.service.pulse.disable();
        // Before what it may be giving back goes; what ends from here on asks for it in vain.
        self.service.reap.disable();
        let served = core::mem::take(&mut *self.service.served.lock());
        drop(served);
    }
}

impl Decide for Service {
    type Queue = Queue;
    type Guest = (Guest, Arc<Request<Alive>>);

    /// Whether it is a disk that may come.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a disk, `EBUSY` as long as its old queue pair is there, `ENOSPC`, and those of making a
    /// queue.
    fn request(&self, offer: &mut Offer<'_>) -> Result<Welcome<Queue, Self::Guest>> {
        let guest = Guest::decode(offer.data()).ok_or(EINVAL)?;
        let mut served = self.served.lock();
        if served.iter().any(|s| s.guest == guest) {
            // A disk connects all of its queues or none. One by one they would cost it as many attempts as
            // there are: each would find the next.
            for old in served.iter().filter(|s| s.guest.disk == guest.disk) {
                old.alive.data().part();
            }
            return Err(EBUSY);
        }
        if served.len() >= MAX_GUESTS {
            return Err(ENOSPC);
        }
        let queue = self.export.serving_queue()?;
        // SAFETY: The service gives back what it serves before it goes.
        let alive = unsafe { Alive::new(&self.reap)? };
        // For `accepted`: nobody else adds to them meanwhile.
        served.reserve(1, GFP_KERNEL)?;
        offer.say(&self.answer)?;
        Ok(Welcome {
            queue,
            events: alive.clone(),
            guest: (guest, alive),
        })
    }

    fn accepted(&self, conn: Conn, (guest, alive): Self::Guest) {
        let served = Served {
            guest,
            conn: Some(conn),
            alive,
        };
        // There is room.
        let _ = self.served.lock().push_within_capacity(served);
    }
}

impl Work for Service {
    const ITEM: usize = offset_of!(Service, reap);

    fn work(&self) {
        loop {
            let conn = {
                let mut served = self.served.lock();
                // The one before may come again only now; but now, though others go on leaving.
                served.retain(|s| s.conn.is_some());
                served
                    .iter_mut()
                    .filter(|s| s.alive.data().is_gone())
                    .find_map(|s| s.conn.take())
            };
            // Not under the lock, which whoever wants to connect takes.
            match conn {
                Some(conn) => drop(conn),
                None => break,
            }
        }
    }
}

impl Later for Service {
    const LATER: usize = offset_of!(Service, pulse);

    fn later(&self) {
        for served in self.served.lock().iter() {
            if let Some(conn) = &served.conn {
                Alive::ask(&served.alive, conn.queue());
            }
        }
        self.pulse.after(alive::PERIOD_MS);
    }
}
