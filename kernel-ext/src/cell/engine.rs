//! The evaluation thread: the only one that touches evcxr.

use std::collections::HashMap;
use std::fs;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use evcxr::{CommandContext, Error, EvalCallbacks};

use super::IMPORT;
use super::again::again_when_it_panics;
use super::facts::Facts;
use super::first::First;
use super::pump::{Pump, Seen};
use super::scratch::Scratch;
use super::stop::{Means, Stop};
use crate::front::CellOutput;

/// Asks the client for a line: prompt, and whether to hide what is typed.
pub type Input = Box<dyn Fn(&str, bool) -> String + Send>;

/// Bytes of address space for the evaluation thread's stack: rust-analyzer calls itself for each level of what it reads.
const STACK: usize = 256 << 20;

/// A completion of Rust code.
#[derive(Debug, Clone)]
pub struct Matches {
    /// The candidates: text and kind.
    pub items: Vec<(String, &'static str)>,
    /// Byte range of the code that a candidate replaces.
    pub range: std::ops::Range<usize>,
}

/// How an evaluation ended.
pub struct Evaluated {
    /// MIME type to content, or evcxr's error.
    pub result: Result<HashMap<String, String>, Error>,
    /// What the output pump noticed.
    pub seen: Seen,
    /// Whether somebody asked to interrupt it.
    pub interrupted: bool,
    /// The variables that existed before and are gone, with their types.
    pub lost: Vec<(String, String)>,
    /// Variables that the cell took by value, and are gone.
    pub taken: Vec<String>,
}

enum Job {
    Evaluate {
        code: String,
        output: CellOutput,
        input: Input,
        done: Sender<Evaluated>,
    },
    Complete {
        code: String,
        position: usize,
        done: Sender<Option<Matches>>,
    },
    Describe {
        word: String,
        done: Sender<Option<String>>,
    },
    Warm {
        done: Sender<()>,
    },
    Bind {
        code: String,
    },
}

/// The handle on the evaluation thread.
#[derive(Clone)]
pub struct Engine {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
}

struct Shared {
    scratch: Scratch,
    /// The process that holds the variables, once there is one.
    child: Mutex<Option<Arc<Mutex<Child>>>>,
    stop: Arc<Stop>,
    /// Set while a client is waiting, so that warming gives way.
    wanted: AtomicBool,
    /// The session's variables with their types, as the last evaluation left them.
    variables: Mutex<Vec<(String, String)>>,
    first: First,
}

impl Engine {
    /// Starts evcxr on its own thread and warms it there; returns at once.
    pub fn start(scratch: &Scratch) -> Engine {
        let (jobs, inbox) = unbounded();
        let shared = Arc::new(Shared {
            scratch: scratch.clone(),
            child: Mutex::new(None),
            stop: Stop::new(scratch),
            wanted: AtomicBool::new(false),
            variables: Mutex::default(),
            first: First::default(),
        });
        let engine = Engine {
            jobs,
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("evaluation".into())
            .stack_size(STACK)
            .spawn(move || {
                again_when_it_panics(|| Worker::run(&inbox, &shared), || shared.give_up_child());
            })
            .expect("the system refuses a thread at start");
        engine
    }

    /// What set-up prepared, if it did.
    pub fn facts(&self) -> Option<&Facts> {
        self.shared.scratch.facts.as_ref()
    }

    /// What the user should know of what is prepared.
    pub fn note(&self) -> Option<&str> {
        self.shared.scratch.note.as_deref()
    }

    /// The type of a variable of the session; none where there is no such variable.
    pub fn kind_of(&self, variable: &str) -> Option<String> {
        let variables = lock(&self.shared.variables);
        let found = variables.iter().find(|(name, _)| name == variable);
        found.map(|(_, kind)| kind.clone())
    }

    /// Evaluates a cell's Rust code; blocks until it has ended and its output is sent.
    pub fn evaluate(&self, code: &str, output: CellOutput, input: Input) -> Evaluated {
        let (done, wait) = bounded(1);
        let job = Job::Evaluate {
            code: code.to_owned(),
            output: output.clone(),
            input,
            done,
        };
        self.ask(job);
        let compiled = || self.shared.scratch.flags().compiled().exists();
        let ended = self.shared.first.wait(&wait, &output, &compiled);
        ended.unwrap_or_else(|_| Evaluated {
            result: Err(Error::Message(FAILED.into())),
            seen: Seen::default(),
            interrupted: false,
            lost: std::mem::take(&mut *lock(&self.shared.variables)),
            taken: Vec::new(),
        })
    }

    /// Completes Rust code at a byte offset. `None` when the evaluation thread is busy.
    pub fn complete(&self, code: &str, position: usize, patience: Duration) -> Option<Matches> {
        if self.shared.stop.is_evaluating() {
            return None;
        }
        let (done, wait) = bounded(1);
        self.ask(Job::Complete {
            code: code.to_owned(),
            position,
            done,
        });
        wait.recv_timeout(patience).ok().flatten()
    }

    /// The documentation of a name. `None` when there is none or the evaluation thread is busy.
    pub fn describe(&self, word: &str, patience: Duration) -> Option<String> {
        if self.shared.stop.is_evaluating() {
            return None;
        }
        let (done, wait) = bounded(1);
        self.ask(Job::Describe {
            word: word.to_owned(),
            done,
        });
        wait.recv_timeout(patience).ok().flatten()
    }

    /// Evaluates code that binds variables when there is time, before any cell that comes later.
    /// Nobody waits for it, and interrupts pass it by.
    pub fn bind_later(&self, code: &str) {
        let code = code.to_owned();
        // An evaluation thread that has ended has no variables.
        let _ = self.jobs.send(Job::Bind { code });
    }

    /// Does now what the next frame cell would wait for; how long that took.
    pub fn warm(&self) -> Duration {
        let started = Instant::now();
        let (done, wait) = bounded(1);
        self.ask(Job::Warm { done });
        // An evaluation thread that has ended has nothing to make ready.
        let _ = wait.recv();
        started.elapsed()
    }

    fn ask(&self, job: Job) {
        self.shared.wanted.store(true, Ordering::Release);
        let _ = self.jobs.send(job);
    }

    /// A cell has come: an interrupt of the time before it is not meant for it.
    pub fn forget_interrupts(&self) {
        self.shared.stop.forget();
    }

    /// Interrupts the evaluation that is under way, if any. Code that has not run yet has its
    /// compilation stopped; code that runs is asked first, and loses its process the second time.
    pub fn interrupt(&self) {
        if self.shared.stop.ask() == Some(Means::Kill) {
            self.kill();
        }
    }

    /// Ends the process that holds the variables.
    pub fn kill(&self) {
        self.shared.kill();
    }
}

impl Shared {
    fn kill(&self) {
        let handle = lock(&self.child).clone();
        if let Some(child) = handle {
            let _ = lock(&child).kill();
        }
    }

