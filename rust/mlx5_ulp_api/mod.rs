// SPDX-License-Identifier: GPL-2.0

//! `<mlx5_ulp.h>` for consumers written in Rust: the same words, as types that cannot be misused.
//!
//! Handles give themselves back when they are dropped; what is posted keeps alive what its completion
//! needs. A handle that is forgotten (`core::mem::forget()`) stays, and with it what it calls: a module that forgets one
//! must not be unloaded. What the calls do, in which context they may be made, and what their errors mean is said in
//! the header.
//!
//! The consumer's crate has this as a module beside `ulp_bindings` (see `Kbuild.consumer`).
#![allow(dead_code, unused_imports)]

mod connect;
mod device;
mod exclusive;
mod fast_region;
mod find;
mod local;
mod memory;
mod poster;
mod queue;
mod queue_attr;
mod queue_ref;
mod region;
mod request;
mod told;
mod work;

pub(crate) use connect::{
    Address,
    AsQueue,
    ConnectAttr, //
};
pub(crate) use device::{
    Device,
    Limits,
    Removal, //
};
pub(crate) use exclusive::Exclusive;
pub(crate) use fast_region::{
    FastRegion,
    Registration, //
};
pub(crate) use local::{
    Bytes,
    Local, //
};
pub(crate) use memory::{
    Memory,
    Parts, //
};
pub(crate) use poster::{
    Poster,
    PosterReservation, //
};
pub(crate) use queue::{
    Queue,
    Space,
    Statistics, //
};
pub(crate) use queue_attr::{
    Completions,
    Qid,
    QueueAttr, //
};
pub(crate) use queue_ref::{
    QueueRef,
    Reservation,
    CHAIN, //
};
pub(crate) use region::{
    Access,
    ListRegion,
    Range,
    Region, //
};
pub(crate) use request::{
    Completion,
    Done,
    Flags,
    Request,
    Write, //
};
pub(crate) use told::Told;
pub(crate) use work::{
    Operation,
    Receive,
    Work, //
};

use crate::ulp_bindings as bindings;
