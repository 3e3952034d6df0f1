// SPDX-License-Identifier: GPL-2.0

//! A disk, as its requests and its work see it.

use crate::{
    attempt::Attempts,
    channel::{
        Channel,
        Steady, //
    },
    dispatch::FLUSH_BYTES,
    gendisk::{
        GenDisk,
        Quiesced,
        TagSet, //
    },
    greeting::Peer,
    io::MAX_SEGMENTS,
    polling::Lookout,
    state::{
        Condition,
        State, //
    },
    ulp::{
        Device,
        Region, //
    },
    ulp_bindings as bindings,
    work::{
        DelayedWork,
        OrderedQueue, //
    }, //
};
use core::{
    ops::RangeInclusive,
    sync::atomic::{
        AtomicPtr,
        AtomicU32,
        AtomicU64,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    },
};
use kernel::{
    bindings::{
        device,
        gendisk,
        get_random_u64, //
    },
    fmt,
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// Requests of a hardware context.
pub(crate) const DEPTHS: RangeInclusive<u32> = 1..=1024;
/// Hardware contexts; as many as a flush has marks for, and 0 for one per CPU.
pub(crate) const QUEUES: RangeInclusive<u32> = 0..=MAX_SEGMENTS as u32;
/// Hardware contexts without interrupts.
pub(crate) const POLL_QUEUES: RangeInclusive<u32> = 0..=MAX_SEGMENTS as u32 - 1;
/// Seconds, at most a day: as many milliseconds fit in 32 bits.
pub(crate) const RECONNECTS: RangeInclusive<u32> = 0..=86400;

/// How a disk is to be.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Hardware contexts, of [`QUEUES`].
    pub(crate) queues: u32,
    /// Hardware contexts without interrupts, of [`POLL_QUEUES`].
    pub(crate) poll_queues: u32,
    /// Requests in flight for each of them, of [`DEPTHS`].
    pub(crate) depth: u32,
    /// For how long requests wait for a peer that is away, of [`RECONNECTS`].
    pub(crate) reconnect_s: u32,
}

/// What only one task at a time may do something with.
pub(crate) struct Control {
    /// While the peer is away. Before `disk`: it names its queue.
    pub(crate) quiesced: Option<Quiesced>,
    pub(crate) disk: Option<GenDisk>,
    pub(crate) device: Option<Arc<Device>>,
    /// What READs that flush write to. Nobody reads it.
    pub(crate) scratch: Option<Region<KVec<u8>>>,
    /// Which of the target's incarnations has our data.
    pub(crate) peer: Option<Peer>,
    /// When the peer was lost.
    pub(crate) lost_at: Option<Instant<Monotonic>>,
    /// When it came back last.
    pub(crate) back_at: Option<Instant<Monotonic>>,
    pub(crate) target: CString,
}

/// A disk, as its requests and its work see it.
#[pin_data]
pub(crate) struct Core {
    name: CString,
    /// A random number, by which a target knows it again.
    pub(crate) number: u64,
    pub(crate) settings: Settings,
    pub(crate) condition: Condition,
    local_key: AtomicU32,
    dma_device: AtomicPtr<device>,
    rkey: AtomicU32,
    address: AtomicU64,
    scratch: (AtomicU64, AtomicU32),
    channels: KVec<Channel>,
    disk: AtomicPtr<gendisk>,
    flushes: AtomicU64,
    retries: AtomicU64,
    reconnects: AtomicU64,
    #[pin]
    attempts: Attempts,
    #[pin]
    pub(crate) lookout: Lookout,
    #[pin]
    pub(crate) work: DelayedWork,
    #[pin]
    pub(crate) control: Mutex<Control>,
    // The last: what is on it goes before.
    #[pin]
    pub(crate) tags: TagSet,
}

impl Core {
    /// A disk that will be called `name` and have its memory at `target`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more hardware contexts than a flush has marks for, `ENOMEM`.
    pub(crate) fn new(name: &CStr, target: CString, settings: Settings) -> Result<Arc<Self>> {
        let cpus = kernel::cpu::nr_cpu_ids();
        let polled = settings.poll_queues.min(cpus);
        let queues = match settings.queues {
            0 => cpus.min(*QUEUES.end() - polled),
            queues => queues.min(cpus),
        };
        if queues + polled > *QUEUES.end() {
            return Err(EINVAL);
        }
        // Its own: an attempt to connect takes long, and no other disk's is to wait for it when memory is short.
        let queue = OrderedQueue::new(name)?;
        let core = Arc::try_pin_init(
            try_pin_init!(Self {
                name: CString::try_from(name)?,
                // SAFETY: May be called at any time.
                number: unsafe { get_random_u64() },
                settings,
                condition: Condition::new(),
                local_key: AtomicU32::new(0),
                dma_device: AtomicPtr::new(core::ptr::null_mut()),
                rkey: AtomicU32::new(0),
                address: AtomicU64::new(0),
                scratch: (AtomicU64::new(0), AtomicU32::new(0)),
                disk: AtomicPtr::new(core::ptr::null_mut()),
                flushes: AtomicU64::new(0),
                retries: AtomicU64::new(0),
                reconnects: AtomicU64::new(0),
                attempts <- Attempts::new(),
                // SAFETY: It is that; `Disk::drop` ends it.
                lookout <- unsafe { Lookout::new() },
                // SAFETY: At the offset that is told; `Disk::drop` disables it.
                work <- unsafe { DelayedWork::new::<Self>(Some(queue)) },
                control <- new_mutex!(
                    Control {
                        quiesced: None,
                        disk: None,
                        device: None,
                        scratch: None,
                        peer: None,
                        lost_at: None,
                        back_at: None,
                        target,
                    },
                    "mlx5_ulp_blk_control"
                ),
                tags <- TagSet::new(queues, polled, settings.depth),
                channels: {
                    let mut channels = KVec::with_capacity(tags.queues(), GFP_KERNEL)?;
                    for index in 0..tags.queues() {
                        channels.push(Channel::new(index >= queues as usize), GFP_KERNEL)?;
                    }
                    channels
                },
            }? Error),
            GFP_KERNEL,
        )?;
        Ok(core)
    }

