// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A function as a vfio-user device.
//!
//! All of BAR0 is trapped: each access of the guest is a message here. QEMU emulates the MSI-X
//! table and hands over one event file descriptor per vector.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    vfio_region_info, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use crate::config::{FunctionConfig, Kind};
use crate::fabric::Fabric;
use crate::function::Function;
use crate::pci::{ConfigSpace, Settings, BAR0_SIZE, CONFIG_SIZE};

/// What a VMM sees of a function.
struct Backend {
    function: Arc<Function>,
    fabric: Arc<Fabric>,
    kind: Kind,
    settings: Settings,
    config: ConfigSpace,
}

impl Backend {
    /// Takes the function back to its power-on state.
    fn reset_function(&mut self) {
        self.config = ConfigSpace::new(self.kind, &self.settings);
        self.function.forget_interrupts();
        let mut hca = self.function.hca();
        hca.reset();
        hca.io.memory.set_blocked(!self.config.is_bus_master());
        let output = hca.take_output();
        drop(hca);
        self.fabric.set_gids(&self.function, output.gids);
    }

    /// The VMM is gone: so are its memory and its interrupts.
    fn disconnected(&mut self) {
        self.function.clear_interrupts();
        self.reset_function();
        let mut hca = self.function.hca();
        hca.io.memory.unmap_all();
        hca.plug_in();
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) {
        if self.function.hca().is_removed() {
            return;
        }
        self.config.write(offset, data);
        let blocked = !self.config.is_bus_master();
        self.function.hca().io.memory.set_blocked(blocked);
        if self.config.wants_reset() {
            log::info!("{}: function-level reset", self.function.name);
            self.reset_function();
        }
    }

    fn write_bar(&mut self, offset: u64, data: &[u8]) {
        let mut hca = self.function.hca();
        hca.mmio_write(self.function.now(), offset, data);
        let (vectors, gids) = hca.take_signals();
        drop(hca);
        self.fabric.set_gids(&self.function, gids);
        self.function.fire(vectors);
        self.function.kick();
    }
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<()> {
        match region {
            VFIO_PCI_BAR0_REGION_INDEX => {
                let mut hca = self.function.hca();
                hca.mmio_read(self.function.now(), offset, data);
            }
            VFIO_PCI_CONFIG_REGION_INDEX if self.function.hca().is_removed() => data.fill(0xff),
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.read(offset, data),
            _ => data.fill(0xff),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<()> {
        match region {
            VFIO_PCI_BAR0_REGION_INDEX => self.write_bar(offset, data),
            VFIO_PCI_CONFIG_REGION_INDEX => self.write_config(offset, data),
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> Result<()> {
        log::debug!(
            "{}: map {address:#x}+{size:#x} {flags:?}",
            self.function.name
        );
        // ROMs and other devices' registers come without a file: nothing to reach there.
        let Some(file) = fd else {
            return Ok(());
        };
        let writable = flags.contains(DmaMapFlags::READ_WRITE);
        let memory = &mut self.function.hca().io.memory;
        memory.map(address, size, &file, offset, writable)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> Result<()> {
        log::debug!(
            "{}: unmap {address:#x}+{size:#x} {flags:?}",
            self.function.name
        );
        let memory = &mut self.function.hca().io.memory;
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            memory.unmap_all();
        } else {
            memory.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        log::debug!("{}: reset", self.function.name);
        self.reset_function();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX || flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Ok(());
        }
        let end = start
            .checked_add(count)
            .filter(|end| *end <= self.settings.vectors.into());
        if end.is_none() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "no such interrupt vector",
            ));
        }
        if flags & VFIO_IRQ_SET_DATA_NONE != 0 && count == 0 {
            self.function.clear_interrupts();
        } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            return self
                .function
                .set_interrupts(start as usize, count as usize, fds);
        }
        Ok(())
    }
}

/// Regions of the device: BAR0 and configuration space, the others empty.
fn regions() -> Vec<ServerRegion> {
    let region = |index| {
        let size = match index {
            VFIO_PCI_BAR0_REGION_INDEX => BAR0_SIZE,
            VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_SIZE as u64,
            _ => 0,
        };
        let flags = match size {
            0 => 0,
            _ => VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE,
        };
        ServerRegion {
            region_info: vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags,
                index,
                size,
                ..Default::default()
            },
            sparse_areas: Vec::new(),
            mmap_fd: None,
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

/// Interrupts of the device: MSI-X.
fn irqs(settings: &Settings) -> Vec<IrqInfo> {
    let irq = |index| {
        let msix = index == VFIO_PCI_MSIX_IRQ_INDEX;
        IrqInfo {
            index,
            flags: if msix { VFIO_IRQ_INFO_EVENTFD } else { 0 },
            count: if msix { settings.vectors.into() } else { 0 },
        }
    };
    (0..VFIO_PCI_NUM_IRQS).map(irq).collect()
}

/// Removes a socket that nobody listens on any more.
///
/// # Errors
///
/// When something else is at `path`, or somebody does listen.
pub fn remove_stale_socket(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(Error::new(ErrorKind::AlreadyExists, "not a socket"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err(Error::new(ErrorKind::AddrInUse, "somebody listens there"))
        }
        Ok(_) => std::fs::remove_file(path),
    }
}

/// A function's socket, created.
pub struct Device {
    server: Server,
    backend: Backend,
}

impl Device {
    /// Creates the socket of a function.
    ///
    /// # Errors
    ///
    /// When the socket cannot be created.
    pub fn new(
        path: &Path,
        config: &FunctionConfig,
        function: Arc<Function>,
        fabric: Arc<Fabric>,
    ) -> Result<Self> {
        remove_stale_socket(path)?;
        let server = Server::new(path, true, irqs(&config.pci), regions()).map_err(Error::other)?;
        // Until the guest makes it a bus master.
        function.hca().io.memory.set_blocked(true);
        let backend = Backend {
            function,
            fabric,
            kind: config.kind,
            settings: config.pci,
            config: ConfigSpace::new(config.kind, &config.pci),
        };
        Ok(Self { server, backend })
    }

    /// Serves one VMM after the other, for ever.
    pub fn serve(mut self) {
        loop {
            let name = self.backend.function.name.clone();
            match self.server.run(&mut self.backend) {
                Ok(()) => log::info!("{name}: the VMM is gone"),
                Err(error) => log::warn!("{name}: connection to the VMM: {error}"),
            }
            self.backend.disconnected();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reached_by_a_bus_master_until_it_is_reset() {
        let config = FunctionConfig::new(0, Kind::Pf);
        let path = std::env::temp_dir().join(format!("connectx-vfio-{}", std::process::id()));
        let function = Arc::new(Function::new(config.clone()));
        let fabric = Arc::new(Fabric::new(vec![function.clone()]));
        let device = Device::new(&path, &config, function.clone(), fabric).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut backend = device.backend;
        let blocked = || function.hca().io.memory.is_blocked();
        assert!(blocked());
        // Memory space alone, then the bus, too.
        backend.write_config(4, &[2, 0]);
        assert!(blocked());
        backend.write_config(4, &[6, 0]);
        assert!(!blocked());
        backend.reset().unwrap();
        assert!(blocked());
        backend.write_config(4, &[6, 0]);
        // Function-level reset, by the highest bit of device control.
        backend.write_config(0x49, &[0x80]);
        assert!(blocked());
    }
}
