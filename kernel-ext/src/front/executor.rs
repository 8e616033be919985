//! Cells, one after the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use jupyter_protocol::ExecutionCount;
use jupyter_protocol::messaging::{
    ErrorOutput, ExecuteInput, ExecuteReply, ExecuteRequest, ExecuteResult, ExpressionResult,
    InputRequest, JupyterMessage, JupyterMessageContent, Payload, ReplyError, ReplyStatus,
    Transient, UnknownMessage,
};
use serde_json::{Map, Value};

use super::history::History;
use super::outcome::{Failure, Outcome, Shown};
use super::output::{CellOutput, media};
use super::user_error;
use super::wire::{Channel, Parent, Wire};
use crate::cell::engine::{Engine, Evaluated, Input};
use crate::live::bound::{Bound, Thing};
use crate::live::interrupt::Interrupt;
use crate::live::{Lost, Pool, restore_lost};
use crate::magic::{self, Action, TrainRequest};

/// How often a cell that waits for a line looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// The handle on the executor thread.
#[derive(Clone)]
pub struct Executor {
    queue: Sender<Parent>,
    shared: Arc<Shared>,
}

struct Shared {
    history: Arc<History>,
    engine: Engine,
    interrupt: Interrupt,
    bound: Arc<Bound>,
    /// Ranks that wait for cells.
    pool: Mutex<Option<Pool>>,
    /// A magic is under way: interrupts are its own, also while its result is being bound.
    own: AtomicBool,
    closed: AtomicBool,
    /// Requests that came up to and including this one are not executed: a cell before failed.
    abort_up_to: AtomicU64,
    submitted: AtomicU64,
    numbers: Mutex<HashMap<String, u64>>,
    /// Variables that are gone, and the number of the cell that took them.
    taken: Mutex<HashMap<String, usize>>,
}

impl Executor {
    /// Starts the thread; `typed` brings the lines that clients type when asked.
    pub fn start(wire: Wire, engine: Engine, typed: Receiver<String>) -> Executor {
        let (queue, inbox) = unbounded();
        let shared = Arc::new(Shared {
            history: Arc::new(History::default()),
            engine,
            interrupt: Interrupt::default(),
            bound: Arc::default(),
            pool: Mutex::default(),
            own: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            abort_up_to: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            numbers: Mutex::default(),
            taken: Mutex::default(),
        });
        let worker = Worker {
            wire,
            typed,
            shared: Arc::clone(&shared),
            count: 0,
            told: false,
        };
        std::thread::Builder::new()
            .name("executor".into())
            .spawn(move || worker.run(&inbox))
            .expect("the system refuses a thread at start");
        Executor { queue, shared }
    }

    /// What has been executed.
    pub fn history(&self) -> Arc<History> {
        Arc::clone(&self.shared.history)
    }

    /// The runs bound in this session.
    pub fn bound(&self) -> Arc<Bound> {
        Arc::clone(&self.shared.bound)
    }

    /// Queues a cell.
    pub fn submit(&self, request: Parent) {
        let number = self.shared.submitted.fetch_add(1, Ordering::AcqRel) + 1;
        self.shared
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(request.header.msg_id.clone(), number);
        let _ = self.queue.send(request);
    }

    /// Interrupts what runs; answered at once, whatever it is.
    pub fn interrupt(&self) {
        self.shared.interrupt.raise();
        if !self.shared.own.load(Ordering::Acquire) {
            self.shared.engine.interrupt();
        }
    }

    /// Takes no further cell.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.interrupt.raise();
    }
}

impl Shared {
    /// Does something that takes interrupts itself.
    fn with_own_interrupts<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.own.swap(true, Ordering::AcqRel);
        let done = work();
        self.own.store(before, Ordering::Release);
        done
    }
}

