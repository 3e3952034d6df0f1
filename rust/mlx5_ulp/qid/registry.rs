// SPDX-License-Identifier: GPL-2.0

//! The queues of a device, to be found by name and by number.

use super::{
    cache::{
        Cache,
        PinError,
        SizeError, //
    },
    key::{
        Name,
        Number,
        Token,
        MAX_VF_ID, //
    },
    stats::Sum,
    table::{
        InsertError,
        Retired,
        Table,
        MAX_CAPACITY, //
    },
    tally::CpuTally, //
};
use crate::queue::queue::Queue;
use core::{
    ops::Deref,
    sync::atomic::{
        AtomicPtr,
        AtomicU64,
        Ordering::{
            Relaxed,
            Release, //
        }, //
    },
};
use kernel::{
    error::code::*,
    fmt, new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use mlx5_ulp_bindings as bindings;

/// Most queues of a device.
pub(crate) const CAPACITY: usize = MAX_CAPACITY;

/// Entries of each cache: `MLX5_VF_QID_CACHE_SIZE` of the build.
pub(crate) const ENTRIES: usize = bindings::MLX5_ULP_VF_QID_CACHE_ENTRIES as usize;

/// The function whose names are the module's own: a queue that its consumer did not name is number QPN of
/// it.
const OWN_FUNCTION: u8 = MAX_VF_ID;

/// Words of a table, in place: an index that was masked needs neither a pointer nor a length.
#[repr(transparent)]
struct Words([AtomicU64; CAPACITY]);

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// What readers look at.
struct Tables {
    names: Cache<Name, ENTRIES>,
    numbers: Cache<Number, ENTRIES>,
    table: Table<Words>,
    /// By slot. Null where there is no queue.
    queues: [AtomicPtr<Queue>; CAPACITY],
}

// SAFETY: Nothing but integers, pointers and booleans; [`Registry::new`] makes good values of them before
// anybody looks.
unsafe impl Zeroable for Tables {}

/// The queues of one device.
///
/// Looking up takes no lock. Changes take `writer`, and a queue leaves only after a grace period of RCU,
/// so what was found is good until the end of the read section.
#[pin_data]
pub(crate) struct Registry {
    tables: Tables,
    by_name: CpuTally,
    by_number: CpuTally,
    #[pin]
    writer: Mutex<()>,
}

/// Whether the caches can have so many entries.
///
/// # Errors
///
/// The reason.
pub(crate) fn check_size(entries: usize) -> Result<(), SizeError> {
    Cache::<Name, ENTRIES>::check_size(entries)
}

/// A queue's place in the registry; give it to [`Registry::remove`].
pub(crate) struct Place(Token);

/// What a registry tells about itself.
pub(crate) struct Report {
    /// Queues.
    pub(crate) queues: usize,
    /// Entries of each cache that are in use.
    pub(crate) size: usize,
    /// By direction: its name, entries that hold a hint, entries that are pinned, counts.
    pub(crate) directions: [(&'static str, usize, usize, Sum); 2],
}

impl Registry {
    /// An empty one, its caches at full size. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Pin<KVBox<Self>>> {
        let (by_name, by_number) = (CpuTally::new()?, CpuTally::new()?);
        // In place: the tables are too large for a stack.
        let tables = pin_init::init_zeroed::<Tables>().chain(|tables| {
            tables.names.reset();
            tables.numbers.reset();
            tables.table.reset();
            Ok(())
        });
        KVBox::pin_init(
            pin_init!(Self {
                tables <- tables,
                by_name,
                by_number,
                writer <- new_mutex!((), "mlx5_ulp_qid"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes `queue` known: by `name`, or by its number alone. Sleeps.
    ///
    /// The caller keeps the queue alive until [`Registry::remove`] has returned.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a name of the module's own function, `EEXIST` for one that is taken, `ENOSPC` if there
    /// are too many queues.
    pub(crate) fn insert(&self, name: Option<Name>, qpn: u32, queue: &Arc<Queue>) -> Result<Place> {
        let name = match name {
            Some(name) if name.vf_id() >= OWN_FUNCTION => return Err(EINVAL),
            Some(name) => name,
            None => Name::new(OWN_FUNCTION, qpn).ok_or(EINVAL)?,
        };
        let pointer = Arc::as_ptr(queue).cast_mut();
        let _lock = self.writer.lock();
        let mut writer = self.tables.table.writer().ok_or(EBUSY)?;
        let prepare = |slot| {
            if let Some(place) = self.tables.queues.get(slot as usize) {
                place.store(pointer, Release);
            }
        };
        match writer.insert(name, qpn, prepare) {
            Ok(token) => Ok(Place(token)),
            Err(InsertError::BadQpn) => Err(EINVAL),
            Err(InsertError::NameTaken | InsertError::NumberTaken) => Err(EEXIST),
            Err(InsertError::Full) => Err(ENOSPC),
        }
    }

    /// No lookup finds the queue any more when this returns, and nobody who found it is still in a read
    /// section. Sleeps.
    pub(crate) fn remove(&self, place: Place) {
        let retired = {
            let _lock = self.writer.lock();
            let Some(mut writer) = self.tables.table.writer() else {
                return;
            };
            let Place(token) = place;
            self.tables.names.forget(&mut writer, token.entry.name());
            self.tables
                .numbers
                .forget(&mut writer, token.entry.number());
            let retired = writer.remove(token);
            // Before the grace period: a slot without a queue has a name, too, one that no queue can have, and whoever
            // looks for that finds the slot.
            if let Some(place) = retired
                .as_ref()
                .and_then(|retired| self.tables.queues.get(retired.slot() as usize))
            {
                place.store(core::ptr::null_mut(), Relaxed);
            }
            retired
        };
        // Expedited: consumers wait for it, and it is rare.
        // SAFETY: Process context, no lock of a reader is held.
        unsafe { bindings::synchronize_rcu_expedited() };
        if let Some(retired) = retired {
            self.recycle(retired);
        }
    }

    fn recycle(&self, retired: Retired) {
        let _lock = self.writer.lock();
        if let Some(mut writer) = self.tables.table.writer() {
            writer.recycle(retired);
        }
    }

    /// The queue behind what a lookup found; null if it has just gone.
    #[inline(always)]
    fn queue(&self, token: Token) -> *const Queue {
        // A slot is below the capacity, the mask only tells the compiler so.
        let slot = token.slot as usize & (CAPACITY - 1);
        self.tables.queues[slot].load(Relaxed)
    }

    /// The queue that a consumer has named so, or null. Any context; within a read section of RCU it stays
    /// valid to its end.
    #[inline(always)]
    pub(crate) fn find(&self, name: Name) -> *const Queue {
        let tables = &self.tables;
        match tables.names.get_at_home(&tables.table, name, &self.by_name) {
            Some(token) => self.queue(token),
            // Called last and with what is in registers already: no stack frame for the usual case.
            None => self.find_elsewhere(name),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_elsewhere(&self, name: Name) -> *const Queue {
        let tables = &self.tables;
        tables
            .names
            .get_elsewhere(&tables.table, name, &self.by_name)
            .map_or(core::ptr::null(), |token| self.queue(token))
    }

    /// The queue with this number, or null. As [`Registry::find`].
    #[inline(always)]
    pub(crate) fn find_number(&self, number: Number) -> *const Queue {
        let tables = &self.tables;
        match tables
            .numbers
            .get_at_home(&tables.table, number, &self.by_number)
        {
            Some(token) => self.queue(token),
            None => self.find_number_elsewhere(number),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_number_elsewhere(&self, number: Number) -> *const Queue {
        let tables = &self.tables;
        tables
            .numbers
            .get_elsewhere(&tables.table, number, &self.by_number)
            .map_or(core::ptr::null(), |token| self.queue(token))
    }

    /// Brings in what lookups of `names` will need. Any context.
    pub(crate) fn prefetch(&self, names: &[Name]) {
        let tables = &self.tables;
        tables
            .names
            .prefetch(&tables.table, names, &self.by_name, |line| {
                prefetch(core::ptr::from_ref(line).cast())
            });
    }

    /// Keeps the queue at `place` in the cache. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if half of the entries where it may be are pinned, `EOPNOTSUPP` if the cache is off,
    /// `ENODEV` if the queue is gone.
    pub(crate) fn pin(&self, place: &Place) -> Result {
        let name = place.0.entry.name();
        let _lock = self.writer.lock();
        let mut writer = self.tables.table.writer().ok_or(EBUSY)?;
        self.tables
            .names
            .pin(&mut writer, name)
            .map_err(|e| match e {
                PinError::NoQueue => ENODEV,
                PinError::SetFull => ENOSPC,
                PinError::Off => crate::errno::eopnotsupp(),
            })
    }

    /// Undoes [`Registry::pin`]. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not pinned.
    pub(crate) fn unpin(&self, place: &Place) -> Result {
        let name = place.0.entry.name();
        let _lock = self.writer.lock();
        let mut writer = self.tables.table.writer().ok_or(EBUSY)?;
        match self.tables.names.unpin(&mut writer, name) {
            true => Ok(()),
            false => Err(ENOENT),
        }
    }

    /// Uses so many entries of each cache from now on, 0 for none. All pins are lost. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`check_size`]; nothing is changed then.
    pub(crate) fn resize(&self, entries: usize) -> Result<(), SizeError> {
        check_size(entries)?;
        let _lock = self.writer.lock();
        if self.tables.names.size() == entries {
            return Ok(());
        }
        let Some(mut writer) = self.tables.table.writer() else {
            return Ok(());
        };
        let pinned = self.tables.names.resize(&mut writer, entries)?;
        self.tables.numbers.resize(&mut writer, entries)?;
        if pinned != 0 {
            pr_info!("vf_qid_cache_size: {pinned} pinned queues are not pinned any more\n");
        }
        Ok(())
    }

    /// What it has done.
    pub(crate) fn report(&self) -> Report {
        let tables = &self.tables;
        let (names, numbers) = (&tables.names, &tables.numbers);
        Report {
            queues: tables.table.iter().count(),
            size: names.size(),
            directions: [
                ("name", names.used(), names.pinned(), self.by_name.sum()),
                (
                    "qpn",
                    numbers.used(),
                    numbers.pinned(),
                    self.by_number.sum(),
                ),
            ],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "queues {}", self.queues)?;
        writeln!(f, "capacity {CAPACITY}")?;
        writeln!(f, "entries {}", self.size)?;
        for (direction, used, pinned, sum) in &self.directions {
            writeln!(f, "{direction}_used {used}")?;
            writeln!(f, "{direction}_pins {pinned}")?;
            writeln!(f, "{direction}_hits {}", sum.hits)?;
            writeln!(f, "{direction}_misses {}", sum.misses)?;
            writeln!(f, "{direction}_absent {}", sum.absent)?;
            writeln!(f, "{direction}_evictions {}", sum.evictions)?;
            writeln!(f, "{direction}_prefetches {}", sum.prefetched)?;
        }
        Ok(())
    }
}

/// Has the CPU fetch a cache line. Never faults.
#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(CONFIG_X86_64)]
    // SAFETY: A hint, without effect on registers or memory.
    unsafe {
        core::arch::asm!("prefetcht0 byte ptr [{}]", in(reg) line, options(nostack, readonly, preserves_flags))
    };
    #[cfg(not(CONFIG_X86_64))]
    let _ = line;
}
