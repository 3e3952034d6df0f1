// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Questions about the running device.
//!
//! A client of the control socket sends one JSON object per line and gets one JSON object per
//! line back, with `"ok"` true, or false and the reason in `"error"`.
//!
//! | request | answer |
//! |---|---|
//! | `{"cmd":"counters"}` | `functions`: per function the counters, `qps`: those of each QP |
//! | `{"cmd":"queues"}` | `functions`: per function `eqs` and `cqs` by number: entries written (`producer`) and taken (`consumer`), whether the next one raises an event (`armed`) and whether the queue has `failed` |
//! | `{"cmd":"objects"}` | `functions`: per function `live` objects per kind, `pages` held, canary pages `damaged`, objects `leaked` at teardowns so far |
//! | `{"cmd":"events","function":"pf0","queue":256,"limit":100}` | `events`: the latest events as text lines, oldest first; function, queue and limit may be left out |
//! | `{"cmd":"reset-counters"}` | counters of all functions start from zero |
//! | `{"cmd":"reset-events"}` | event logs of all functions are emptied |
//! | `{"cmd":"fault","function":"pf0","rule":{...}}` | adds a [`Rule`] |
//! | `{"cmd":"faults"}` | `functions`: per function its rules, with the occasions `seen` and the `hits` |
//! | `{"cmd":"clear-faults"}` | takes all rules of all functions away |
//! | `{"cmd":"inject","function":"pf0","what":{...}}` | an [`Injection`] |

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{json, Map, Value};

use crate::counters;
use crate::fabric::Fabric;
use crate::faults::{self, Injection, Rule};
use crate::hca::Hca;

/// Longest request in bytes.
const MAX_REQUEST: u64 = 1 << 20;
/// Events in an answer unless told otherwise.
const DEFAULT_LIMIT: usize = 1000;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Counters {},
    Queues {},
    Objects {},
    ResetCounters {},
    ResetEvents {},
    Faults {},
    ClearFaults {},
    Fault {
        function: String,
        rule: Rule,
    },
    Inject {
        function: String,
        what: Injection,
    },
    Events {
        function: Option<String>,
        queue: Option<u32>,
        limit: Option<usize>,
    },
}

/// Counters of a function.
fn counters(hca: &Hca) -> Value {
    let mut value = counters::snapshot(&hca.io.counters, &hca.io.memory);
    value["qps"] = crate::qp::counters(hca);
    value
}

/// Where the event and completion queues of a function stand.
fn queues(hca: &Hca) -> Value {
    let eqs = hca.eqs.table.iter();
    let cqs = hca.cqs.table.iter();
    json!({
        "eqs": eqs.map(|(n, eq)| (n.to_string(), eq.state())).collect::<Map<_, _>>(),
        "cqs": cqs.map(|(n, cq)| (n.to_string(), cq.state())).collect::<Map<_, _>>(),
    })
}

fn counts(counts: impl IntoIterator<Item = (&'static str, usize)>) -> Value {
    let pairs = counts.into_iter();
    Value::Object(
        pairs
            .map(|(kind, count)| (kind.to_string(), json!(count)))
            .collect(),
    )
}

/// Objects of a function.
fn objects(hca: &Hca) -> Value {
    json!({
        "live": counts(hca.objects()),
        "leaked": counts(hca.leaked()),
        "pages": hca.pages.count(),
        "damaged": hca.pages.damaged,
    })
}

/// `f` of each function, by name.
fn per_function(fabric: &Fabric, f: impl Fn(&Hca) -> Value) -> Value {
    let functions = fabric.functions().iter();
    functions
        .map(|function| (function.name.clone(), f(&function.hca())))
        .collect()
}

/// Everything about all functions: what is written at exit.
pub fn dump(fabric: &Fabric) -> Value {
    json!({
        "functions": per_function(fabric, |hca| {
            let mut value = counters(hca);
            value["objects"] = objects(hca);
            value
        })
    })
}

/// Does something to a function by name, at its time now, and lets it go on from there.
fn on_function(
    fabric: &Fabric,
    name: &str,
    f: impl FnOnce(u64, &mut Hca) -> std::result::Result<(), &'static str>,
) -> Value {
    let Some(function) = fabric.functions().iter().find(|f| f.name == name) else {
        return json!({"ok": false, "error": "no such function"});
    };
    let mut hca = function.hca();
    let done = f(function.now(), &mut hca);
    let (vectors, gids) = hca.take_signals();
    drop(hca);
    fabric.set_gids(function, gids);
    function.fire(vectors);
    function.kick();
    match done {
        Ok(()) => json!({"ok": true}),
        Err(error) => json!({"ok": false, "error": error}),
    }
}

/// Executes the requests of a file, one a line; empty lines and those that start with `#` are skipped.
///
/// # Errors
///
/// When the file cannot be read, or a request fails.
pub fn script(fabric: &Fabric, path: &Path) -> std::result::Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let value = answer(fabric, line);
        if value["ok"] != true {
            return Err(format!("line {}: {}", number + 1, value["error"]));
        }
    }
    Ok(())
}