struct Worker {
    wire: Wire,
    typed: Receiver<String>,
    shared: Arc<Shared>,
    /// The number of the latest stored cell.
    count: usize,
    /// Whether a cell has shown what the user should know of what is prepared.
    told: bool,
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Parent>) {
        while let Ok(parent) = inbox.recv() {
            if self.shared.closed.load(Ordering::Acquire) {
                return;
            }
            let number = self
                .shared
                .numbers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&parent.header.msg_id)
                .unwrap_or(u64::MAX);
            self.shared.interrupt.clear();
            self.shared.engine.forget_interrupts();
            self.wire.busy(&parent);
            if number <= self.shared.abort_up_to.load(Ordering::Acquire) {
                self.abort(&parent);
            } else if let JupyterMessageContent::ExecuteRequest(request) = &parent.content {
                self.execute(&parent, request);
            }
            self.wire.idle(&parent);
        }
    }

    fn abort(&self, parent: &Parent) {
        // Without a number: a page would show that of another cell.
        let reply = UnknownMessage {
            msg_type: "execute_reply".into(),
            content: serde_json::json!({"status": "aborted"}),
        };
        let reply = JupyterMessageContent::UnknownMessage(reply);
        self.wire.reply(Channel::Shell, parent, reply);
    }

    fn execute(&mut self, parent: &Parent, request: &ExecuteRequest) {
        let stored = request.store_history && !request.silent;
        if stored {
            self.count += 1;
        }
        let count = ExecutionCount::new(self.count.max(1));
        if !request.silent {
            self.wire.publish(
                parent,
                ExecuteInput {
                    code: request.code.clone(),
                    execution_count: count,
                },
            );
        }
        let output = CellOutput::new(self.wire.clone(), Arc::clone(parent), request.silent);
        if !request.silent && !std::mem::replace(&mut self.told, true) {
            let note = self.shared.engine.note().map(|note| format!("{note}\n"));
            output.stderr(&note.unwrap_or_default());
        }
        let cell = Cell {
            worker: self,
            output: &output,
            parent,
            request,
        };
        let outcome = cell.expand_and_run();
        let mut reply = ExecuteReply {
            execution_count: count,
            user_expressions: Some(HashMap::new()),
            ..ExecuteReply::default()
        };
        let mut text = String::new();
        match outcome {
            Ok(shown) => {
                if let Some(shown) = shown {
                    // A cell's own display may be of any form.
                    let plain = shown.bundle.get("text/plain").and_then(Value::as_str);
                    text = plain.unwrap_or_default().to_owned();
                    if shown.page {
                        reply.payload.push(Payload::Page {
                            data: media(&shown),
                            start: 0,
                        });
                    } else if !request.silent {
                        let mut result = ExecuteResult::new(count, media(&shown));
                        // The schema wants an object here, even an empty one.
                        result.transient = Some(Transient { display_id: None });
                        self.wire.publish(parent, result);
                    }
                }
                reply.user_expressions = Some(self.expressions(&output, parent, request));
            }
            Err(failure) => {
                if !request.silent {
                    self.wire.publish(
                        parent,
                        ErrorOutput {
                            ename: failure.ename.clone(),
                            evalue: failure.evalue.clone(),
                            traceback: failure.traceback.clone(),
                        },
                    );
                }
                if request.stop_on_error {
                    let latest = self.shared.submitted.load(Ordering::Acquire);
                    self.shared.abort_up_to.store(latest, Ordering::Release);
                }
                reply.status = ReplyStatus::Error;
                reply.error = Some(Box::new(ReplyError {
                    ename: failure.ename,
                    evalue: failure.evalue,
                    traceback: failure.traceback,
                }));
            }
        }
        if stored {
            self.shared.history.push(self.count, &request.code, &text);
        }
        self.wire.reply(Channel::Shell, parent, reply);
    }

    /// Evaluates the request's named expressions, each on its own.
    fn expressions(
        &self,
        output: &CellOutput,
        parent: &Parent,
        request: &ExecuteRequest,
    ) -> HashMap<String, ExpressionResult> {
        let Some(expressions) = &request.user_expressions else {
            return HashMap::new();
        };
        let evaluate = |code: &String| match crate::depth::refused(code).map_or_else(
            || self.evaluate(code, output, self.input(parent, false)),
            Err,
        ) {
            Ok(shown) => ExpressionResult::Ok {
                data: media(&shown.unwrap_or_default()),
                metadata: Map::new(),
            },
            Err(failure) => ExpressionResult::Error {
                ename: failure.ename,
                evalue: failure.evalue,
                traceback: failure.traceback,
            },
        };
        expressions
            .iter()
            .map(|(name, code)| (name.clone(), evaluate(code)))
            .collect()
    }

    /// Evaluates Rust. When the process that holds the variables ends in it, what is bound to
    /// things on disk is bound again before anything else is done.
    fn evaluate(&self, code: &str, output: &CellOutput, input: Input) -> Outcome {
        let evaluated = self.shared.engine.evaluate(code, output.clone(), input);
        let lost = match evaluated.lost.is_empty() {
            true => Lost::default(),
            false => self.shared.with_own_interrupts(|| {
                let mute = output.silenced();
                restore_lost(&evaluated.lost, &self.shared.bound, &|code| {
                    let asks = Box::new(|_: &str, _: bool| String::new());
                    let again = self.shared.engine.evaluate(code, mute.clone(), asks);
                    settle(again, &Lost::default()).is_ok()
                })
            }),
        };
        if evaluated.interrupted
            && let Ok(contents) = &evaluated.result
            && !contents.is_empty()
        {
            // It came to its end all the same; its value shall not be lost.
            let late = shown(contents.clone());
            output.display(&late, &uuid::Uuid::new_v4().to_string());
        }
        for (name, id) in &evaluated.seen.kept {
            self.shared.bound.insert(name, Thing::Frame(id.clone()));
        }
        let mut taken = self
            .shared
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        taken.retain(|name, _| self.shared.engine.kind_of(name).is_none());
        taken.extend(
            evaluated
                .taken
                .iter()
                .map(|name| (name.clone(), self.count)),
        );
        settle(evaluated, &lost).map_err(|failure| user_error::with_takers(failure, &taken))
    }

    /// How this cell asks its client for a line. A cell that is interrupted gets an empty one.
    fn input(&self, parent: &Parent, allowed: bool) -> Input {
        let (wire, typed, parent) = (self.wire.clone(), self.typed.clone(), Arc::clone(parent));
        let shared = Arc::clone(&self.shared);
        Box::new(move |prompt, password| {
            if !allowed || shared.interrupt.is_raised() {
                return String::new();
            }
            let question = InputRequest {
                prompt: prompt.to_owned(),
                password,
            };
            while typed.try_recv().is_ok() {}
            let _ = wire
                .stdin
                .send(JupyterMessage::new(question, Some(&parent)));
            loop {
                match typed.recv_timeout(LOOK) {
                    Ok(line) => return line,
                    Err(RecvTimeoutError::Timeout) if !shared.interrupt.is_raised() => {}
                    Err(_) => return String::new(),
                }
            }
        })
    }
}

