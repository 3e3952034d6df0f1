// SPDX-License-Identifier: GPL-2.0

//! Parameters: per device in `/sys/class/infiniband/<dev>/params/`, and as module parameters that
//! give the values of devices to come.
//!
//! | file | what |
//! |---|---|
//! | [`compression`] | pure: the value of `wqe_compression` |
//! | [`text`] | pure: numbers and words as text, reasons of refusal |
//! | [`table`] | which parameters there are, and how each is shown and changed |
//!
//! [`crate::observe::sysfs`] makes files of them. A value is an atomic that anybody may read. What the
//! data path needs of it is pushed to every queue when it changes ([`crate::device::Device::change`])
//! and when a queue is made.

use crate::{
    cq::moderation::settings::Settings,
    doorbell::{
        blueflame::{
            BlueFlame,
            Choice, //
        },
        policy::Mode,
        DoorbellConfig, //
    },
    errno::eopnotsupp, //
};
use core::sync::atomic::{
    AtomicU32,
    Ordering::Relaxed, //
};
use kernel::{
    prelude::*,
    str::CString, //
};

#[allow(dead_code, unreachable_pub)]
pub(crate) mod compression;
pub(crate) mod table;
// A pure file: also compiled on the host.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod text;

use compression::Compression;
use table::{
    Parameter,
    PARAMETERS, //
};
use text::Refusal;

/// Values that are one number each.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Key {
    /// Index in [`Mode::WORDS`].
    DoorbellMode,
    /// In [`crate::doorbell::policy::BATCH_RANGE`].
    DoorbellBatch,
    /// At most [`crate::doorbell::policy::ADAPTIVE_MAX`].
    DoorbellMaxBatch,
    /// In [`crate::doorbell::hold::RANGE_US`].
    DoorbellMaxHoldUs,
    /// Choice of `cq_moderation`, packed.
    CqChoice,
    /// Its first threshold.
    CqHybridThresh,
    /// Its second threshold.
    CqInterruptThresh,
    /// Entries of each translation cache.
    QidCacheSize,
    /// Whether latencies are measured.
    LatencyStats,
    /// 0 or 1.
    Prefetch,
    /// Index in [`Choice::WORDS`].
    BlueFlame,
    /// At most [`BlueFlame::MAX_INLINE`].
    MaxInline,
    /// 0 or 1.
    CompressionEnabled,
    /// In [`compression::MIN_SEND_SIZE`].
    CompressionMinSendSize,
}

impl Key {
    const COUNT: usize = Key::CompressionMinSendSize as usize + 1;
}

/// The values of one device.
pub(crate) struct Params {
    values: [AtomicU32; Key::COUNT],
}

impl Clone for Params {
    fn clone(&self) -> Self {
        Self {
            values: core::array::from_fn(|i| {
                AtomicU32::new(self.values.get(i).map_or(0, |value| value.load(Relaxed)))
            }),
        }
    }
}

impl Params {
    /// The values that the module was loaded with.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ERANGE` or `EOPNOTSUPP` if one is refused; the reason is in the log.
    pub(crate) fn of_module() -> Result<Self> {
        let params = Self {
            values: [const { AtomicU32::new(0) }; Key::COUNT],
        };
        // Of values that are several words a user may give some: the others are the usual ones.
        params.set_compression(Compression::DEFAULT);
        params.set_moderation(&Settings::DEFAULT);
        for parameter in &PARAMETERS {
            let value = parameter.of_module();
            if let Err(refusal) = params.change(parameter, value.to_bytes()) {
                pr_err!(
                    "module parameter {}={value}: {}\n",
                    parameter.name,
                    &*refusal.reason()?
                );
                return Err(refusal.error());
            }
        }
        Ok(params)
    }

    /// Gives `parameter` a value, without surrounding white space, or changes nothing. One call at a
    /// time.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(crate) fn change(&self, parameter: &Parameter, value: &[u8]) -> Result<(), Refusal> {
        parameter.store(self, value)
    }

    #[inline]
    fn get(&self, key: Key) -> u32 {
        self.values
            .get(key as usize)
            .map_or(0, |value| value.load(Relaxed))
    }

    fn set(&self, key: Key, value: u32) {
        if let Some(place) = self.values.get(key as usize) {
            place.store(value, Relaxed);
        }
    }

    /// How doorbells are rung.
    pub(crate) fn doorbell(&self) -> DoorbellConfig {
        DoorbellConfig {
            mode: Mode::from_index(self.get(Key::DoorbellMode)),
            batch: self.get(Key::DoorbellBatch),
            max_batch: self.get(Key::DoorbellMaxBatch),
            max_hold_us: self.get(Key::DoorbellMaxHoldUs),
        }
    }

    /// Whether the next places to be written to are prefetched.
    pub(crate) fn prefetch(&self) -> bool {
        self.get(Key::Prefetch) != 0
    }

    /// Which WQEs go to the doorbell register themselves.
    pub(crate) fn blueflame(&self) -> BlueFlame {
        BlueFlame {
            choice: Choice::from_index(self.get(Key::BlueFlame)),
            max_inline: self.get(Key::MaxInline),
        }
    }

    /// How WQEs are compacted.
    pub(crate) fn compression(&self) -> Compression {
        Compression {
            enabled: self.get(Key::CompressionEnabled) != 0,
            min_send_size: self.get(Key::CompressionMinSendSize),
        }
    }

    fn set_compression(&self, value: Compression) {
        self.set(Key::CompressionEnabled, value.enabled.into());
        self.set(Key::CompressionMinSendSize, value.min_send_size);
    }
}

/// How completions are noticed: three values, read one by one. One who changes them tells the queues when
/// all are there, so what a queue meets half-way is soon put right.
impl Params {
    /// The settings; the usual ones where the three do not go together yet.
    pub(crate) fn moderation(&self) -> Settings {
        Settings::unpack(
            self.get(Key::CqChoice),
            self.get(Key::CqHybridThresh),
            self.get(Key::CqInterruptThresh),
        )
        .unwrap_or(Settings::DEFAULT)
    }

    fn set_moderation(&self, settings: &Settings) {
        let (choice, hybrid, interrupt) = settings.pack();
        self.set(Key::CqChoice, choice);
        self.set(Key::CqHybridThresh, hybrid);
        self.set(Key::CqInterruptThresh, interrupt);
    }

    /// Entries of each translation cache.
    pub(crate) fn qid_cache_size(&self) -> usize {
        self.get(Key::QidCacheSize) as usize
    }

    /// Whether latencies are measured.
    pub(crate) fn latency_stats(&self) -> bool {
        self.get(Key::LatencyStats) != 0
    }
}

impl Refusal {
    /// Its error number.
    pub(crate) fn error(&self) -> Error {
        match self {
            Refusal::NotANumber(_) | Refusal::NotAWord(_) | Refusal::Invalid(_) => EINVAL,
            Refusal::OutOfRange(_) | Refusal::Impossible(_) => ERANGE,
            Refusal::Unsupported(_) => eopnotsupp(),
        }
    }

    /// The sentence for the log.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reason(&self) -> Result<CString> {
        CString::try_from_fmt(format_args!("{self}"))
    }
}
