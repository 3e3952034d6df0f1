// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Operations of the send queue that need no packet: NOP and UMR.

use super::access::{self, Owner};
use super::context::{Attributes, Service};
use super::env::Env;
use super::requester::LocalFailure;
use super::work::{Task, Work};
use crate::dma::Kind;
use crate::mkey::{umr, Mode};

/// NOP and UMR.
pub fn execute(
    work: &Work,
    owner: Owner,
    attributes: &Attributes,
    env: &mut Env<'_>,
) -> Result<(), LocalFailure> {
    let Task::Umr {
        key,
        ctrl,
        segment,
        entries,
    } = &work.task
    else {
        return Ok(());
    };
    let mut list = vec![0; usize::from(ctrl.xlt_octowords) * crate::wqe::DS];
    access::gather(
        env.mkeys,
        env.io,
        Kind::Translation,
        &owner,
        (&work.bytes, entries),
        0,
        &mut list,
    )?;
    let mkey = env
        .mkeys
        .table
        .get_mut(key >> 8)
        .ok_or(umr::UmrFault::UnknownKey)?;
    // The driver's own queue pair works for all protection domains.
    let trusted = attributes.service == Service::RegUmr;
    if !trusted && mkey.pd() != owner.pd {
        return Err(umr::UmrFault::Pd.into());
    }
    // Who writes addresses of pages reaches all memory: for queue pairs with `qpc.fre`, the kernel's. A memory window is
    // a list of other keys, which user space may write: its `bind` is a UMR as well.
    if !trusted && !attributes.fast_register && matches!(mkey.mode(), Mode::Pa | Mode::Mtt) {
        return Err(umr::UmrFault::Pages.into());
    }
    Ok(umr::apply(mkey, *key as u8, ctrl, segment, &list)?)
}
