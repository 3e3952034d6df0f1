// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Reserved bits of a WQE: a card ignores them, and drivers write zeroes, since the next card may not.

use crate::wqe::ctrl::{self, Ctrl};
use crate::wqe::opcode::Opcode;
use crate::wqe::rdma::{self, RemoteAddr};
use crate::wqe::umr::{UmrCtrl, CTRL_SIZE};

/// Whether one is set in the control segment, or in the segment of fixed form behind it. What is written anew from what
/// was read has zeroes there.
pub fn is_set(wqe: &[u8]) -> bool {
    let Some((head, rest)) = wqe.split_first_chunk::<{ ctrl::SIZE }>() else {
        return false;
    };
    let ctrl = Ctrl::decode(head);
    let opcode = ctrl.head.opcode;
    let second = if opcode.has_remote_address() {
        let remote = rest.first_chunk::<{ rdma::SIZE }>();
        remote.is_some_and(|bytes| RemoteAddr::decode(bytes).encode() != *bytes)
    } else if opcode == Opcode::UMR {
        let umr = rest.first_chunk::<CTRL_SIZE>();
        umr.is_some_and(|bytes| UmrCtrl::decode(bytes).encode() != *bytes)
    } else {
        false
    };
    second || ctrl.encode() != *head
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a WQE of zeroes, but for its opcode, in which a bit that is set is told.
    fn told(opcode: Opcode) -> Vec<usize> {
        let set = |at: usize| {
            let mut wqe = [0; 64];
            wqe[3] = opcode.0;
            assert!(!is_set(&wqe));
            wqe[at] |= 0x80;
            is_set(&wqe)
        };
        (4..64).filter(|at| set(*at)).collect()
    }

    #[test]
    fn reserved_places_are_known() {
        // The length has six bits; two bytes behind the signature.
        let ctrl = vec![7, 9, 10];
        assert_eq!(told(Opcode::SEND), ctrl);
        let remote: Vec<_> = ctrl.iter().copied().chain(28..32).collect();
        assert_eq!(told(Opcode::RDMA_WRITE), remote);
        assert_eq!(told(Opcode::ATOMIC_CS), remote);
        let umr: Vec<_> = ctrl.iter().copied().chain(17..20).chain(36..64).collect();
        assert_eq!(told(Opcode::UMR), umr);
        assert!(!is_set(&[0xff; 8]));
    }
}
