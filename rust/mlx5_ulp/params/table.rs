// SPDX-License-Identifier: GPL-2.0

//! The parameters that there are.
//!
//! Each stands under its name in `/sys/class/infiniband/<dev>/params/` and among the module's
//! parameters (`module_params.c`), in the same words.

use super::{
    text::{
        self,
        Refusal, //
    },
    Key,
    Params, //
};
use crate::{
    doorbell::{
        blueflame,
        hold,
        policy, //
    },
    qid::registry, //
};
use core::ops::RangeInclusive;
use kernel::{
    ffi::c_char,
    fmt,
    prelude::*, //
};
use mlx5_ulp_bindings as bindings;

/// One parameter.
pub(crate) struct Parameter {
    /// Name of its file and of the module parameter.
    pub(crate) name: &'static CStr,
    kind: Kind,
    module: ModuleValue,
}

/// What a parameter's value looks like.
enum Kind {
    /// Cannot be changed: takes this number alone.
    Constant(u32),
    /// A number.
    Number(Key, RangeInclusive<u32>),
    /// One of these words; the value is its index.
    Word(Key, &'static [&'static str]),
    /// On or off.
    Switch(Key),
    /// Anything else.
    Text {
        /// Writes its value, without a newline, in a form that `store` takes.
        show: fn(&Params, &mut fmt::Formatter<'_>) -> fmt::Result,
        /// Takes a value, or changes nothing. One call at a time for one device.
        store: fn(&Params, &[u8]) -> Result<(), Refusal>,
    },
}

/// The module parameter: a C string that is set before the module starts and then never again.
struct ModuleValue(*const *mut c_char);

// SAFETY: Nobody writes the pointer or the string.
unsafe impl Sync for ModuleValue {}

impl ModuleValue {
    fn get(&self) -> &CStr {
        // SAFETY: It is a static of `module_params.c`: a string, or what the user gave, which is one
        // too and cannot be changed after loading.
        unsafe { CStr::from_char_ptr(*self.0) }
    }
}

impl Parameter {
    /// Whether it can be changed.
    pub(crate) const fn is_writable(&self) -> bool {
        !matches!(self.kind, Kind::Constant(_))
    }

    /// Its value when the module was loaded.
    pub(super) fn of_module(&self) -> &CStr {
        self.module.get()
    }

    /// Writes its value, without a newline.
    pub(crate) fn show(&self, params: &Params, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Constant(value) => f.write_fmt(fmt!("{value}")),
            Kind::Number(key, _) => f.write_fmt(fmt!("{}", params.get(*key))),
            Kind::Word(key, words) => {
                f.write_str(words.get(params.get(*key) as usize).unwrap_or(&"?"))
            }
            Kind::Switch(key) => f.write_str(text::switch_word(params.get(*key) != 0)),
            Kind::Text { show, .. } => show(params, f),
        }
    }

    /// Takes a value without surrounding white space, or changes nothing. One call at a time for one
    /// device.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(super) fn store(&self, params: &Params, value: &[u8]) -> Result<(), Refusal> {
        match &self.kind {
            Kind::Constant(only) => {
                text::number(value, &(*only..=*only))?;
            }
            Kind::Number(key, range) => params.set(*key, text::number(value, range)?),
            Kind::Word(key, words) => params.set(*key, text::word(value, words)?),
            Kind::Switch(key) => params.set(*key, text::switch(value)?.into()),
            Kind::Text { store, .. } => return store(params, value),
        }
        Ok(())
    }
}

/// How many there are.
pub(crate) const COUNT: usize = 12;

/// All of them.
pub(crate) static PARAMETERS: [Parameter; COUNT] = [
    // When the doorbell of a send queue is rung.
    Parameter {
        name: c"doorbell_mode",
        kind: Kind::Word(Key::DoorbellMode, policy::Mode::WORDS),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_doorbell_mode),
    },
    // WQEs for one doorbell in mode `batch`.
    Parameter {
        name: c"doorbell_batch",
        kind: Kind::Number(Key::DoorbellBatch, policy::BATCH_RANGE),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_doorbell_batch),
    },
    // Most WQEs for one doorbell in mode `adaptive`.
    Parameter {
        name: c"doorbell_max_batch",
        kind: Kind::Number(Key::DoorbellMaxBatch, 1..=policy::ADAPTIVE_MAX),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_doorbell_max_batch),
    },
    // Longest time that a WQE waits for the doorbell, microseconds.
    Parameter {
        name: c"doorbell_max_hold_us",
        kind: Kind::Number(Key::DoorbellMaxHoldUs, hold::RANGE_US),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_doorbell_max_hold_us),
    },
    // How completions are noticed.
    Parameter {
        name: c"cq_moderation",
        kind: Kind::Text {
            show: |params, f| f.write_fmt(format_args!("{}", params.moderation())),
            store: |params, value| {
                let settings = params.moderation().changed_by(value).map_err(|refused| {
                    if refused.is_range() {
                        Refusal::Impossible(refused.reason())
                    } else {
                        Refusal::Invalid(refused.reason())
                    }
                })?;
                params.set_moderation(&settings);
                Ok(())
            },
        },
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_cq_moderation),
    },
    // Entries of each QID translation cache.
    Parameter {
        name: c"vf_qid_cache_size",
        kind: Kind::Text {
            show: |params, f| f.write_fmt(fmt!("{}", params.qid_cache_size())),
            store: |params, value| {
                let size = text::number(value, &(0..=registry::ENTRIES as u32))?;
                registry::check_size(size as usize)
                    .map_err(|_| Refusal::Invalid(c"use 0 or a power of two from 8 on"))?;
                params.set(Key::QidCacheSize, size);
                Ok(())
            },
        },
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_vf_qid_cache_size),
    },
    // Whether latencies are measured.
    Parameter {
        name: c"latency_stats",
        kind: Kind::Switch(Key::LatencyStats),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_latency_stats),
    },
    // Whether the doorbell record and the next slot are prefetched while a request is written.
    Parameter {
        name: c"prefetch",
        kind: Kind::Switch(Key::Prefetch),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_prefetch),
    },
    // Which WQEs go to the doorbell register themselves.
    Parameter {
        name: c"blueflame",
        kind: Kind::Word(Key::BlueFlame, blueflame::Choice::WORDS),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_blueflame),
    },
    // Longest inline payload of these, bytes.
    Parameter {
        name: c"max_inline",
        kind: Kind::Number(Key::MaxInline, 0..=blueflame::BlueFlame::MAX_INLINE),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_max_inline),
    },
    // How WQEs are compacted.
    Parameter {
        name: c"wqe_compression",
        kind: Kind::Text {
            show: |params, f| write!(f, "{}", params.compression()),
            store: |params, value| {
                params.set_compression(params.compression().changed_by(value)?);
                Ok(())
            },
        },
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_wqe_compression),
    },
    // Alignment of send WQEs in bytes, that of the hardware's basic block.
    Parameter {
        name: c"wqe_alignment",
        kind: Kind::Constant(bindings::MLX5_SEND_WQE_BB),
        module: ModuleValue(&raw const bindings::mlx5_ulp_param_wqe_alignment),
    },
];
