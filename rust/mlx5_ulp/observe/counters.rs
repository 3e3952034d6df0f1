// SPDX-License-Identifier: GPL-2.0

//! The queues of a device: their counters, those of queues that are gone included, and who takes over
//! changed parameters.

use super::totals::Totals;
use crate::params::Params;
use kernel::{
    new_mutex,
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
}

impl CounterTable {
    /// No queue, all zero.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner { live: KVec::new(), retired: Totals::default() },
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
        Ok(self.inner.lock().live.push(source, GFP_KERNEL)?)
    }

    /// Has every queue take over the parameters. One that is registered later does so by itself, after
    /// it was registered, so that no change passes it by.
    pub(crate) fn params_changed(&self, params: &Params) {
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

    /// The sum of all queues since the device was attached, and how many there are now.
    pub(crate) fn sum(&self) -> (Totals, usize) {
        let inner = self.inner.lock();
        let mut sum = inner.retired;
        for source in &inner.live {
            sum.add(&source.totals());
        }
        (sum, inner.live.len())
    }
}