/// Answers one request.
pub fn answer(fabric: &Fabric, line: &str) -> Value {
    let request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => return json!({"ok": false, "error": error.to_string()}),
    };
    match request {
        Request::Counters {} => {
            json!({"ok": true, "functions": per_function(fabric, counters)})
        }
        Request::Queues {} => {
            json!({"ok": true, "functions": per_function(fabric, queues)})
        }
        Request::Objects {} => {
            json!({"ok": true, "functions": per_function(fabric, objects)})
        }
        Request::ResetCounters {} => {
            for function in fabric.functions() {
                function.hca().reset_counters();
            }
            json!({"ok": true})
        }
        Request::Faults {} => {
            let rules = |hca: &Hca| json!(hca.io.faults.rules());
            json!({"ok": true, "functions": per_function(fabric, rules)})
        }
        Request::ClearFaults {} => {
            for function in fabric.functions() {
                function.hca().io.faults.clear();
            }
            json!({"ok": true})
        }
        Request::Fault { function, rule } => {
            on_function(fabric, &function, |_, hca| hca.io.faults.add(rule))
        }
        Request::Inject { function, what } => on_function(fabric, &function, |now, hca| {
            hca.io.now = now;
            faults::inject(hca, what)
        }),
        Request::ResetEvents {} => {
            for function in fabric.functions() {
                function.hca().io.events.clear();
            }
            json!({"ok": true})
        }
        Request::Events {
            function,
            queue,
            limit,
        } => {
            let wanted = |name: &str| function.as_deref().is_none_or(|f| f == name);
            let chosen = fabric.functions().iter().filter(|f| wanted(&f.name));
            let mut events = Vec::new();
            let mut found = false;
            for function in chosen {
                found = true;
                let hca = function.hca();
                events.extend(hca.io.events.of(queue).map(|event| event.to_string()));
            }
            if !found {
                return json!({"ok": false, "error": "no such function"});
            }
            let limit = limit.unwrap_or(DEFAULT_LIMIT);
            events.drain(..events.len().saturating_sub(limit));
            json!({"ok": true, "events": events})
        }
    }
}

/// Serves one client until it hangs up.
fn serve(fabric: &Fabric, stream: UnixStream) -> Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(MAX_REQUEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim().is_empty() {
            continue;
        }
        let mut text = answer(fabric, &line).to_string();
        text.push('\n');
        writer.write_all(text.as_bytes())?;
    }
}

