//! One kernel through a thousand cells and a hundred runs, with `HALOBOOK_SOAK=1` (`cargo verify --soak`).
//!
//! Can catch: memory, open files, sockets, threads, processes or files that a cell or a run leaves behind.
//! Cannot catch: what only grows with the data. `HALOBOOK_SOAK_CELLS` is another number of cells.

use anyhow::ensure;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::kernel::Kernel;
use tests::{Outcome, processes, skip};

const CELLS: usize = 1_000;
/// Every so many cells a run.
const RUN_EVERY: usize = 10;
/// The first part is not judged: caches fill.
const WARM_UP: f64 = 0.3;
/// Growth that is allowed after it.
const GROWTH: f64 = 0.05;

/// What a kernel and the processes below it hold.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// Resident memory of the kernel itself, in KiB.
    kernel_kib: u64,
    /// Of the process that holds the variables.
    child_kib: u64,
    processes: u64,
    threads: u64,
    descriptors: u64,
    sockets: u64,
    /// Files in the scratch folder.
    scratch: u64,
    /// Entries of the folder for temporary files, apart from the scratch folder's.
    temporary: u64,
}

impl Held {
    fn of(home: &Path, kernel: u32) -> Held {
        let mut held = Held::default();
        for (pid, command) in processes::naming(home) {
            if !command.contains("halobook-kernel") {
                continue;
            }
            let proc = PathBuf::from(format!("/proc/{pid}"));
            let status = std::fs::read_to_string(proc.join("status")).unwrap_or_default();
            let field = |name: &str| -> u64 {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                let word = line.and_then(|line| line.split_whitespace().next());
                word.and_then(|word| word.parse().ok()).unwrap_or(0)
            };
            match pid == kernel {
                true => held.kernel_kib = field("VmRSS:"),
                false => held.child_kib += field("VmRSS:"),
            }
            held.processes += 1;
            held.threads += field("Threads:");
            for fd in std::fs::read_dir(proc.join("fd"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let to = std::fs::read_link(fd.path()).unwrap_or_default();
                held.descriptors += 1;
                held.sockets += u64::from(to.to_string_lossy().starts_with("socket:"));
            }
        }
        let scratch = scratch(kernel);
        held.scratch = scratch.as_deref().map_or(0, files);
        held.temporary = std::fs::read_dir(home.join("tmp")).map_or(0, |all| all.count() as u64);
        held
    }

    fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("processes", self.processes),
            ("threads", self.threads),
            ("open files", self.descriptors),
            ("sockets", self.sockets),
            ("files in the scratch folder", self.scratch),
            ("temporary files", self.temporary),
        ]
    }
}

/// The kernel's scratch folder, by its environment.
fn scratch(kernel: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{kernel}/environ")).ok()?;
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let mut words = environment.split('\0');
    words.find_map(|word| Some(word.strip_prefix("HALOBOOK_SCRATCH=")?.into()))
}

fn files(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| match path.is_dir() && !path.is_symlink() {
        true => files(&path),
        false => 1,
    };
    entries.map(|entry| of(entry.path())).sum()
}

/// What people do, one after the other; nothing that a session keeps on purpose.
fn cell(number: usize) -> String {
    match number % 10 {
        0 => format!("let x = {number}_usize;"),
        1 => "x * 2".into(),
        2 => "for n in 0..20 { println!(\"{n}\"); }".into(),
        3 => "let frame = df!(\"a\" => [1, 2, 3]).unwrap();".into(),
        4 => "frame.clone().lazy().filter(col(\"a\").gt(lit(1))).collect()?".into(),
        5 => "fn twice(n: usize) -> usize { n * 2 }".into(),
        6 => "eprintln!(\"{}\", twice(x));".into(),
        7 => "nothing_of_that_name".into(),
        8 => "display::html(\"<b>x</b>\")".into(),
        _ => "panic!(\"on purpose\")".into(),
    }
}

#[test]
fn a_thousand_cells_and_a_hundred_runs_leave_nothing() -> Outcome {
    if !skip::soak() {
        return Ok(());
    }
    let asked = std::env::var("HALOBOOK_SOAK_CELLS").ok();
    let cells = asked.and_then(|n| n.parse().ok()).unwrap_or(CELLS);
    let mut kernel = Kernel::start_with(|home| vec![("TMPDIR", home.join("tmp"))])?;
    let home = kernel.home().to_path_buf();
    let all = processes::naming(&home).into_iter().map(|(pid, _)| pid);
    let pid = all.min().unwrap_or_default();
    let mut warm: Option<Held> = None;
    let mut last = Held::default();
    println!("cells {:?}", Held::of(&home, pid));
    for number in 0..cells {
        let id = kernel.begin(&cell(number))?;
        let answer = kernel.receive(&id, Duration::from_secs(300))?;
        ensure!(
            answer.is_ok() == (number % 10 != 7 && number % 10 != 9),
            "{}",
            answer.reply
        );
        if number % RUN_EVERY == 0 {
            let run =
                "%%gnn -n 2 -s halo -o r\ndata = \"karate\"; epochs = 3; launch = \"threads\"";
            let id = kernel.begin(run)?;
            let answer = kernel.receive(&id, Duration::from_secs(300))?;
            ensure!(answer.is_ok(), "{}", answer.reply);
            kernel.ask(
                "complete_request",
                json!({"code": "frame.hei", "cursor_pos": 9}),
            )?;
        }
        if (number + 1) % (cells / 20).max(1) == 0 {
            last = Held::of(&home, pid);
            println!("{:5} {last:?}", number + 1);
            if warm.is_none() && number as f64 >= WARM_UP * cells as f64 {
                warm = Some(last);
            }
        }
    }
    let warm = warm.unwrap_or(last);
    let mut grown = Vec::new();
    let memory = |held: &Held| held.kernel_kib + held.child_kib;
    let mut judge = |what: &str, before: u64, after: u64| {
        if after as f64 > before as f64 * (1.0 + GROWTH) {
            grown.push(format!("{what}: {before} to {after}"));
        }
    };
    judge("KiB of memory", memory(&warm), memory(&last));
    for ((what, before), (_, after)) in warm.counts().into_iter().zip(last.counts()) {
        judge(what, before, after);
    }
    ensure!(
        grown.is_empty(),
        "grown after the warm-up: {}",
        grown.join("; ")
    );
    Ok(())
}
