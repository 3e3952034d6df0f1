// SPDX-License-Identifier: GPL-2.0

//! A first RDMA WRITE: from memory of one device to memory of another one of this machine.
//! `Documentation/tutorial.rst` goes through it.

use core::sync::atomic::{
    AtomicI32,
    Ordering::Relaxed, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion as Event, //
    },
};
use ulp::{
    Access,
    Completion,
    Device,
    Done,
    Flags,
    Queue,
    QueueAttr,
    Region,
    Request,
    Write, //
};

#[path = "../../rust/mlx5_ulp_api/mod.rs"]
mod ulp;
mod ulp_bindings;

module! {
    type: FirstWrite,
    name: "first_write_rust",
    authors: ["The mlx5_ulp authors"],
    description: "A first RDMA WRITE through mlx5_ulp",
    license: "GPL",
}

const FROM: &CStr = c"mlx5_0";
const TO: &CStr = c"mlx5_1";

/// One end: memory that a device reaches, and a queue. Dropped in the order of the fields.
struct End {
    queue: Queue,
    region: Region<KVec<u8>>,
}

impl End {
    fn open(name: &CStr, text: &[u8], access: Access) -> Result<Self> {
        let mut memory = KVec::from_elem(0u8, 4096, GFP_KERNEL)?;
        for (to, from) in memory.iter_mut().zip(text) {
            *to = *from;
        }
        let device = Device::open(name)?;
        Ok(Self {
            queue: Queue::new(
                &device,
                QueueAttr {
                    access,
                    ..QueueAttr::new(16)
                },
            )?,
            region: Region::new(&device, memory, access)?,
        })
    }

    /// Between two machines, the address would travel from one to the other.
    fn connect(&self, peer: &End) -> Result {
        self.queue.connect(&peer.queue.address(None)?, None)
    }
}

/// How the WRITE ended.
struct Greeting {
    ended: Pin<KBox<Event>>,
    errno: AtomicI32,
}

impl Done for Greeting {
    fn done(request: &Arc<Request<Self>>, completion: Completion) {
        let this = request.data();
        let errno = completion.result.err().map_or(0, Error::to_errno);
        // The wake-up orders it before what the waiter reads.
        this.errno.store(errno, Relaxed);
        this.ended.complete_all();
    }
}

fn greet(source: &End, target: &End) -> Result {
    let request = Arc::new(
        Request::new(Greeting {
            ended: KBox::pin_init(Event::new(), GFP_KERNEL)?,
            errno: AtomicI32::new(0),
        }),
        GFP_KERNEL,
    )?;
    let write = Write {
        local: source.region.range(0, source.region.len() as u32)?.into(),
        remote_addr: target.region.address(),
        rkey: target.region.key(),
        flags: Flags::LAST,
    };
    source.queue.post_write(&request, write)?;
    request.data().ended.wait_for_completion();
    match request.data().errno.load(Relaxed) {
        0 => Ok(()),
        errno => Err(Error::from_errno(errno)),
    }
}

struct FirstWrite;

impl kernel::Module for FirstWrite {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let source = End::open(FROM, b"hello, world", Access::LOCAL)?;
        let target = End::open(TO, b"", Access::REMOTE_WRITE)?;
        source.connect(&target)?;
        target.connect(&source)?;
        greet(&source, &target)?;
        // Nobody writes it any more when it is ours again.
        let memory = target.region.into_memory()?;
        let text = CStr::from_bytes_until_nul(&memory).map_err(|_| EINVAL)?;
        pr_info!("{} has '{}'\n", TO.to_str()?, text.to_str()?);
        Ok(Self)
    }
}
