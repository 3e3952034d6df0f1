// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The wire between the functions.

use std::sync::{Arc, Mutex};

use crate::function::{lock, Function};
use crate::io::{Frame, GidChange, Output};
use crate::wire::route::{Route, Switch};

/// The switch and the functions at its ports.
#[derive(Debug)]
pub struct Fabric {
    functions: Vec<Arc<Function>>,
    switch: Mutex<Switch>,
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
