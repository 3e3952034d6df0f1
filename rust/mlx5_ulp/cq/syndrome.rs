// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why a completion failed (`MLX5_CQE_SYNDROME_*` of `include/linux/mlx5/cq.h`).

/// Syndrome of an error CQE: any byte, with names for those that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Syndrome(pub u8);

macro_rules! syndromes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Syndrome {
            $($(#[$doc])* pub const $name: Syndrome = Syndrome($value);)*

            /// All syndromes that have a name.
            pub const KNOWN: &'static [Syndrome] = &[$(Syndrome::$name),*];

            /// What it means, in the words of the InfiniBand specification.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    0 => "success",
                    $($value => $text,)*
                    _ => "unknown syndrome",
                }
            }
        }
    };
}

syndromes! {
    /// A message is longer than the local side can take.
    LOCAL_LENGTH = 0x01, "local length error";
    /// The WQE is malformed or not allowed on this QP.
    LOCAL_QP_OPERATION = 0x02, "local QP operation error";
    /// A local key is unknown, lacks a right, or does not cover the range.
    LOCAL_PROTECTION = 0x04, "local protection error";
    /// Not executed: the QP had already failed or was being shut down.
    FLUSHED = 0x05, "work request flushed";
    /// A memory window could not be bound.
    MW_BIND = 0x06, "memory window bind error";
    /// The responder answered with something unexpected.
    BAD_RESPONSE = 0x10, "bad response error";
    /// Local access failed while a response was processed.
    LOCAL_ACCESS = 0x11, "local access error";
    /// The responder refused the request as invalid.
    REMOTE_INVALID_REQUEST = 0x12, "remote invalid request error";
    /// The remote key is unknown, lacks a right, or does not cover the range.
    REMOTE_ACCESS = 0x13, "remote access error";
    /// The responder could not carry out the request.
    REMOTE_OPERATION = 0x14, "remote operation error";
    /// No acknowledgment after all retries.
    TRANSPORT_RETRY_EXCEEDED = 0x15, "transport retry counter exceeded";
    /// The responder had no receive posted, after all retries.
    RNR_RETRY_EXCEEDED = 0x16, "receiver-not-ready retry counter exceeded";
    /// The responder aborted the operation.
    REMOTE_ABORTED = 0x22, "remote aborted error";
}

impl Syndrome {
    /// Whether the request was not executed because of an earlier failure.
    pub const fn is_flush(self) -> bool {
        self.0 == Syndrome::FLUSHED.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_have_texts_and_others_do_not() {
        for s in Syndrome::KNOWN {
            assert_ne!(s.text(), "unknown syndrome");
        }
        let named = (1..=255)
            .filter(|&b| Syndrome(b).text() != "unknown syndrome")
            .count();
        assert_eq!(named, Syndrome::KNOWN.len());
    }
}
