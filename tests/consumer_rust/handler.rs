// SPDX-License-Identifier: GPL-2.0

//! Consumers with an rdma_cm event handler of their own, at both ends: what they call at which event. As
//! `tests/cm/handler.c`; the side that connects does it by attributes of the verbs interface.

use crate::{
    check,
    pair::{
        pattern,
        until,
        Tally,
        ALL, //
    },
    ulp::{
        Access,
        Flags,
        Queue,
        QueueAttr,
        Region,
        Write, //
    },
    ulp_bindings::{
        self as bindings,
        rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED as ADDR_RESOLVED,
        rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST as CONNECT_REQUEST,
        rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE as CONNECT_RESPONSE,
        rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED as DISCONNECTED,
        rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED as ESTABLISHED,
        rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED as ROUTE_RESOLVED,
        rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT as TIMEWAIT_EXIT, //
    },
    ulp_cm::Address,
    ulp_cm_handler, //
};
use core::{
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        AtomicI32,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        }, //
    }, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::{
        c_int,
        c_ulong, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

const PORT: &CStr = c"7473";
/// Time to find the way, ms.
const RESOLVE_MS: c_ulong = 20_000;
/// Bytes that are written.
const LENGTH: u32 = 3000;
/// Of a step that is not over.
const UNDER_WAY: i32 = 1;

/// An identifier of rdma_cm, destroyed when dropped, which waits for its handler.
struct Id(NonNull<bindings::rdma_cm_id>);

// SAFETY: rdma_cm does its own locking.
unsafe impl Send for Id {}

impl Id {
    /// One that `end` hears of.
    ///
    /// # Safety
    ///
    /// `end` must outlive it, and those that come of it.
    unsafe fn new(end: &End) -> Result<Self> {
        // SAFETY: A namespace that is always there; the handler is that of an `End`, which outlives the identifier by the
        // caller's word; the name is static.
        let id = from_err_ptr(unsafe {
            bindings::__rdma_create_kernel_id(
                &raw mut bindings::init_net,
                Some(event),
                core::ptr::from_ref(end).cast_mut().cast(),
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                c"mlx5_ulp_test_rust".as_char_ptr(),
            )
        })?;
        Ok(Self(NonNull::new(id).ok_or(ENOMEM)?))
    }

    fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.0.as_ptr()
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: It was made by rdma_cm, and nobody else destroys it: of an accepted one, the handler has answered 0.
        unsafe { bindings::rdma_destroy_id(self.as_ptr()) };
    }
}

/// What an end has heard, and what it has made on hearing it.
#[pin_data]
struct End {
    /// How far it is: 0 when it is connected, or an error.
    step: AtomicI32,
    established: AtomicBool,
    left: AtomicBool,
    #[pin]
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Of a peer that was accepted.
    id: Option<Id>,
    queue: Option<Queue>,
    /// What the peer may write.
    target: Option<Region<KVec<u8>>>,
    /// What was told of that: address and key.
    told: [u8; 12],
}