/// One cell under way.
struct Cell<'a> {
    worker: &'a Worker,
    output: &'a CellOutput,
    parent: &'a Parent,
    request: &'a ExecuteRequest,
}

impl Cell<'_> {
    fn expand_and_run(&self) -> Outcome {
        if let Some(failure) = crate::depth::refused(&self.request.code) {
            return Err(failure);
        }
        match magic::expand(&self.request.code) {
            Action::Rust(code) => self.rust(&code),
            Action::Refused(refusal) => Err(refusal.failure()),
            Action::Help(name) => {
                let mut shown = magic::help::page(&name);
                shown.page = true;
                Ok(Some(shown))
            }
            Action::Lines { lines, rust } => {
                let mut last = None;
                for line in &lines {
                    last = self.with_own_interrupts(|| crate::live::line(line, &self.session()))?;
                    if let Some(shown) = &last
                        && (lines.len() > 1 || !rust.trim().is_empty())
                    {
                        self.output
                            .display(shown, &uuid::Uuid::new_v4().to_string());
                        last = None;
                    }
                }
                match self.rust(&rust)? {
                    Some(shown) => Ok(Some(shown)),
                    None => Ok(last),
                }
            }
            Action::Train(mut request) => {
                self.fill(&mut request)?;
                self.with_own_interrupts(|| crate::live::train(&request, &self.session()))
            }
            Action::Sweep(mut request) => {
                self.fill(&mut request.runs)?;
                self.with_own_interrupts(|| crate::live::sweep(&request, &self.session()))
            }
            Action::Sql(mut request) => {
                request.text = crate::live::fill(&request.text, &self.session())?;
                crate::live::query(&request, &self.session())
            }
            Action::Check(mut request) => {
                request.text = crate::live::fill(&request.text, &self.session())?;
                crate::live::check(&request, &self.session())
            }
            Action::Ranks(request) => {
                self.with_own_interrupts(|| crate::live::ranks(&request, &self.session()))
            }
            Action::Strategy(request) => {
                self.with_own_interrupts(|| crate::live::strategy(&request, &self.session()))
            }
            Action::Params(request) => crate::live::params(&request, &self.session()),
        }
    }

    /// Fills parameters in.
    fn fill(&self, request: &mut TrainRequest) -> Result<(), Failure> {
        for (_, value) in &mut request.pairs {
            *value = crate::live::fill(value, &self.session())?;
        }
        Ok(())
    }

    fn with_own_interrupts(&self, work: impl FnOnce() -> Outcome) -> Outcome {
        self.worker.shared.with_own_interrupts(work)
    }

    fn session(&self) -> crate::live::Session<'_> {
        crate::live::Session {
            output: self.output,
            interrupt: &self.worker.shared.interrupt,
            bind: Box::new(|code| self.rust(code)),
            pool: &self.worker.shared.pool,
            facts: self.worker.shared.engine.facts(),
            bind_later: Box::new(|code| self.worker.shared.engine.bind_later(code)),
            warm: Box::new(|| self.worker.shared.engine.warm()),
            bound: &self.worker.shared.bound,
            kind_of: Box::new(|name| self.worker.shared.engine.kind_of(name)),
        }
    }

    fn rust(&self, code: &str) -> Outcome {
        if code.trim().is_empty() {
            return Ok(None);
        }
        let input = self.worker.input(self.parent, self.request.allow_stdin);
        self.worker.evaluate(code, self.output, input)
    }
}