/// Creates the control socket and serves its clients, each in a thread of its own.
///
/// # Errors
///
/// When the socket cannot be created.
pub fn start(path: &Path, fabric: Arc<Fabric>) -> Result<()> {
    crate::vfio::remove_stale_socket(path)?;
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                let fabric = Arc::clone(&fabric);
                let client = stream.and_then(|stream| {
                    let name = "control client".into();
                    std::thread::Builder::new().name(name).spawn(move || {
                        if let Err(error) = serve(&fabric, stream) {
                            log::info!("control client: {error}");
                        }
                    })
                });
                if let Err(error) = client {
                    log::warn!("control socket: {error}");
                }
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FunctionConfig, Kind};
    use crate::function::Function;

    fn fabric() -> Fabric {
        let function = |index, kind| Arc::new(Function::new(FunctionConfig::new(index, kind)));
        Fabric::new(vec![function(0, Kind::Pf), function(1, Kind::Vf)])
    }

    #[test]
    fn every_request_has_an_answer() {
        let fabric = fabric();
        for cmd in [
            "counters",
            "objects",
            "reset-counters",
            "reset-events",
            "events",
        ] {
            let value = answer(&fabric, &format!("{{\"cmd\":\"{cmd}\"}}"));
            assert_eq!(value["ok"], true, "{cmd}: {value}");
        }
        assert_eq!(
            answer(&fabric, "{\"cmd\":\"objects\"}")["functions"]["vf1"]["live"]["qp"],
            0
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let fabric = fabric();
        for line in [
            "",
            "{",
            "{}",
            "{\"cmd\":\"x\"}",
            "{\"cmd\":\"objects\",\"x\":1}",
        ] {
            assert_eq!(answer(&fabric, line)["ok"], false, "{line}");
        }
        let line = "{\"cmd\":\"events\",\"function\":\"pf7\"}";
        assert_eq!(answer(&fabric, line)["error"], "no such function");
    }

    #[test]
    fn events_are_limited_to_the_latest() {
        let fabric = fabric();
        for i in 0..5 {
            fabric.functions()[0].hca().io.event(9, "Doorbell Write", i);
        }
        let line = "{\"cmd\":\"events\",\"queue\":9,\"limit\":2}";
        let events = &answer(&fabric, line)["events"];
        assert_eq!(events[1], "[0.000000] QP9 : Doorbell Write 4");
        assert_eq!(events.as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn faults_are_asked_for_by_function() {
        let fabric = fabric();
        let ask = |text: &str| answer(&fabric, text);
        let rule = r#"{"cmd":"fault","function":"vf1","rule":{"fault":{"kind":"cqe-drop"},"queue":3,"count":2}}"#;
        assert_eq!(ask(rule)["ok"], true);
        let rules = &ask(r#"{"cmd":"faults"}"#)["functions"];
        assert_eq!(rules["pf0"], json!([]));
        assert_eq!(rules["vf1"][0]["fault"]["kind"], "cqe-drop");
        assert_eq!(rules["vf1"][0]["hits"], 0);
        assert_eq!(ask(r#"{"cmd":"clear-faults"}"#)["ok"], true);
        assert_eq!(ask(r#"{"cmd":"faults"}"#)["functions"]["vf1"], json!([]));
        let down = r#"{"cmd":"inject","function":"pf0","what":{"kind":"port","up":false}}"#;
        assert_eq!(ask(down)["ok"], true);
        assert!(!fabric.functions()[0].hca().port.link_up());
        for wrong in [
            r#"{"cmd":"inject","function":"pf7","what":{"kind":"reset"}}"#,
            r#"{"cmd":"inject","function":"pf0","what":{"kind":"fatal","syndrome":0}}"#,
            r#"{"cmd":"inject","function":"pf0","what":{"kind":"cqe","cqn":1}}"#,
            r#"{"cmd":"fault","function":"pf0","rule":{"fault":{"kind":"cqe-drop"},"sometimes":1}}"#,
        ] {
            assert_eq!(ask(wrong)["ok"], false, "{wrong}");
        }
    }

    #[test]
    fn a_script_stops_at_its_first_mistake() {
        let fabric = fabric();
        let path = std::env::temp_dir().join(format!("connectx-script-{}", std::process::id()));
        let good = r#"{"cmd":"fault","function":"pf0","rule":{"fault":{"kind":"cqe-drop"}}}"#;
        std::fs::write(&path, format!("# drops one\n\n{good}\n")).unwrap();
        script(&fabric, &path).unwrap();
        std::fs::write(&path, format!("{good}\nnonsense\n{good}\n")).unwrap();
        let error = script(&fabric, &path).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(fabric.functions()[0].hca().io.faults.rules().len(), 2);
    }
}
