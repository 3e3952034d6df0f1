// SPDX-License-Identifier: GPL-2.0

//! The queues of a device: their counters, those of queues that are gone included, and who takes over
//! changed parameters.

use super::totals::Totals;
use crate::{
    clock,
    params::Params,
    work::NoIo, //
};
use kernel::{
    fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A queue whose counters are summed, and that follows the device's parameters.
pub(crate) trait Source: Send + Sync {
    /// Its present values. Called with the table locked: reads memory and nothing else.
    fn totals(&self) -> Totals;

    /// Writes a line about its completions. Called with the table locked: must not wait for the table or
    /// the data path.
    fn completion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Takes over the device's parameters, as they are now. Called with the table locked, in process
    /// context: must not sleep for long nor wait for the table.
    fn params_changed(&self, params: &Params);
}

/// All queues of a device that count.
#[pin_data]
pub(crate) struct CounterTable {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    live: KVec<Arc<dyn Source>>,
    /// Sum of those that were retired.
    retired: Totals,
    /// The sum when the counters were reset.
    base: Totals,
    /// When that was, or when the first queue could be made; nanoseconds.
    since: u64,
}

impl Inner {
    /// Of all queues ever.
    fn sum(&self) -> Totals {
        let mut sum = self.retired;
        for source in &self.live {
            sum.add(&source.totals());
        }
        sum
    }
}

impl CounterTable {
    /// No queue, all zero.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner {
                    live: KVec::new(),
                    retired: Totals::default(),
                    base: Totals::default(),
                    since: clock::now(),
                },
                "mlx5_ulp_counters"
            ),
        })
    }

    /// Counts `source` in.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register(&self, source: Arc<dyn Source>) -> Result {
        // As in `Device::enroll`.
        let _no_io = NoIo::new();
        Ok(self.inner.lock().live.push(source, GFP_KERNEL)?)
    }

    /// Has every queue take over the parameters. One that is registered later does so by itself, after
    /// it was registered, so that no change passes it by.
    pub(crate) fn params_changed(&self, params: &Params) {
        // As in `Device::enroll`.
        let _no_io = NoIo::new();
        for source in &self.inner.lock().live {
            source.params_changed(params);
        }
    }

    /// Keeps what `source` has counted, and forgets it. For a queue at rest; without effect if it
    /// was not registered.
    pub(crate) fn retire(&self, source: &Arc<dyn Source>) {
        let found = {
            let mut inner = self.inner.lock();
            let at = inner.live.iter().position(|s| Arc::ptr_eq(s, source));
            let found = at.and_then(|at| inner.live.remove(at).ok());
            if let Some(source) = &found {
                inner.retired.add(&source.totals());
            }
            found
        };
        // Its destructor may sleep and lock, so not above.
        drop(found);
    }

    /// The sum of all queues since the device was attached or the counters were reset, and how many there
    /// are now.
    pub(crate) fn sum(&self) -> (Totals, usize) {
        let inner = self.inner.lock();
        let mut sum = inner.sum();
        sum.subtract(&inner.base);
        (sum, inner.live.len())
    }

    /// Sums start from here. The counters of queues, which they alone write, go on.
    pub(crate) fn reset(&self) {
        let mut inner = self.inner.lock();
        inner.base = inner.sum();
        inner.since = clock::now();
    }

    /// In how many milliseconds what [`CounterTable::sum`] says has happened.
    pub(crate) fn age_ms(&self) -> u64 {
        clock::now().wrapping_sub(self.inner.lock().since) / 1_000_000
    }

    /// A line about the completions of every queue.
    ///
    /// # Errors
    ///
    /// That of `f`.
    pub(crate) fn completions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        inner
            .live
            .iter()
            .try_for_each(|source| source.completion(f))
    }
}