impl End {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                step: AtomicI32::new(UNDER_WAY),
                established: AtomicBool::new(false),
                left: AtomicBool::new(false),
                made <- new_mutex!(Made::default()),
            }),
            GFP_KERNEL,
        )
    }

    /// # Safety
    ///
    /// In the handler of `id`, with a valid event.
    unsafe fn hear(
        &self,
        id: *mut bindings::rdma_cm_id,
        event: &bindings::rdma_cm_event,
    ) -> Result {
        let mut made = self.made.lock();
        match event.event {
            // SAFETY: This event has parameters of a connection.
            CONNECT_REQUEST => unsafe { accept(&mut made, id, &event.param.conn) },
            ESTABLISHED => {
                self.established.store(true, Release);
                Ok(())
            }
            ADDR_RESOLVED => {
                // SAFETY: The identifier is valid in its handler, and bound by now.
                let device = unsafe { ulp_cm_handler::open(id, None)? };
                made.queue = Some(Queue::new(&device, QueueAttr::new(4))?);
                // SAFETY: The identifier is valid in its handler.
                to_result(unsafe { bindings::rdma_resolve_route(id, RESOLVE_MS) })
            }
            ROUTE_RESOLVED => {
                let queue = made.queue.as_ref().ok_or(EINVAL)?;
                // Nobody has answered yet.
                // SAFETY: In the handler of the identifier.
                check!(unsafe { ulp_cm_handler::ready(queue, id, None) } == Err(EINVAL));
                // SAFETY: It is bound to the device of the queue, which was made on it.
                let mut param = unsafe { ulp_cm_handler::param(queue, id, None) };
                check!(param.qp_num == queue.qpn());
                // SAFETY: In the handler of the identifier, so it is locked; the parameters are valid.
                to_result(unsafe { bindings::rdma_connect_locked(id, &mut param) })
            }
            CONNECT_RESPONSE => {
                // SAFETY: This event has parameters of a connection, with private data that rdma_cm has room for.
                unsafe {
                    let data: *const u8 = event.param.conn.private_data.cast();
                    check!(usize::from(event.param.conn.private_data_len) >= made.told.len());
                    data.copy_to_nonoverlapping(made.told.as_mut_ptr(), made.told.len());
                }
                let queue = made.queue.as_ref().ok_or(EINVAL)?;
                // SAFETY: In the handler of the identifier.
                unsafe { by_verbs(queue, id)? };
                // SAFETY: The identifier is valid in its handler.
                to_result(unsafe { bindings::rdma_accept(id, null_mut()) })?;
                self.step.store(0, Release);
                Ok(())
            }
            DISCONNECTED => {
                if let Some(queue) = &made.queue {
                    queue.disconnect()?;
                }
                // SAFETY: The identifier is valid in its handler.
                unsafe { bindings::rdma_disconnect(id) };
                self.left.store(true, Release);
                Ok(())
            }
            TIMEWAIT_EXIT => Ok(()),
            other => {
                pr_err!("event {other}, status {}\n", event.status);
                Err(EINVAL)
            }
        }
    }
}

/// Accepts one peer, with a queue and memory for it.
///
/// # Safety
///
/// In the handler of `id`, at the event of a request that came with `offer`.
unsafe fn accept(
    made: &mut Made,
    id: *mut bindings::rdma_cm_id,
    offer: &bindings::rdma_conn_param,
) -> Result {
    // SAFETY: The identifier is valid in its handler, and bound.
    let device = unsafe { ulp_cm_handler::open(id, None)? };
    let attr = QueueAttr {
        access: ALL,
        ..QueueAttr::new(1)
    };
    let queue = Queue::new(&device, attr)?;
    let memory = KVec::from_elem(0u8, LENGTH as usize, GFP_KERNEL)?;
    let target = Region::new(&device, memory, ALL)?;
    let (address, key) = made.told.split_at_mut(8);
    address.copy_from_slice(&target.address().to_le_bytes());
    key.copy_from_slice(&target.key().to_le_bytes());
    // SAFETY: It is bound to the device of the queue, which was made on it.
    let mut param = unsafe { ulp_cm_handler::param(&queue, id, Some(offer)) };
    param.private_data = made.told.as_ptr().cast();
    param.private_data_len = made.told.len() as u8;
    // SAFETY: In the handler of the identifier.
    unsafe { ulp_cm_handler::ready(&queue, id, Some(&param))? };
    // SAFETY: The identifier is valid in its handler; the parameters are valid, and what they point to is copied.
    to_result(unsafe { bindings::rdma_accept(id, &mut param) })?;
    made.id = NonNull::new(id).map(Id);
    made.queue = Some(queue);
    made.target = Some(target);
    Ok(())
}

