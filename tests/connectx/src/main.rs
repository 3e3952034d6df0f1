// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The program: see the library for what it is made of.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use connectx::capture::Capture;
use connectx::cli::{Args, USAGE};
use connectx::fabric::Fabric;
use connectx::function::Function;
use connectx::vfio::Device;
use connectx::{control, worker};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Logs lines with the seconds since the start.
struct Logger {
    start: Instant,
    out: Mutex<Box<dyn Write + Send>>,
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let time = self.start.elapsed().as_secs_f64();
        let (level, args) = (record.level(), record.args());
        if let Ok(mut out) = self.out.lock() {
            // There is no place to report a failed log to.
            let _ = writeln!(out, "[{time:12.6}] {level:5} {args}");
        }
    }

    fn flush(&self) {}
}

fn start_log(args: &Args) -> Result<(), String> {
    let out: Box<dyn Write + Send> = match &args.log {
        Some(path) => Box::new(File::create(path).map_err(|e| format!("{}: {e}", path.display()))?),
        None => Box::new(std::io::stderr()),
    };
    let logger = Logger {
        start: Instant::now(),
        out: Mutex::new(out),
    };
    log::set_boxed_logger(Box::new(logger)).map_err(|e| e.to_string())?;
    log::set_max_level(match args.verbose {
        true => log::LevelFilter::Debug,
        false => log::LevelFilter::Info,
    });
    // A bug must end up in the log, wherever that is.
    std::panic::set_hook(Box::new(|info| {
        log::error!("{info}");
        eprintln!("connectx: {info}");
    }));
    Ok(())
}

fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name(name.clone()).spawn(f);
    thread.map(drop).map_err(|e| format!("thread {name}: {e}"))
}

fn run(args: &Args) -> Result<(), String> {
    start_log(args)?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| e.to_string())?;
    let functions = args
        .functions
        .iter()
        .map(|f| Arc::new(Function::new(f.config.clone())));
    let fabric = Arc::new(Fabric::new(functions.collect()));

    if let Some(path) = &args.pcap {
        let capture = File::create(path).and_then(Capture::new);
        fabric.set_capture(capture.map_err(|e| format!("{}: {e}", path.display()))?);
    }
    for (args, function) in args.functions.iter().zip(fabric.functions()) {
        let device = Device::new(
            &args.socket,
            &args.config,
            Arc::clone(function),
            Arc::clone(&fabric),
        );
        let device = device.map_err(|e| format!("{}: {e}", args.socket.display()))?;
        spawn(format!("{} vfio", function.name), move || device.serve())?;
        let (function, fabric) = (Arc::clone(function), Arc::clone(&fabric));
        spawn(format!("{} worker", function.name), move || {
            worker::run(function, fabric)
        })?;
    }
    if let Some(path) = &args.control {
        let started = control::start(path, Arc::clone(&fabric));
        started.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if let Some(path) = &args.script {
        let done = control::script(&fabric, path);
        done.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    println!("connectx: ready");

    signals.forever().next();
    let sockets = args.functions.iter().map(|f| &f.socket);
    for socket in sockets.chain(&args.control) {
        // Whoever removed it before us is right, too.
        let _ = std::fs::remove_file(socket);
    }
    if let Some(path) = &args.counters {
        let text = format!("{:#}\n", control::dump(&fabric));
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let args = Args::parse(std::env::args_os().skip(1));
    let result = args.and_then(|args| {
        if args.help {
            print!("{USAGE}");
            return Ok(());
        }
        run(&args)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connectx: {error}");
            ExitCode::FAILURE
        }
    }
}
