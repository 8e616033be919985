//! A rank of a pool: loads one cell after the other and runs it.
#![allow(unsafe_code)] // loading a library and calling into it; each block names its facts

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gnn_core::comm::{Communicator, GIVEN_UP, Settle, Transport};
use gnn_core::record::state::StatePage;
use gnn_core::record::{Meter, Phase};
use launcher::{store, sys};
use serde_json::{Map, Value};

use super::{Answer, Comm, ENTRY, Ended, Rank, Request};

/// What a cell's function returns: its rows.
pub type Returned = Result<Vec<Map<String, Value>>, Box<dyn Error>>;
/// A cell's function.
pub type Cell = fn(&mut Rank, &mut Comm) -> Returned;
/// Where the last panic was: file and line.
type Place = Arc<Mutex<Option<(String, u32)>>>;

/// How often an idle rank looks for the next cell, soon after one and later.
const SOON: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(20);
/// How long "soon" lasts.
const BUSY: Duration = Duration::from_secs(5);
/// Cells that stay loaded: what they kept may point into them.
type Loaded = Vec<libloading::Library>;

/// Runs the cells that appear in the pool's folder, until the folder is gone. The words of the process
/// name the folder.
pub fn serve<T: Settle + 'static>(transport: T) {
    sys::die_with_parent();
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("error: a rank of a pool needs the pool's folder");
        return;
    };
    if let Err(error) = run(&dir, Rc::new(RefCell::new(transport))) {
        eprintln!("error: {error}");
        sys::exit_now(1);
    }
}

fn run<T: Settle + 'static>(dir: &Path, transport: Rc<RefCell<T>>) -> Result<(), Box<dyn Error>> {
    let (rank, size) = (transport.rank(), transport.size());
    let page = StatePage::create(&dir.join(format!("state/rank-{rank}")))?;
    let meter = Rc::new(Meter::new(Some(page)));
    let place = note_panics();
    let mut loaded = Loaded::new();
    let mut state: Option<Rank> = None;
    for number in 1.. {
        meter.page(|page| page.epoch(number - 1));
        meter.enter(Phase::Done);
        let folder = dir.join(number.to_string());
        let Some(request) = next(dir, &folder) else {
            return Ok(());
        };
        meter.page(|page| page.epoch(number));
        meter.enter(Phase::Other);
        let own = state.get_or_insert_with(|| Rank::new(rank, size, request.clone()));
        own.begin(request.clone());
        let said = |ending| folder.join(format!("rank-{rank}.{ending}"));
        sys::redirect_output(&said("out"))?;
        if request.errors_apart {
            sys::redirect_errors(&said("err"))?;
        }
        let started = Instant::now();
        let mine = request.only.is_empty() || request.only.contains(&(rank as u32));
        let (ended, rows) = if mine {
            let mut inner =
                Communicator::new(Box::new(Rc::clone(&transport)), Rc::clone(&meter), true);
            let cancel = folder.join("cancel");
            inner.cancel_when(move || cancel.exists());
            one(&request, own, &mut Comm::new(inner), &mut loaded, &place)
        } else {
            (Ended::Left, Vec::new())
        };
        let _ = std::io::stdout().flush();
        sys::redirect_output(&dir.join("pool.log"))?;
        let answer = Answer {
            ended,
            rows,
            ms: started.elapsed().as_secs_f64() * 1e3,
        };
        let path = folder.join(format!("rank-{rank}.json"));
        store::write_atomic(&path, &serde_json::to_vec(&answer)?)?;
        meter.enter(Phase::Done);
        transport.borrow_mut().settle()?;
    }
    Ok(())
}

/// Waits for the next cell; none when the pool's folder is gone.
fn next(dir: &Path, folder: &Path) -> Option<Request> {
    let since = Instant::now();
    let path = folder.join("request.json");
    loop {
        if let Ok(bytes) = std::fs::read(&path) {
            return serde_json::from_slice(&bytes).ok();
        }
        let soon = since.elapsed() < BUSY;
        std::thread::sleep(if soon { SOON } else { LATER });
        if !soon && !dir.exists() {
            return None;
        }
    }
}

fn one(
    request: &Request,
    own: &mut Rank,
    comm: &mut Comm,
    loaded: &mut Loaded,
    place: &Place,
) -> (Ended, Vec<Map<String, Value>>) {
    // SAFETY: the library was compiled by this program's kernel from a cell, against the very library
    // that this process has loaded; its only initialisers are the standard library's.
    let library = match unsafe { libloading::Library::new(&request.library) } {
        Ok(library) => library,
        Err(error) => {
            return (
                Ended::Error(format!("the cell cannot be loaded: {error}")),
                Vec::new(),
            );
        }
    };
    // SAFETY: the kernel wrote the function with this very signature, and the same compiler compiled both
    // sides. The library is kept loaded below.
    let cell: Cell = match unsafe { library.get::<Cell>(ENTRY.as_bytes()) } {
        Ok(cell) => *cell,
        Err(error) => {
            return (
                Ended::Error(format!("the cell has no function: {error}")),
                Vec::new(),
            );
        }
    };
    loaded.push(library);
    let call = std::panic::AssertUnwindSafe(|| cell(own, comm));
    match std::panic::catch_unwind(call) {
        Ok(Ok(rows)) => (Ended::Ok, rows),
        Ok(Err(error)) => (of_error(&error.to_string()), Vec::new()),
        Err(payload) => (of_panic(payload.as_ref(), place), Vec::new()),
    }
}

fn of_error(words: &str) -> Ended {
    if words.contains(GIVEN_UP) {
        Ended::GaveUp(words.to_owned())
    } else {
        Ended::Error(words.to_owned())
    }
}

/// From now on a panic leaves its place for the answer instead of printing.
fn note_panics() -> Place {
    let place = Place::default();
    let last = Arc::clone(&place);
    std::panic::set_hook(Box::new(move |info| {
        let at = info.location().map(|at| (at.file().to_owned(), at.line()));
        if let Ok(mut last) = last.lock() {
            *last = at;
        }
    }));
    place
}

fn of_panic(payload: &(dyn Any + Send), place: &Place) -> Ended {
    let words = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    if words.contains(GIVEN_UP) {
        return Ended::GaveUp(words);
    }
    let place = place.lock().ok().and_then(|mut place| place.take());
    let line = place.filter(|(file, _)| file.ends_with("cell.rs"));
    Ended::Panic(words, line.map(|(_, line)| line))
}
