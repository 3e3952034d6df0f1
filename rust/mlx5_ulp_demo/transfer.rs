// SPDX-License-Identifier: GPL-2.0

//! The transfer: a window of WRITEs that completions keep full.

use crate::{
    file::{
        self,
        Sha256, //
    },
    options::Options,
    ulp::{
        Access,
        Completion,
        ConnectAttr,
        Device,
        Done,
        Flags,
        Queue,
        QueueAttr,
        Range,
        Region,
        Request,
        Statistics,
        Write,
        CHAIN, //
    },
};
use core::sync::atomic::{
    AtomicI32,
    AtomicU32,
    AtomicU64,
    AtomicU8,
    Ordering::{
        AcqRel,
        Relaxed, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion as Event, //
    },
};

/// What came out.
pub(crate) struct Report {
    /// Length of the file.
    pub(crate) bytes: u64,
    /// What the sending queue has done.
    pub(crate) stats: Statistics,
    /// Checksum of what was sent.
    pub(crate) sent: Sha256,
    /// Checksum of what has arrived.
    pub(crate) arrived: Sha256,
}

/// One transfer under way.
struct Transfer {
    queue: Queue,
    source: Region<KVVec<u8>>,
    /// First byte of the destination, and its key.
    destination: (u64, u32),
    /// Bytes of one WRITE.
    size: u64,
    /// WRITEs posted with one call.
    chain: u32,
    /// WRITEs that have ended.
    ended: AtomicU32,
    /// First byte that no WRITE was posted for.
    next: AtomicU64,
    /// WRITEs that have not ended, and one while the first are being posted.
    open: AtomicU64,
    /// The first error, as a negative number, and the device's reason.
    error: AtomicI32,
    syndrome: AtomicU8,
    finished: Arc<Waiter>,
}

/// Where the task waits.
#[pin_data]
struct Waiter {
    #[pin]
    event: Event,
}

impl Transfer {
    /// Posts the WRITEs for the next parts of the file, a chain of them. `false` if there are none, or
    /// after an error.
    fn post_next(request: &Arc<Request<Self>>) -> bool {
        let this = request.data();
        let length = this.source.len() as u64;
        let first = this
            .next
            .fetch_add(this.size * u64::from(this.chain), Relaxed);
        if first >= length || this.error.load(Relaxed) != 0 {
            return false;
        }
        // Not by division, the panic of which objtool does not know to be an end.
        let count = (0..u64::from(this.chain))
            .take_while(|i| first + this.size * i < length)
            .count() as u64;
        let writes: [_; CHAIN] = core::array::from_fn(|i| {
            let at = first + this.size * i as u64;
            let bytes = this.size.min(length.saturating_sub(at)) as u32;
            Write {
                local: this.source.range(at, bytes).unwrap_or(Range::NONE).into(),
                remote_addr: this.destination.0 + at,
                rkey: this.destination.1,
                flags: Flags::NONE,
            }
        });
        let writes = writes.get(..count as usize).unwrap_or_default();
        this.open.fetch_add(count, Relaxed);
        if let Err(e) = this.queue.post_writes(request, writes) {
            this.fail(e, 0);
            this.close(count);
            return false;
        }
        true
    }

    /// Whether there is room for a chain again, now that another WRITE has ended.
    fn room(&self) -> bool {
        let ended = self.ended.fetch_add(1, Relaxed) + 1;
        ended.checked_rem(self.chain) == Some(0)
    }

    fn fail(&self, error: Error, syndrome: u8) {
        if self
            .error
            .compare_exchange(0, error.to_errno(), Relaxed, Relaxed)
            .is_ok()
        {
            self.syndrome.store(syndrome, Relaxed);
        }
    }

    /// So many of those that are counted in `open` have ended.
    fn close(&self, count: u64) {
        if self.open.fetch_sub(count, AcqRel) == count {
            self.finished.event.complete_all();
        }
    }
}

impl Done for Transfer {
    fn done(request: &Arc<Request<Self>>, completion: Completion) {
        let this = request.data();
        match completion.result {
            Ok(()) => {
                if this.room() {
                    Self::post_next(request);
                }
            }
            Err(e) => this.fail(e, completion.syndrome),
        }
        this.close(1);
    }
}

/// Does what `options` say. Sleeps.
///
/// # Errors
///
/// Those of the file, of the devices, and of the WRITEs.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let contents = file::read(&options.file)?;
    let bytes = contents.len();
    let sent = Sha256::of(&contents);

    let src = Device::open(&options.src)?;
    let dst = Device::open(&options.dst)?;
    let source = Region::new(&src, contents, Access::LOCAL)?;
    let memory = KVVec::from_elem(0u8, bytes, GFP_KERNEL)?;
    let destination = Region::new(&dst, memory, Access::REMOTE_WRITE)?;

    let attr = QueueAttr {
        access: Access::REMOTE_WRITE,
        ..QueueAttr::new(options.depth)
    };
    let sender = Queue::new(&src, attr)?;
    let receiver = Queue::new(&dst, QueueAttr { depth: 1, ..attr })?;
    let at_sender = sender.address(options.src_gid)?;
    let at_receiver = receiver.address(options.dst_gid)?;
    let by = |gid_index| ConnectAttr {
        gid_index,
        ..ConnectAttr::default()
    };
    sender.connect(&at_receiver, Some(&by(options.src_gid)))?;
    receiver.connect(&at_sender, Some(&by(options.dst_gid)))?;

    let finished = Arc::pin_init(pin_init!(Waiter { event <- Event::new() }), GFP_KERNEL)?;
    let request = Arc::new(
        Request::new(Transfer {
            queue: sender,
            source,
            destination: (destination.address(), destination.key()),
            size: options.size.into(),
            chain: options.chain,
            ended: AtomicU32::new(0),
            next: AtomicU64::new(0),
            open: AtomicU64::new(1),
            error: AtomicI32::new(0),
            syndrome: AtomicU8::new(0),
            finished: finished.clone(),
        }),
        GFP_KERNEL,
    )?;
    let transfer = request.data();
    for _ in 0..options.depth.checked_div(options.chain).ok_or(EINVAL)? {
        if !Transfer::post_next(&request) {
            break;
        }
    }
    transfer.close(1);
    finished.event.wait_for_completion();
    // The last completion may still be in its callback, with a reference to the request.
    transfer.queue.drain()?;

    let error = transfer.error.load(Relaxed);
    if error != 0 {
        pr_err!(
            "a WRITE failed: error {error}, syndrome {:#x}\n",
            transfer.syndrome.load(Relaxed)
        );
        return Err(Error::from_errno(error));
    }
    let stats = transfer.queue.statistics();
    // Nobody writes it any more when it is ours again.
    let arrived = destination.into_memory()?;
    Ok(Report {
        bytes: bytes as u64,
        stats,
        sent,
        arrived: Sha256::of(&arrived),
    })
}