    /// Whether it works.
    #[inline]
    pub(crate) fn state(&self) -> State {
        self.condition.get()
    }

    /// Its attempts to connect.
    pub(crate) fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Its hardware contexts.
    #[inline]
    pub(crate) fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Where the target's memory is. It stays the same as long as the disk.
    #[inline]
    pub(crate) fn peer(&self) -> Place {
        Place {
            address: self.address.load(Relaxed),
            rkey: self.rkey.load(Relaxed),
        }
    }

    /// The key for memory that is mapped for [`Core::dma_device`].
    #[inline]
    pub(crate) fn local_key(&self) -> u32 {
        self.local_key.load(Relaxed)
    }

    /// The device that does DMA.
    #[inline]
    pub(crate) fn dma_device(&self) -> *mut device {
        self.dma_device.load(Relaxed)
    }

    /// What a READ that flushes writes to.
    #[inline]
    pub(crate) fn scratch(&self) -> bindings::mlx5_ulp_sge {
        bindings::mlx5_ulp_sge {
            addr: self.scratch.0.load(Relaxed),
            length: FLUSH_BYTES,
            lkey: self.scratch.1.load(Relaxed),
        }
    }

    /// By what requests name their memory from now on: the key to what is mapped for `dma_device`, and what READs that
    /// flush write to.
    pub(crate) fn set_local(&self, key: u32, dma_device: *mut device, scratch: &Region<KVec<u8>>) {
        self.local_key.store(key, Relaxed);
        self.dma_device.store(dma_device, Relaxed);
        self.scratch.0.store(scratch.address(), Relaxed);
        self.scratch.1.store(scratch.key(), Relaxed);
    }

    /// Where the target's memory is from now on.
    pub(crate) fn set_peer(&self, peer: &Peer) {
        self.address.store(peer.address, Relaxed);
        self.rkey.store(peer.rkey, Relaxed);
    }

    /// There is a disk of the block layer, and all that requests need.
    pub(crate) fn set_gendisk(&self, disk: *mut gendisk) {
        self.disk.store(disk, Release);
    }

    /// The disk of the block layer.
    pub(crate) fn gendisk(&self) -> *mut gendisk {
        self.disk.load(Acquire)
    }

    /// Its name in the log.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// For how long requests go on waiting for a peer that is away, ms, 0 if they have waited long enough; `None` if
    /// none is waiting.
    pub(crate) fn patience_ms(&self, control: &Control) -> Option<u32> {
        let patience = Delta::from_secs(self.settings.reconnect_s.into());
        let left = patience.as_nanos() - control.lost_at?.elapsed().as_nanos();
        // Up, so that it is 0 only when nothing is left.
        Some(((left.max(0) + 999_999) / 1_000_000) as u32)
    }

    /// A READ that flushes was sent.
    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// A request is sent again.
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// All channels were connected anew.
    pub(crate) fn count_reconnect(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }

    /// What it has done, one `name value` a line.
    pub(crate) fn show(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let (mut posted, mut doorbells) = (0, 0);
        // Who reconnects holds it for long, and there are no connections then.
        if let Some(control) = self.control.try_lock() {
            // SAFETY: The control lock is held as long as this is used.
            let steady = unsafe { Steady::new() };
            for link in self.channels.iter().filter_map(|c| c.link(steady)) {
                let stats = link.queue().statistics();
                posted += stats.posted;
                doorbells += stats.doorbells;
            }
            drop(control);
        }
        let polled = self.channels.iter().filter(|c| c.is_polled());
        let (count, found) = polled.fold((0, 0), |(n, found), c| (n + 1, found + c.found()));
        f.write_fmt(fmt!("queues {}\n", self.channels.len()))?;
        f.write_fmt(fmt!("poll_queues {count}\npolled {found}\n"))?;
        f.write_fmt(fmt!("posted {posted}\ndoorbells {doorbells}\n"))?;
        f.write_fmt(fmt!("flush_reads {}\n", self.flushes.load(Relaxed)))?;
        f.write_fmt(fmt!("retries {}\n", self.retries.load(Relaxed)))?;
        f.write_fmt(fmt!("reconnects {}\n", self.reconnects.load(Relaxed)))
    }
}

/// Where in the target's memory the disk is.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its first byte.
    pub(crate) address: u64,
    /// The key.
    pub(crate) rkey: u32,
}