/// What `ready()` does, step by step.
///
/// # Safety
///
/// In the handler of `id`, at the event of a response.
unsafe fn by_verbs(queue: &Queue, id: *mut bindings::rdma_cm_id) -> Result {
    // SAFETY: All zeroes is a valid value of this plain structure.
    let mut attr: bindings::ib_qp_attr = unsafe { core::mem::zeroed() };
    let mut mask = 0;
    for state in [
        bindings::ib_qp_state_IB_QPS_RTR,
        bindings::ib_qp_state_IB_QPS_RTS,
    ] {
        // SAFETY: Empty attributes have no address.
        check!(unsafe { queue.connect_verbs(&attr, mask) } == Err(EINVAL));
        let mut of_state = 0;
        attr.qp_state = state;
        // SAFETY: The identifier is valid in its handler; both are places for the answer.
        to_result(unsafe { bindings::rdma_init_qp_attr(id, &mut attr, &mut of_state) })?;
        mask |= of_state;
    }
    // SAFETY: What rdma_cm has filled in; it keeps the GID attribute as long as the identifier is there.
    unsafe { queue.connect_verbs(&attr, mask) }
}

/// Called by rdma_cm.
///
/// # Safety
///
/// The context of `id` must be an [`End`], and `event` be valid.
unsafe extern "C" fn event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: The caller guarantees it.
    let (end, event) = unsafe { (&*(*id).context.cast::<End>(), &*event) };
    // SAFETY: As above, and this is the handler.
    match unsafe { end.hear(id, event) } {
        Ok(()) => 0,
        Err(e) => {
            end.step.store(e.to_errno(), Release);
            // rdma_cm destroys what is asked for and not accepted, and nothing else.
            match event.event {
                CONNECT_REQUEST => e.to_errno(),
                _ => 0,
            }
        }
    }
}

/// Connects, writes what arrives, and leaves: both hear of it.
pub(crate) fn handler() -> Result {
    let address = Address::parse(crate::cm::ADDRESS, PORT)?;
    let (server, client) = (End::new()?, End::new()?);
    // SAFETY: Dropped before the ends, as is what comes of it.
    let (listener, id) = unsafe { (Id::new(&server)?, Id::new(&client)?) };
    // SAFETY: Both exist, and the address is valid; it is only copied.
    unsafe {
        check!(ulp_cm_handler::open(id.as_ptr(), None).err() == Some(ENODEV));
        let (own, peer) = (address.as_ptr().cast_mut(), address.as_ptr());
        to_result(bindings::rdma_bind_addr(listener.as_ptr(), own))?;
        to_result(bindings::rdma_listen(listener.as_ptr(), 1))?;
        to_result(bindings::rdma_resolve_addr(
            id.as_ptr(),
            null_mut(),
            peer,
            RESOLVE_MS,
        ))?;
    }
    until(|| client.step.load(Acquire) != UNDER_WAY);
    to_result(client.step.load(Relaxed))?;
    until(|| server.established.load(Acquire));
    let result = write(&client).and_then(|()| {
        // SAFETY: It exists.
        to_result(unsafe { bindings::rdma_disconnect(id.as_ptr()) })?;
        until(|| server.left.load(Acquire));
        Ok(())
    });
    let accepted = server.made.lock().id.take();
    // Outside of the lock that their handlers take, and before the queues.
    drop((accepted, id, listener));
    result?;
    let target = server.made.lock().target.take();
    let arrived = target.ok_or(EINVAL)?.into_memory()?;
    check!(arrived.iter().eq(pattern()?.iter().take(LENGTH as usize)));
    Ok(())
}

/// Writes where it was told to, and leaves.
fn write(client: &End) -> Result {
    let made = client.made.lock();
    let queue = made.queue.as_ref().ok_or(EINVAL)?;
    let (address, key) = made.told.split_at(8);
    let address = u64::from_le_bytes(address.try_into().map_err(|_| EINVAL)?);
    let key = u32::from_le_bytes(key.try_into().map_err(|_| EINVAL)?);
    let tally = Tally::new()?;
    let source = Region::new(queue.device(), pattern()?, Access::LOCAL)?;
    queue.post_write(
        &tally,
        Write {
            local: source.range(0, LENGTH)?.into(),
            remote_addr: address,
            rkey: key,
            flags: Flags::LAST,
        },
    )?;
    tally.data().wait(1)?;
    queue.disconnect()
}