    /// After a failure of the evaluation thread, whose process nobody can speak to any more.
    fn give_up_child(&self) {
        self.kill();
        if let Some(child) = lock(&self.child).take() {
            // It was killed, so that this does not wait for long.
            let _ = lock(&child).wait();
        }
        self.stop.end();
    }
}

/// What a cell is told in which the evaluation thread has failed.
const FAILED: &str = "this cell cannot be evaluated: the kernel failed over it, and has begun a new session\n\
                      help: write it in another way; what the kernel said is in Jupyter's log";

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the evaluation thread.
struct Worker<'a> {
    context: CommandContext,
    pump: Pump,
    shared: &'a Shared,
    /// Variables that are gone and that no cell has been told of.
    lost: Vec<(String, String)>,
}

impl Worker<'_> {
    fn run(inbox: &Receiver<Job>, shared: &Shared) {
        let started = Instant::now();
        let (context, outputs) = match CommandContext::new() {
            Ok(made) => made,
            Err(error) => return refuse(inbox, &error),
        };
        *lock(&shared.child) = Some(context.process_handle());
        let mut worker = Worker {
            context,
            pump: Pump::start(outputs),
            shared,
            lost: Vec::new(),
        };
        trace("evcxr ready", started);
        if shared.scratch.facts.is_some() {
            if let Err(error) = worker.context.execute(IMPORT) {
                eprintln!("the prelude cannot be used: {error}");
            }
            trace("prelude imported", started);
            // Loading the crates' types is most of what the first cell would wait for.
            if !shared.wanted.load(Ordering::Acquire) {
                worker.load_types();
            }
            trace("warm", started);
        }
        while let Ok(job) = inbox.recv() {
            worker.work(job);
        }
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Evaluate {
                code,
                output,
                input,
                done,
            } => {
                let _ = done.send(self.evaluate(&code, output, &*input));
            }
            Job::Complete {
                code,
                position,
                done,
            } => {
                let found = self.context.completions(&code, position).ok();
                let _ = done.send(found.map(|found| {
                    Matches {
                        range: found.start_offset..found.end_offset,
                        items: found
                            .completions
                            .into_iter()
                            .map(|item| (item.code, item.kind))
                            .collect(),
                    }
                }));
            }
            Job::Describe { word, done } => {
                let _ = done.send(self.describe(&word));
            }
            Job::Warm { done } => {
                self.warm();
                let _ = done.send(());
            }
            Job::Bind { code } => self.bind(&code),
        }
    }

    fn bind(&mut self, code: &str) {
        let before = self.variables();
        match self.context.execute(code) {
            Ok(_) => {}
            // It had ended before: told with the next cell.
            Err(Error::SubprocessTerminated(_)) => self.lost.extend(before),
            Err(error) => eprintln!("halobook-kernel: not bound: {error}"),
        }
        *lock(&self.shared.variables) = self.variables();
    }

    /// Has rust-analyzer load what frame cells need.
    fn load_types(&mut self) {
        let _ = self.context.completions(WARM, WARM.len());
    }

    /// Loads types, and has the compiler and the cells' process read the prelude.
    fn warm(&mut self) {
        if self.shared.scratch.facts.is_none() {
            return;
        }
        self.load_types();
        if let Err(error) = self.context.execute(WARM_CELL) {
            eprintln!("halobook-kernel: the prelude cannot be used: {error}");
        }
    }

    fn describe(&mut self, word: &str) -> Option<String> {
        // Of a macro only its name with the sign is known.
        [word.to_owned(), format!("{word}!")]
            .iter()
            .find_map(|name| {
                let outputs = self.context.execute(&format!(":doc {name}")).ok()?;
                let text = outputs.get("text/plain")?.trim();
                (!text.is_empty() && text != "No documentation found").then(|| text.to_owned())
            })
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = self
            .context
            .variables_and_types()
            .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
            .collect();
        all.sort();
        all
    }

    fn evaluate(
        &mut self,
        code: &str,
        output: CellOutput,
        input: &dyn Fn(&str, bool) -> String,
    ) -> Evaluated {
        let before = self.variables();
        let pid = lock(&self.context.process_handle()).id();
        self.shared.stop.begin(pid, &output);
        self.pump.begin(output.clone(), pid);
        let mut callbacks = EvalCallbacks {
            input_reader: &|request| input(&request.prompt, request.is_password),
        };
        if chooses_display(code) {
            let _ = fs::write(self.shared.scratch.flags().own_display(), "");
        }
        let shown = match self.shared.scratch.facts {
            Some(_) => super::rewrite::rewritten(code, &before),
            // What is written into a cell is the prelude's.
            None => code.into(),
        };
        let mut result = self.context.execute_with_callbacks(&shown, &mut callbacks);
        // Errors are about what the user wrote.
        if *shown != *code && matches!(result, Err(Error::CompilationErrors(_))) {
            result = self.context.execute_with_callbacks(code, &mut callbacks);
        }
        let interrupted = self.shared.stop.end();
        let mut seen = self.pump.end();
        if interrupted {
            output.cut();
        }
        if let Some(panicked) = &mut seen.panic
            && let Some(line) = panicked.cell_line()
        {
            let source = self.shared.scratch.ran();
            panicked.place = super::place::line_of(code, &shown, &source, line);
        }
        let after = self.variables();
        let is_gone = |name: &String| !after.iter().any(|(other, _)| other == name);
        let mut taken: Vec<String> = before.iter().map(|(name, _)| name.clone()).collect();
        taken.retain(|name| result.is_ok() && is_gone(name));
        *lock(&self.shared.variables) = after;
        self.shared.scratch.drop_libraries();
        let mut lost = std::mem::take(&mut self.lost);
        if let Err(Error::SubprocessTerminated(_)) = &result {
            lost.extend(before);
        }
        Evaluated {
            result: result.map(|outputs| outputs.content_by_mime_type),
            seen,
            interrupted,
            lost,
            taken,
        }
    }
}

