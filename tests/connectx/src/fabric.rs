// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The wire between the functions.

use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::capture::Capture;
use crate::function::{lock, Function};
use crate::io::{Frame, GidChange, Output};
use crate::wire::route::{Route, Switch};

/// The switch and the functions at its ports.
#[derive(Debug)]
pub struct Fabric {
    functions: Vec<Arc<Function>>,
    switch: Mutex<Switch>,
    /// Record of the wire, as long as it can be written.
    capture: Mutex<Option<Capture<File>>>,
}

impl Fabric {
    /// A switch with a port for each function.
    pub fn new(functions: Vec<Arc<Function>>) -> Self {
        let mut switch = Switch::default();
        for function in &functions {
            switch.attach(function.index.into());
        }
        Self {
            functions,
            switch: Mutex::new(switch),
            capture: Mutex::default(),
        }
    }

    /// Records the wire from now on.
    pub fn set_capture(&self, capture: Capture<File>) {
        *lock(&self.capture) = Some(capture);
    }

    fn record(&self, frames: &[Frame]) {
        if frames.is_empty() {
            return;
        }
        let mut capture = lock(&self.capture);
        let Some(file) = capture.as_mut() else {
            return;
        };
        let frames = frames.iter().map(Vec::as_slice);
        if let Err(error) = file.record(SystemTime::now(), frames) {
            log::error!("the wire is not recorded any more: {error}");
            *capture = None;
        }
    }

    /// The functions in the order of the command line.
    pub fn functions(&self) -> &[Arc<Function>] {
        &self.functions
    }

    /// Tells the switch about changes of a function's GID table.
    pub(crate) fn set_gids(&self, from: &Function, changes: Vec<GidChange>) {
        if changes.is_empty() {
            return;
        }
        let mut switch = lock(&self.switch);
        for (index, entry) in changes {
            switch.set_gid(from.index.into(), index, entry);
        }
    }

    /// Delivers what a function put out: GID changes, frames, interrupts.
    pub(crate) fn deliver(&self, from: &Function, output: Output) {
        self.set_gids(from, output.gids);
        self.record(&output.frames);
        for mut frame in output.frames {
            let route = lock(&self.switch).route(from.index.into(), &mut frame);
            match route {
                Route::Port(port) => self.send(port, frame),
                Route::Flood => {
                    let others = self.functions.iter().filter(|f| f.index != from.index);
                    for function in others {
                        function.deliver(frame.clone());
                    }
                }
                Route::Everywhere => {
                    for function in &self.functions {
                        function.deliver(frame.clone());
                    }
                }
                Route::Drop => log::debug!("{}: frame to nobody", from.name),
            }
        }
        from.fire(output.vectors);
    }

    fn send(&self, port: u32, frame: Frame) {
        let function = self.functions.iter().find(|f| u32::from(f.index) == port);
        if let Some(function) = function {
            function.deliver(frame);
        }
    }
}
