// SPDX-License-Identifier: GPL-2.0

//! Connections by rdma_cm, both ends on the first device.

use crate::{
    check,
    errno::{
        eaddrnotavail,
        econnrefused, //
    },
    pair::{
        pattern,
        until,
        Tally,
        ALL,
        BYTES, //
    },
    ulp::{
        Access,
        Device,
        Exclusive,
        Flags,
        Queue,
        QueueAttr,
        Region,
        Write, //
    },
    ulp_cm::{
        Address,
        Conn,
        Decide,
        Events,
        Listener,
        Offer,
        Route,
        Welcome,
        ANSWER_DATA, //
    }, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicI32,
    Ordering::{
        Acquire,
        Relaxed,
        Release, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The address of the first device, see tests/vm/guest/lib/consumer.sh.
pub(crate) const ADDRESS: &CStr = c"10.7.0.1";
const PORT: u16 = 7472;
/// Of `enum ib_cm_rej_reason`: `IB_CM_REJ_INVALID_SERVICE_ID` and `IB_CM_REJ_CONSUMER_DEFINED`.
const INVALID_SERVICE_ID: u32 = 8;
const CONSUMER_DEFINED: u32 = 28;
/// Time to find the way, ms.
const RESOLVE_MS: u32 = 20_000;

/// What has befallen a connection.
struct Heard {
    established: AtomicBool,
    closed: AtomicBool,
    why: AtomicI32,
}

impl Heard {
    fn nothing() -> Result<Arc<Self>> {
        let this = Self {
            established: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            why: AtomicI32::new(0),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Waits for the end, and returns why.
    fn end(&self) -> i32 {
        until(|| self.closed.load(Acquire));
        self.why.load(Relaxed)
    }
}

impl Events for Heard {
    fn established(&self) {
        self.established.store(true, Release);
    }

    fn closed(&self, why: Result) {
        if let Err(e) = why {
            self.why.store(e.to_errno(), Relaxed);
        }
        self.closed.store(true, Release);
    }
}

/// Accepts who says hello, and tells him of its memory.
#[pin_data]
struct Host {
    device: Arc<Device>,
    target: Region<KVec<u8>>,
    heard: Arc<Heard>,
    #[pin]
    conn: Mutex<Option<(Conn, u8)>>,
}

impl Host {
    fn new() -> Result<Arc<Self>> {
        let device = Device::open(c"mlx5_0")?;
        let memory = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
        Arc::pin_init(
            try_pin_init!(Self {
                target: Region::new(&device, memory, ALL)?,
                device,
                heard: Heard::nothing()?,
                conn <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )
    }
}

impl Decide for Host {
    type Queue = Queue;
    /// What he has said first.
    type Guest = u8;

    fn request(&self, offer: &mut Offer<'_>) -> Result<Welcome<Queue, u8>> {
        if !offer.data().starts_with(b"hello") {
            check!(offer.say(&[0; ANSWER_DATA + 1]) == Err(EMSGSIZE));
            offer.say(b"go away")?;
            return Err(EBUSY);
        }
        // Just to see which it is.
        Device::of(offer.ibdev(), None)?;
        let guest = offer.data().get(5).copied().unwrap_or(0);
        let attr = QueueAttr {
            access: ALL,
            ..QueueAttr::new(4)
        };
        offer.say(&self.target.address().to_le_bytes())?;
        Ok(Welcome {
            queue: Queue::new(&self.device, attr)?,
            events: self.heard.clone(),
            guest,
        })
    }

    fn accepted(&self, conn: Conn, guest: u8) {
        *self.conn.lock() = Some((conn, guest));
    }
}

/// The way to the host, and its device.
fn way(source: Option<&CStr>, events: Arc<dyn Events>) -> Result<(Route, Arc<Device>)> {
    let source = source
        .map(|address| Address::parse(address, c"0"))
        .transpose()?;
    let host = Address::parse(ADDRESS, c"7472")?;
    let route = Route::resolve(source.as_ref(), &host, RESOLVE_MS, events)?;
    let device = Device::of(route.ibdev(), None)?;
    Ok((route, device))
}

/// A connection to the host that is not made yet, and its device.
fn caller(events: Arc<dyn Events>) -> Result<(Conn, Arc<Device>)> {
    let (route, device) = way(None, events)?;
    let queue = Queue::new(&device, QueueAttr::new(4))?;
    Ok((route.with(queue), device))
}

/// Connects, writes what arrives, and leaves: both hear of it.
pub(crate) fn connection() -> Result {
    check!(Address::parse(c"nowhere", c"1").is_err());
    let host = Host::new()?;
    let _listener = Listener::new(&Address::any(PORT)?, 4, host.clone())?;
    check!(Listener::new(&Address::any(PORT)?, 4, host.clone()).err() == Some(eaddrnotavail()));
    let heard = Heard::nothing()?;
    let (conn, device) = caller(heard.clone())?;
    let mut answer = [0; ANSWER_DATA];
    check!(conn.connect(&[0; 57], &mut answer, 0) == Err(EMSGSIZE));
    conn.connect(b"hello7", &mut answer, 0)?;
    check!(conn.connect(b"hello", &mut answer, 0) == Err(EINVAL));
    until(|| host.heard.established.load(Acquire));
    check!(!heard.established.load(Acquire));
    check!(answer.starts_with(&host.target.address().to_le_bytes()));

    let source = Region::new(&device, pattern()?, Access::LOCAL)?;
    let tally = Tally::new()?;
    conn.queue().post_write(
        &tally,
        Write {
            local: source.range(0, BYTES as u32)?.into(),
            remote_addr: host.target.address(),
            rkey: host.target.key(),
            flags: Flags::LAST,
        },
    )?;
    tally.data().wait(1)?;
    let mut arrived = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
    host.target.copy_to(0, &mut arrived)?;
    check!(*arrived == *pattern()?);

    conn.disconnect();
    check!(heard.end() == 0);
    check!(host.heard.end() == -(kernel::bindings::ECONNRESET as i32));
    // Not in its own event.
    let theirs = host.conn.lock().take();
    check!(theirs.is_some_and(|(_, guest)| guest == b'7'));
    Ok(())
}

/// An exclusive queue is connected likewise; and from an address that is none of ours there is no way.
pub(crate) fn one_poster() -> Result {
    let host = Host::new()?;
    let _listener = Listener::new(&Address::any(PORT)?, 4, host.clone())?;
    let heard = Heard::nothing()?;
    check!(way(Some(c"10.7.0.99"), heard.clone()).is_err());
    let (route, device) = way(Some(ADDRESS), heard.clone())?;
    let mut conn = route.with(Exclusive::new(&device, QueueAttr::new(4))?);
    conn.connect(b"hello", &mut [0; ANSWER_DATA], 0)?;
    let source = Region::new(&device, pattern()?, Access::LOCAL)?;
    let tally = Tally::new()?;
    let write = Write {
        local: source.range(0, BYTES as u32)?.into(),
        remote_addr: host.target.address(),
        rkey: host.target.key(),
        flags: Flags::NONE,
    };
    conn.poster().post_writes(&tally, &[write])?;
    conn.drain()?;
    check!(tally.data().ended() == 1);
    tally.data().wait(1)?;
    let mut arrived = KVec::from_elem(0u8, BYTES, GFP_KERNEL)?;
    host.target.copy_to(0, &mut arrived)?;
    check!(*arrived == *pattern()?);
    drop(conn);
    check!(host.heard.end() == -(kernel::bindings::ECONNRESET as i32));
    // It was this side that has ended it, by giving it back.
    check!(!heard.closed.load(Acquire));
    let theirs = host.conn.lock().take();
    drop(theirs);
    Ok(())
}

/// The host refuses, and says why; then nobody is there.
pub(crate) fn refusal() -> Result {
    let refused = Err(econnrefused());
    let mut answer = [0; ANSWER_DATA];
    let listener = Listener::new(&Address::any(PORT)?, 4, Host::new()?)?;
    let (conn, _device) = caller(Heard::nothing()?)?;
    check!(conn.connect(b"knock", &mut answer, 0) == refused);
    check!(conn.reject_reason() == CONSUMER_DEFINED);
    check!(answer.starts_with(b"go away\0"));
    check!(conn.queue().drain().is_ok());
    drop(listener);
    let heard = Heard::nothing()?;
    let (conn, _device) = caller(heard.clone())?;
    check!(conn.connect(b"hello", &mut answer, 0) == refused);
    check!(conn.reject_reason() == INVALID_SERVICE_ID);
    check!(!heard.closed.load(Acquire));
    Ok(())
}