/// Whether evcxr is told in what form to show values, which only evcxr itself then does.
fn chooses_display(code: &str) -> bool {
    let mut words = code
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.any(|word| word == ":fmt" || word == ":types")
}

/// Code that is never run: completing inside it makes rust-analyzer load what frame cells need.
const WARM: &str = "let warm_a = df!(\"a\" => [1, 2, 3]).unwrap();\n\
let warm_b = warm_a.clone().lazy().filter(col(\"a\").gt(lit(1))).collect().unwrap();\n\
warm_b.";

/// A frame cell that binds and shows nothing.
const WARM_CELL: &str = "{ let warm = df!(\"a\" => [1, 2, 3]).unwrap();\n\
let _ = warm.lazy().filter(col(\"a\").gt(lit(1))).collect(); }";

/// Answers everything with the error that kept evcxr from starting.
fn refuse(inbox: &Receiver<Job>, error: &Error) {
    while let Ok(job) = inbox.recv() {
        if let Job::Evaluate { done, .. } = job {
            let _ = done.send(Evaluated {
                result: Err(error.clone()),
                seen: Seen::default(),
                interrupted: false,
                lost: Vec::new(),
                taken: Vec::new(),
            });
        }
    }
}

/// Says on standard error how long a step took, when asked by `HALOBOOK_TRACE`.
fn trace(step: &str, since: Instant) {
    if std::env::var_os("HALOBOOK_TRACE").is_some() {
        eprintln!(
            "halobook-kernel: {step} after {} ms",
            since.elapsed().as_millis()
        );
    }
}
