//! Moves what a cell prints from its process to the notebook while the cell runs.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use evcxr::EvalContextOutputs;

use crate::front::CellOutput;

/// What the pump is told.
enum Order {
    /// From now on output belongs to this cell.
    Begin(CellOutput),
    /// The cell has ended: send everything, then report.
    End(Sender<Seen>),
}

/// What the pump noticed in a cell's output.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The message of a panic on the cell's own thread.
    pub panic: Option<String>,
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

    /// Directs output to `cell`.
    pub fn begin(&self, cell: CellOutput) {
        let _ = self.orders.send(Order::Begin(cell));
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
    let mut panicking = false;
    loop {
        select! {
            recv(inbox) -> order => match order {
                Ok(Order::Begin(next)) => {
                    cell = Some(next);
                    seen = Seen::default();
                    panicking = false;
                }
                Ok(Order::End(done)) => {
                    while let Ok(line) = outputs.stdout.try_recv() {
                        forward_stdout(&cell, line, &outputs.stdout);
                    }
                    while let Ok(line) = outputs.stderr.recv_timeout(QUIET) {
                        note_panic(&line, &mut seen, &mut panicking);
                        forward_stderr(&cell, line, &outputs.stderr, &mut seen, &mut panicking);
                    }
                    let _ = done.send(seen.clone());
                }
                Err(_) => return,
            },
            recv(outputs.stdout) -> line => match line {
                Ok(line) => forward_stdout(&cell, line, &outputs.stdout),
                Err(_) => return,
            },
            recv(outputs.stderr) -> line => match line {
                Ok(line) => {
                    note_panic(&line, &mut seen, &mut panicking);
                    forward_stderr(&cell, line, &outputs.stderr, &mut seen, &mut panicking);
                }
                Err(_) => return,
            },
        }
    }
}

/// Sends a line and whatever has queued up behind it as one message.
fn forward_stdout(cell: &Option<CellOutput>, first: String, queue: &Receiver<String>) {
    let mut text = first;
    text.push('\n');
    while text.len() < 1 << 16 {
        let Ok(line) = queue.try_recv() else { break };
        text.push_str(&line);
        text.push('\n');
    }
    if let Some(cell) = cell {
        cell.stdout(&text);
    }
}

fn forward_stderr(
    cell: &Option<CellOutput>,
    first: String,
    queue: &Receiver<String>,
    seen: &mut Seen,
    panicking: &mut bool,
) {
    let mut text = first;
    text.push('\n');
    while text.len() < 1 << 16 {
        let Ok(line) = queue.try_recv() else { break };
        note_panic(&line, seen, panicking);
        text.push_str(&line);
        text.push('\n');
    }
    if let Some(cell) = cell {
        cell.stderr(&text);
    }
}

/// Recognises the two lines that a panic on the process's main thread prints; only the first
/// panic counts.
fn note_panic(line: &str, seen: &mut Seen, panicking: &mut bool) {
    if *panicking {
        seen.panic.get_or_insert_with(|| line.to_owned());
        *panicking = false;
    } else if line.starts_with("thread 'main' ") && line.contains("panicked at ") {
        *panicking = true;
    }
}
