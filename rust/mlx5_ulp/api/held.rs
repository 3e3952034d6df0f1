// SPDX-License-Identifier: GPL-2.0

//! What consumers hold: the handles that were given out and have not come back. Not only of `mlx5_ulp`:
//! `mlx5_ulp_cm` has this file, too.
//!
//! A handle is the address of an object, and C may give back one twice, or use one that is gone. So the reference that
//! belongs to a consumer is kept here, by address, and a call that may sleep looks its handle up before anything is
//! looked at behind it: what is not here any more is refused and reported, what is here lives as long as the call.
//! Calls of any context, those on the data path above all, do not: they take the consumer's word.
//!
//! The address of an object that is gone may be that of another one later, which a stale handle then names.

use kernel::{
    error::code::EBADF,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        lock::{
            GlobalLock,
            GlobalLockBackend, //
        },
        Arc, //
    }, //
};

/// The handles of one kind, by address.
pub(crate) struct Handles<T>(Option<RBTree<usize, Arc<T>>>);

// Nothing in it is pinned: the tree has its nodes elsewhere.
impl<T> Unpin for Handles<T> {}

impl<T> Handles<T> {
    /// None.
    pub(crate) const NONE: Self = Self(None);
}

/// Something that consumers hold.
pub(crate) trait Held: Send + Sync + Sized + 'static {
    /// What C calls it.
    type Raw;
    /// Keeps those that are held. Innermost: nothing is called, allocated or dropped while it is held.
    type Lock: GlobalLockBackend<Item = Handles<Self>>;

    /// Those that are held.
    fn all() -> &'static GlobalLock<Self::Lock>;

    /// Says, but not without end, that `call` was made with a handle that is none, and by whom.
    fn report(call: &CStr);
}

/// A place for one more, taken before the object is made: giving it out does not fail.
pub(crate) struct Place<T>(RBTreeNodeReservation<usize, Arc<T>>);

impl<T: Held> Place<T> {
    /// Takes one. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }

    /// Gives the object to a consumer. Sleeps.
    pub(crate) fn give(self, object: Arc<T>) -> *mut T::Raw {
        let address = Arc::as_ptr(&object);
        let node = self.0.into_node(address as usize, object);
        let before = {
            let mut all = T::all().lock();
            all.0.get_or_insert_with(RBTree::new).insert(node)
        };
        // Nothing: what is held keeps its address to itself.
        drop(before);
        address.cast_mut().cast()
    }
}

/// What a handle names, for as long as the result is kept. Sleeps.
///
/// # Errors
///
/// `EBADF` if it names nothing that a consumer holds; the log has the `call` and who made it.
pub(crate) fn get<T: Held>(handle: *const T::Raw, call: &CStr) -> Result<Arc<T>> {
    let all = T::all().lock();
    let held = all.0.as_ref().and_then(|all| all.get(&(handle as usize)));
    let held = held.cloned();
    drop(all);
    held.ok_or_else(|| refuse::<T>(call))
}

/// As [`get`], and the consumer holds it no longer. Sleeps.
///
/// # Errors
///
/// As [`get`].
pub(crate) fn take_back<T: Held>(handle: *const T::Raw, call: &CStr) -> Result<Arc<T>> {
    let mut all = T::all().lock();
    let node = all
        .0
        .as_mut()
        .and_then(|all| all.remove_node(&(handle as usize)));
    drop(all);
    let held = node.map(|node| node.to_key_value().1);
    held.ok_or_else(|| refuse::<T>(call))
}

#[cold]
fn refuse<T: Held>(call: &CStr) -> Error {
    T::report(call);
    EBADF
}

/// Keeps the handles of a type: `held!(pub(crate) Queue, QUEUES, bindings::mlx5_ulp_queue, bindings::report)`, as visible
/// as the type. The module calls `init()` of the static before there are consumers; `report` takes a string.
macro_rules! held {
    ($vis:vis $object:ty, $all:ident, $raw:ty, $report:path) => {
        kernel::sync::global_lock! {
            // SAFETY: The module initializes it when it is loaded.
            $vis unsafe(uninit) static $all: Mutex<$crate::held::Handles<$object>> =
                $crate::held::Handles::NONE;
        }

        impl $crate::held::Held for $object {
            type Raw = $raw;
            type Lock = $all;

            fn all() -> &'static kernel::sync::lock::GlobalLock<$all> {
                &$all
            }

            fn report(call: &kernel::str::CStr) {
                // SAFETY: A string.
                unsafe { $report(call.as_char_ptr()) };
            }
        }
    };
}
pub(crate) use held;
