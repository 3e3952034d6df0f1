// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What becomes of a disk that loses connections, under every interleaving: `loom` runs each model once for each of
//! them. The file is that of `mlx5_ulp_blk`, built with loom's atomics.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

#[allow(dead_code, missing_docs)]
#[path = "../../../rust/mlx5_ulp_blk"]
mod blk {
    use loom::sync::atomic;
    pub mod state;
}

use blk::state::{Condition, State};

/// A disk whose recovery is asked for by this number of those who have seen it lost.
struct Disk {
    condition: Condition,
    asked: AtomicU32,
}

impl Disk {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            condition: Condition::new(),
            asked: AtomicU32::new(0),
        })
    }

    fn lose(&self) {
        if self.condition.lost() {
            self.asked.fetch_add(1, Relaxed);
        }
    }

    fn losing(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let this = self.clone();
        thread::spawn(move || this.lose())
    }
}

#[test]
fn those_who_lose_it_at_once_ask_for_recovery_once() {
    loom::model(|| {
        let disk = Disk::new();
        let other = disk.losing();
        disk.lose();
        other.join().unwrap();
        assert_eq!(disk.asked.load(Relaxed), 1);
        assert_eq!(disk.condition.get(), State::Away);
    });
}

#[test]
fn a_loss_while_new_connections_are_made_is_not_forgotten() {
    loom::model(|| {
        let disk = Disk::new();
        disk.lose();
        disk.condition.anew();
        // The first of the new connections is there, and goes, while the last is made.
        let other = disk.losing();
        let back = disk.condition.back();
        other.join().unwrap();
        // Either recovery has seen it, or it is asked for once more.
        assert_eq!(disk.asked.load(Relaxed), 1 + u32::from(back));
        assert_eq!(disk.condition.get(), State::Away);
    });
}

#[test]
fn losses_before_all_is_made_anew_do_not_count() {
    loom::model(|| {
        let disk = Disk::new();
        disk.lose();
        disk.lose();
        assert!(!disk.condition.back());
        disk.condition.anew();
        assert!(disk.condition.back());
        assert_eq!(disk.condition.get(), State::Live);
        assert_eq!(disk.asked.load(Relaxed), 1);
    });
}

#[test]
fn the_dead_stay_dead() {
    loom::model(|| {
        let disk = Disk::new();
        disk.lose();
        disk.condition.anew();
        let other = {
            let disk = disk.clone();
            thread::spawn(move || disk.condition.die())
        };
        let _ = disk.condition.back();
        disk.lose();
        disk.condition.anew();
        other.join().unwrap();
        let _ = disk.condition.back();
        disk.lose();
        assert_eq!(disk.condition.get(), State::Dead);
    });
}
