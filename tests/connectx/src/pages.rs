// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Pages of guest memory that the driver gives to the firmware.
//!
//! A card keeps its contexts in them. This device does not need them; it asks for some so that
//! the driver gives and takes them, and can guard them with a pattern: a driver that frees such a
//! page, or writes to it, is found out when it takes the page back.

use std::collections::BTreeSet;

use crate::cmd::{bad_param, CmdResult};
use crate::config::PageRequest;
use crate::dma::Kind;
use crate::io::Io;

/// Bytes of a page.
const PAGE: usize = 4096;

/// When QUERY_PAGES asks (`op_mod`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before anything else: 1.
    Boot,
    /// Before INIT_HCA: 2.
    Init,
    /// Later: 3.
    Regular,
}

/// Pages of one function.
#[derive(Debug)]
pub struct Pages {
    request: PageRequest,
    given: BTreeSet<u64>,
    /// Canary pages that came back changed.
    pub damaged: u64,
}

impl Pages {
    /// No pages yet.
    pub fn new(request: PageRequest) -> Self {
        Self {
            request,
            given: BTreeSet::new(),
            damaged: 0,
        }
    }

    /// Number of pages that the firmware has.
    pub fn count(&self) -> usize {
        self.given.len()
    }

    /// Number of pages that the firmware still wants.
    pub fn wanted(&self, phase: Phase) -> u32 {
        let total = match phase {
            Phase::Boot => self.request.boot,
            Phase::Init | Phase::Regular => self.request.boot.saturating_add(self.request.init),
        };
        total.saturating_sub(u32::try_from(self.given.len()).unwrap_or(u32::MAX))
    }

    /// Takes pages from the driver.
    ///
    /// # Errors
    ///
    /// `BAD_PARAM`, and no page is taken, if one is misaligned, not mapped or given already.
    pub fn give(&mut self, io: &mut Io, pages: &[u64]) -> CmdResult {
        let mut new = BTreeSet::new();
        for page in pages {
            if page % PAGE as u64 != 0 {
                return bad_param("page is not aligned");
            }
            if self.given.contains(page) || !new.insert(*page) {
                return bad_param("page was given already");
            }
            if io.memory.read(Kind::FirmwarePage, *page, &mut [0]).is_err() {
                return bad_param("page is no memory");
            }
        }
        if self.request.canary {
            for page in &new {
                if io
                    .memory
                    .write(Kind::FirmwarePage, *page, &pattern(*page))
                    .is_err()
                {
                    return bad_param("page cannot be written");
                }
            }
        }
        self.given.append(&mut new);
        Ok(())
    }

    /// Returns up to `most` pages to the driver.
    pub fn take(&mut self, io: &mut Io, most: usize) -> Vec<u64> {
        let mut pages = Vec::new();
        while pages.len() < most {
            let Some(page) = self.given.pop_first() else {
                break;
            };
            if self.request.canary {
                let mut now = [0; PAGE];
                let read = io.memory.read(Kind::FirmwarePage, page, &mut now);
                if read.is_err() || now != pattern(page) {
                    log::error!("firmware page {page:#x} was changed by the guest");
                    self.damaged += 1;
                }
            }
            pages.push(page);
        }
        pages
    }

    /// Forgets all pages: after a reset the driver owns them again.
    pub fn reset(&mut self) {
        self.given.clear();
    }
}

/// What a canary page holds: its own address in every word.
fn pattern(page: u64) -> [u8; PAGE] {
    let mut data = [0; PAGE];
    for word in data.chunks_exact_mut(8) {
        word.copy_from_slice(&(page ^ 0x5ca1_ab1e_0000_0000).to_be_bytes());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma::GuestMemory;

    fn setup() -> (Pages, Io) {
        let mut io = Io::new(None);
        io.memory = GuestMemory::anonymous(0, 0x8000);
        let request = PageRequest {
            boot: 2,
            init: 3,
            canary: true,
        };
        (Pages::new(request), io)
    }

    #[test]
    fn what_was_given_comes_back_once() {
        let (mut pages, mut io) = setup();
        assert_eq!(pages.wanted(Phase::Boot), 2);
        pages.give(&mut io, &[0x1000, 0x2000]).unwrap();
        assert_eq!(
            (pages.wanted(Phase::Boot), pages.wanted(Phase::Init)),
            (0, 3)
        );
        assert_eq!(pages.take(&mut io, 1), [0x1000]);
        assert_eq!(pages.take(&mut io, 768), [0x2000]);
        assert!(pages.take(&mut io, 768).is_empty());
        assert_eq!(pages.damaged, 0);
    }

    #[test]
    fn bad_pages_are_refused_as_a_whole() {
        let (mut pages, mut io) = setup();
        for bad in [[0x1000, 0x1000], [0x1000, 0x2001], [0x1000, 0x10_0000]] {
            pages.give(&mut io, &bad).unwrap_err();
            assert_eq!(pages.count(), 0);
        }
    }

    #[test]
    fn a_write_to_a_firmware_page_is_noticed() {
        let (mut pages, mut io) = setup();
        pages.give(&mut io, &[0x3000]).unwrap();
        io.memory.write(Kind::Payload, 0x3800, &[0]).unwrap();
        pages.take(&mut io, 1);
        assert_eq!(pages.damaged, 1);
    }
}
