// SPDX-License-Identifier: GPL-2.0

//! The counters of all queues of a device, those that are gone included.

use super::totals::Totals;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A queue whose counters are summed.
pub(crate) trait Source: Send + Sync {
    /// Its present values. Called with the table locked: reads memory and nothing else.
    fn totals(&self) -> Totals;
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
