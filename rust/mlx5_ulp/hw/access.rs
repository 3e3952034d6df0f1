// SPDX-License-Identifier: GPL-2.0

//! Rights: what may be done with memory, and through a queue pair.

/// What the peer may do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteAccess {
    /// RDMA READ.
    pub(crate) read: bool,
    /// RDMA WRITE.
    pub(crate) write: bool,
    /// Atomics of 8 bytes.
    pub(crate) atomic: bool,
}

/// What may be done with memory. Local reading always may.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    /// Writing by requests of our own: the destination of a READ, of an atomic's old value, of a receive.
    pub(crate) local_write: bool,
    /// What the peer may do.
    pub(crate) remote: RemoteAccess,
}

impl Access {
    /// These rights, and those that they come with: whoever lets a peer write may write himself
    /// (`ib_check_mr_access()` in `<rdma/ib_verbs.h>`).
    pub(crate) fn complete(self) -> Self {
        Self {
            local_write: self.writes(),
            ..self
        }
    }

    /// Whether the memory may be written by anybody.
    pub(crate) fn writes(self) -> bool {
        self.local_write || self.remote.write || self.remote.atomic
    }
}