/// Turns what evcxr reported into the cell's outcome.
fn settle(evaluated: Evaluated, lost: &Lost) -> Outcome {
    match evaluated.result {
        Ok(_) if evaluated.interrupted => Err(user_error::stopped(&evaluated.seen)),
        Ok(contents) if is_nothing(&contents) => {
            match (evaluated.seen.panic, evaluated.seen.failed) {
                (Some(panicked), failed) => Err(user_error::panicked(panicked, failed)),
                (None, _) => Ok(None),
            }
        }
        Ok(contents) => Ok(Some(shown(contents))),
        Err(evcxr::Error::SubprocessTerminated(_)) if evaluated.interrupted => {
            Err(user_error::interrupted(lost))
        }
        Err(_) if evaluated.interrupted => Err(user_error::interrupted_before_running()),
        Err(error) => Err(user_error::failure(&error, lost)),
    }
}

/// Whether a cell showed nothing: also the value of a statement is one, and no reader asked for it.
fn is_nothing(contents: &HashMap<String, String>) -> bool {
    contents
        .iter()
        .all(|(mime, text)| mime == "text/plain" && text.trim_end() == "()")
}

/// What a cell showed, by MIME type.
fn shown(contents: HashMap<String, String>) -> Shown {
    let value = |(mime, text): (String, String)| {
        let value = match mime.contains("json") {
            true => serde_json::from_str(&text).unwrap_or(Value::from(text)),
            false => Value::from(text),
        };
        (mime, value)
    };
    Shown {
        bundle: contents.into_iter().map(value).collect(),
        page: false,
    }
}
