// SPDX-License-Identifier: GPL-2.0

//! Parameters: per device in `/sys/class/infiniband/<dev>/params/`, and as module parameters that
//! give the values of devices to come.
//!
//! A [`Parameter`] says how one is shown and changed; [`crate::observe::sysfs`] makes files of
//! them.

use kernel::{
    fmt,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// Bytes of a basic block, the alignment of every WQE.
const WQE_ALIGNMENT: u32 = bindings::MLX5_SEND_WQE_BB;

/// The values of one device.
#[derive(Clone)]
pub(crate) struct Params {}

/// Why a value was refused.
pub(crate) struct Refusal {
    /// `EINVAL` or `ERANGE`.
    pub(crate) error: Error,
    /// What is wrong with it, for the log.
    pub(crate) reason: &'static CStr,
}

impl Refusal {
    const fn invalid(reason: &'static CStr) -> Self {
        Self {
            error: EINVAL,
            reason,
        }
    }
}

/// Takes a value without surrounding white space, or changes nothing.
type Store = fn(&Params, &[u8]) -> Result<(), Refusal>;

/// One parameter.
pub(crate) struct Parameter {
    /// Name of its file.
    pub(crate) name: &'static CStr,
    /// Writes its value, without a newline.
    pub(crate) show: fn(&Params, &mut fmt::Formatter<'_>) -> fmt::Result,
    /// Takes a new value; `None` for what cannot be changed.
    pub(crate) store: Option<Store>,
}

/// When the doorbell of a send queue is rung: `each` after every post.
pub(crate) static DOORBELL_MODE: Parameter = Parameter {
    name: c"doorbell_mode",
    show: |_, f| f.write_str("each"),
    store: Some(|_, value| match value {
        b"each" => Ok(()),
        _ => Err(Refusal::invalid(c"the only mode is each")),
    }),
};

/// Alignment of send WQEs in bytes, that of the hardware's basic block.
pub(crate) static WQE_ALIGNMENT_PARAMETER: Parameter = Parameter {
    name: c"wqe_alignment",
    show: |_, f| f.write_fmt(fmt!("{WQE_ALIGNMENT}")),
    store: None,
};

impl Params {
    /// The values that the module was loaded with.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `ERANGE` if one is refused; the reason is in the log.
    pub(crate) fn of_module() -> Result<Self> {
        let params = Self {};
        // SAFETY: The string is that of a module parameter, which cannot be changed after loading.
        let mode = unsafe { CStr::from_char_ptr(bindings::mlx5_ulp_param_doorbell_mode) };
        params.load(&DOORBELL_MODE, mode)?;
        Ok(params)
    }

    fn load(&self, parameter: &Parameter, value: &CStr) -> Result {
        let Some(store) = parameter.store else {
            return Ok(());
        };
        store(self, value.to_bytes()).map_err(|refusal| {
            pr_err!(
                "module parameter {}={value}: {}\n",
                parameter.name,
                refusal.reason
            );
            refusal.error
        })
    }
}
