//! Moves what a cell prints from its process to the notebook while the cell runs.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use evcxr::EvalContextOutputs;

use super::panics::{Fate, Panicked, Panics};
use crate::front::{CellOutput, Shown};
use serde_json::Value;

/// What the pump is told.
enum Order {
    /// From now on output belongs to this cell, run by the process with this number.
    Begin(CellOutput, u32),
    /// The cell has ended: send everything, then report.
    End(Sender<Seen>),
}

/// What the pump noticed in a cell's output.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// A panic on the cell's own thread.
    pub panic: Option<Panicked>,
    /// A library call has ended the cell because of an interrupt; its remark, which may be empty.
    pub interrupted: Option<String>,
    /// Why a library call has ended the cell: the error's name, a line, and what follows it.
    pub failed: Option<(String, String, Vec<String>)>,
    /// Frames that the cell has kept: the name for magics, and the id in the store.
    pub kept: Vec<(String, String)>,
}

/// The pump's handle.
pub struct Pump {
    orders: Sender<Order>,
}

/// How long standard error must be quiet before a cell counts as finished. Its lines come over
/// another pipe than the sign that the cell has ended.
const QUIET: Duration = Duration::from_millis(4);

impl Pump {
    /// Starts the pump on its own thread.
    pub fn start(outputs: EvalContextOutputs) -> Pump {
        let (orders, inbox) = unbounded();
        std::thread::spawn(move || run(&inbox, &outputs));
        Pump { orders }
    }

    /// Directs output to `cell`, which the process `pid` runs.
    pub fn begin(&self, cell: CellOutput, pid: u32) {
        let _ = self.orders.send(Order::Begin(cell, pid));
    }

    /// Returns once everything the cell printed has been sent.
    pub fn end(&self) -> Seen {
        let (done, wait) = bounded(1);
        if self.orders.send(Order::End(done)).is_err() {
            return Seen::default();
        }
        wait.recv().unwrap_or_default()
    }
}

fn run(inbox: &Receiver<Order>, outputs: &EvalContextOutputs) {
    let mut cell: Option<CellOutput> = None;
    let mut seen = Seen::default();
    let mut panics = Panics::of(0);
    loop {
        select! {
            recv(inbox) -> order => match order {
                Ok(Order::Begin(next, pid)) => {
                    cell = Some(next);
                    seen = Seen::default();
                    panics = Panics::of(pid);
                }
                Ok(Order::End(done)) => {
                    while let Ok(line) = outputs.stdout.try_recv() {
                        forward_stdout(&cell, line, &outputs.stdout, &mut seen);
                    }
                    while let Ok(line) = outputs.stderr.recv_timeout(QUIET) {
                        forward_stderr(&cell, line, &outputs.stderr, &mut seen, &mut panics);
                    }
                    if let Some(cell) = &cell {
                        if panics.end() {
                            cell.stderr("\n");
                        }
                        cell.say_missing();
                    }
                    let _ = done.send(seen.clone());
                }
                Err(_) => return,
            },
            recv(outputs.stdout) -> line => match line {
                Ok(line) => forward_stdout(&cell, line, &outputs.stdout, &mut seen),
                Err(_) => return,
            },
            recv(outputs.stderr) -> line => match line {
                Ok(line) => {
                    forward_stderr(&cell, line, &outputs.stderr, &mut seen, &mut panics);
                }
                Err(_) => return,
            },
        }
    }
}

/// Sends a line and whatever has queued up behind it as one message; lines that are for the kernel are done
/// in their place.
fn forward_stdout(
    cell: &Option<CellOutput>,
    first: String,
    queue: &Receiver<String>,
    seen: &mut Seen,
) {
    let Some(cell) = cell else {
        while queue.try_recv().is_ok() {}
        return;
    };
    let mut text = String::new();
    let mut next = Some(first);
    while let Some(line) = next {
        match line.split_once(halobook::display::LINE) {
            Some((before, asked)) => {
                text.push_str(before);
                match printed(asked) {
                    Some(printed) => text.push_str(&printed),
                    None => {
                        if !text.is_empty() {
                            cell.stdout(&std::mem::take(&mut text));
                        }
                        told(cell, asked, seen);
                    }
                }
            }
            None => {
                text.push_str(&line);
                text.push('\n');
            }
        }
        if text.len() >= 1 << 16 {
            break;
        }
        next = queue.try_recv().ok();
    }
    if !text.is_empty() {
        cell.stdout(&text);
    }
}

/// The text of a line that asks for it to be printed as it is.
fn printed(asked: &str) -> Option<String> {
    if !asked.starts_with("{\"print\":") {
        return None;
    }
    let asked: Value = serde_json::from_str(asked).ok()?;
    asked["print"].as_str().map(str::to_owned)
}

/// Does what a cell's line asks of the kernel; what it does not understand it leaves.
fn told(cell: &CellOutput, asked: &str, seen: &mut Seen) {
    let Ok(Value::Object(mut asked)) = serde_json::from_str(asked) else {
        return;
    };
    let id = asked.get("id").and_then(Value::as_str).map(str::to_owned);
    let mut bundle = |name: &str| match asked.remove(name) {
        Some(Value::Object(bundle)) => Some(Shown {
            bundle,
            page: false,
        }),
        _ => None,
    };
    if let Some(shown) = bundle("show") {
        let fresh = || uuid::Uuid::new_v4().to_string();
        cell.display(&shown, &id.unwrap_or_else(fresh));
    } else if let Some(shown) = bundle("update") {
        cell.update(&shown, &id.unwrap_or_default());
    } else if let Some(wait) = asked.get("clear").and_then(Value::as_bool) {
        cell.clear(wait);
    } else if let Some(remark) = asked.get("interrupted").and_then(Value::as_str) {
        seen.interrupted.get_or_insert_with(|| remark.to_owned());
    } else if let Some(failed) = asked.get("failed") {
        let word = |name: &str| failed[name].as_str().unwrap_or_default().to_owned();
        let lines = failed["lines"].as_array().into_iter().flatten();
        let lines = lines.filter_map(Value::as_str).map(str::to_owned).collect();
        seen.failed = Some((word("ename"), word("evalue"), lines));
    } else if let (Some(name), Some(id)) = (asked.get("bind"), asked.get("frame")) {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        seen.kept.push((word(name), word(id)));
    }
}

fn forward_stderr(
    cell: &Option<CellOutput>,
    first: String,
    queue: &Receiver<String>,
    seen: &mut Seen,
    panics: &mut Panics,
) {
    let (mut text, mut next) = (String::new(), Some(first));
    while let Some(line) = next {
        let empty = match panics.note(&line, &mut seen.panic) {
            Fate::Shown => "",
            Fate::ShownBehindEmpty => "\n",
            Fate::Held | Fate::Taken => {
                next = queue.try_recv().ok();
                continue;
            }
        };
        text.extend([empty, &line, "\n"]);
        if text.len() >= 1 << 16 {
            break;
        }
        next = queue.try_recv().ok();
    }
    if let Some(cell) = cell
        && !text.is_empty()
    {
        cell.stderr(&text);
    }
}
