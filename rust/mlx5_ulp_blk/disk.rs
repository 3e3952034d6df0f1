// SPDX-License-Identifier: GPL-2.0

//! A disk: how it comes and goes.

use crate::{
    attempt::Attempts,
    channel::{
        Channel,
        Steady, //
    },
    connector::{
        self,
        Link, //
    },
    dispatch::{
        FLUSH_BYTES,
        RANGES, //
    },
    errno::{
        eopnotsupp,
        estale, //
    },
    greeting::{
        Guest,
        Peer, //
    },
    io::MAX_SEGMENTS,
    mq::{
        GenDisk,
        Quiesced,
        TagSet, //
    },
    polling::Lookout,
    probe::probe,
    ulp::{
        Access,
        Completions,
        Device,
        QueueAttr,
        Region,
        Removal, //
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
        AtomicBool,
        AtomicPtr,
        AtomicU32,
        AtomicU64,
        AtomicU8,
        Ordering::{
            Acquire,
            Relaxed,
            SeqCst, //
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
/// Seconds.
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

/// Whether a disk works.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Connected.
    Live,
    /// The peer is away; requests wait.
    Away,
    /// Given up; requests fail.
    Dead,
}

/// What only one task at a time may do something with.
pub(crate) struct Control {
    /// While the peer is away. Before `disk`: it names its queue.
    pub(crate) quiesced: Option<Quiesced>,
    pub(crate) disk: Option<GenDisk>,
    pub(crate) device: Option<Arc<Device>>,
    /// What READs that flush write to. Nobody reads it.
    scratch: Option<Region<KVec<u8>>>,
    /// Which of the target's incarnations has our data.
    pub(crate) peer: Option<Peer>,
    /// When the peer was lost.
    pub(crate) lost_at: Option<Instant<Monotonic>>,
    target: CString,
}

/// A disk, as its requests and its work see it.
#[pin_data]
pub(crate) struct Core {
    name: CString,
    /// A random number, by which a target knows it again.
    number: u64,
    settings: Settings,
    state: AtomicU8,
    /// A connection was lost since the last attempt to connect began.
    hurt: AtomicBool,
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
    tags: TagSet,
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
                state: AtomicU8::new(State::Live as u8),
                hurt: AtomicBool::new(false),
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
        match self.state.load(Acquire) {
            0 => State::Live,
            1 => State::Away,
            _ => State::Dead,
        }
    }

    /// Changes the state from `from` to `to`; `false` if it was another.
    pub(crate) fn change(&self, from: State, to: State) -> bool {
        // Ordered with `hurt`, see there.
        self.state
            .compare_exchange(from as u8, to as u8, SeqCst, SeqCst)
            .is_ok()
    }

    /// Notes, or forgets, that a connection was lost.
    ///
    /// Who loses one notes that and then changes the state if it is live; who has made new ones changes the
    /// state to live and then looks here. In one order of all four, so that at least one of them sees the other.
    pub(crate) fn set_hurt(&self, hurt: bool) {
        self.hurt.store(hurt, SeqCst);
    }

    /// Whether a connection was lost since [`Core::set_hurt`] forgot.
    pub(crate) fn is_hurt(&self) -> bool {
        self.hurt.load(SeqCst)
    }

    /// Gives it up for good.
    pub(crate) fn die(&self) {
        self.state
            .store(State::Dead as u8, core::sync::atomic::Ordering::Release);
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

    /// The disk of the block layer.
    pub(crate) fn gendisk(&self) -> *mut gendisk {
        self.disk.load(Acquire)
    }

    /// Its name in the log.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// For how long requests wait.
    pub(crate) fn patience_ns(&self) -> i64 {
        i64::from(self.settings.reconnect_s) * 1_000_000_000
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

    /// Connects a queue for each channel. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of the connector and of a READ through each queue; `ECANCELED` if that is given up; `ESTALE` if the channels do not find the same target.
    pub(crate) fn connect(&self, control: &Control) -> Result<(KVec<Link>, Peer)> {
        let device = control.device.as_ref().ok_or(ENODEV)?;
        let mut links = KVec::with_capacity(self.channels.len(), GFP_KERNEL)?;
        let mut found: Option<Peer> = None;
        for (index, channel) in (0u32..).zip(&self.channels) {
            // Most requests are one WRITE or READ. If there are more for once, the queue is full.
            let depth = 2 * self.settings.depth + self.channels.len() as u32 + 8;
            let attr = QueueAttr {
                max_sge: RANGES as u32,
                vector: index,
                completions: match channel.is_polled() {
                    true => Completions::Polled,
                    false => Completions::Softirq,
                },
                // WRITEs of 0 bytes: see `alive`. No memory has a key for more.
                access: Access::REMOTE_WRITE,
                ..QueueAttr::new(depth)
            };
            let guest = Guest {
                disk: self.number,
                index,
            };
            // SAFETY: `Disk::drop` takes down all links.
            let (link, peer) =
                unsafe { connector::connect(self, device, &control.target, attr, guest)? };
            if found.is_some_and(|found| found != peer) {
                return Err(estale());
            }
            found = Some(peer);
            let scratch = control.scratch.as_ref().ok_or(ENODEV)?;
            let range = scratch.range(0, FLUSH_BYTES)?;
            probe(&self.attempts, link.queue(), range, peer.address, peer.rkey)?;
            links.push(link, GFP_KERNEL)?;
        }
        Ok((links, found.ok_or(EINVAL)?))
    }

    /// What it has done, one `name value` a line.
    pub(crate) fn show(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let control = self.control.lock();
        // SAFETY: The control lock is held as long as this is used.
        let steady = unsafe { Steady::new() };
        let (mut posted, mut doorbells) = (0, 0);
        for link in self.channels.iter().filter_map(|c| c.link(steady)) {
            let stats = link.queue().statistics();
            posted += stats.posted;
            doorbells += stats.doorbells;
        }
        drop(control);
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

impl Removal for Core {
    fn removal(&self) {
        self.die();
        self.attempts.give_up();
        let disk = self.gendisk();
        if !disk.is_null() {
            // Nobody maps memory for the device after this.
            // SAFETY: `Disk::drop` closes the device, which waits for this call, before it puts the disk.
            drop(unsafe { Quiesced::new(disk) });
        }
        self.work.after(0);
    }
}

/// A disk that is in `/dev`, until it is dropped.
pub(crate) struct Disk(Arc<Core>);

impl Disk {
    /// Connects with the target and makes `/dev/<name>`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if that is given up by [`Core::attempts`], `ENODEV` if there is no such device, `EOPNOTSUPP` if it takes too few data ranges for a request;
    /// those of the connector.
    pub(crate) fn new(core: Arc<Core>, device: &CStr) -> Result<Self> {
        // From here on, `drop` undoes what is done.
        let this = Self(core.clone());
        let device = Device::open_with_notice(device, core.clone())?;
        let limits = device.limits();
        if limits.max_sge.min(limits.max_read_sge) < RANGES as u32 {
            return Err(eopnotsupp());
        }
        let memory = KVec::from_elem(0, FLUSH_BYTES as usize, GFP_KERNEL)?;
        let scratch = Region::new(&device, memory, Access::LOCAL_WRITE)?;
        let dma_device = device.dma_device().ok_or(ENODEV)?.as_ptr();
        core.local_key.store(device.local_key(), Relaxed);
        core.dma_device.store(dma_device, Relaxed);
        core.scratch.0.store(scratch.address(), Relaxed);
        core.scratch.1.store(scratch.key(), Relaxed);

        let mut control = core.control.lock();
        control.scratch = Some(scratch);
        control.device = Some(device);
        let (links, peer) = core.connect(&control)?;
        core.address.store(peer.address, Relaxed);
        core.rkey.store(peer.rkey, Relaxed);
        control.peer = Some(peer);
        // SAFETY: `drop` puts the disk before the last reference to `core` goes; the device was not closed.
        let mut disk = unsafe { GenDisk::alloc(&core, &core.tags, dma_device, MAX_SEGMENTS)? };
        {
            // SAFETY: The disk exists.
            let quiesced = unsafe { Quiesced::new(disk.as_ptr()) }.ok_or(ENODEV)?;
            for (channel, link) in core.channels.iter().zip(links) {
                // SAFETY: The lock is held, and the disk quiesced.
                unsafe { channel.replace(&quiesced, Some(link)) };
            }
        }
        core.disk
            .store(disk.as_ptr(), core::sync::atomic::Ordering::Release);
        drop(control);
        // It reads partitions, which may take recovery, which takes the lock.
        let added = disk.add(&core.name, peer.bytes);
        core.control.lock().disk = Some(disk);
        added?;
        if core.state() == State::Dead {
            // Since before it was added; now whoever uses it can be told.
            core.work.after(0);
        }
        Ok(this)
    }

    /// Whether it works.
    pub(crate) fn state(&self) -> State {
        self.0.state()
    }

    /// What it has done.
    pub(crate) fn show(&self, f: &mut impl fmt::Write) -> fmt::Result {
        self.0.show(f)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let core = &*self.0;
        // Nobody waits for a peer that is away, now or soon: recovery gives the disk up.
        core.attempts.give_up();
        core.work.after(0);
        let disk = core.control.lock().disk.take();
        let disk = disk.map(|mut disk| {
            disk.delete();
            disk
        });
        core.work.disable();
        core.lookout.end();

        let (device, scratch) = {
            let mut control = core.control.lock();
            core.disconnect(&mut control);
            control.quiesced = None;
            (control.device.take(), control.scratch.take())
        };
        drop(scratch);
        // Waits for a removal notice, which looks at the disk.
        drop(device);
        drop(disk);
    }
}
