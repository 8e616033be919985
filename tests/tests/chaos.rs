//! Random hostile acts against one notebook, with `HALOBOOK_SOAK=1` (`cargo verify --soak`).
//!
//! After each act: the same variables, or an error that named those which are gone; the finished epochs of a finished
//! run; no process, lock or file that does not belong there. `HALOBOOK_CHAOS_SEED` and `HALOBOOK_CHAOS_ACTS` choose
//! others and more of them. Can catch: what no list of acts foresees in combination. Cannot catch: what needs another
//! user, a full disk or another host.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::kernel::{Answer, Kernel};
use tests::{Outcome, processes, skip};

const ACTS: u64 = 300;
const LIMIT: Duration = Duration::from_secs(90);

/// Numbers that look random (SplitMix64), the same for a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn pause(&mut self, most_ms: u64) {
        let ms = self.next() % most_ms;
        println!("     {ms} ms");
        std::thread::sleep(Duration::from_millis(ms));
    }
}

/// Cells that fail, of which some end the process that holds the variables.
const BAD: [&str; 16] = [
    "let z = ((((((((((((((((((((((((((((((((;",
    "panic!(\"on purpose\")",
    "let none: Option<u8> = None; none.unwrap()",
    "kept[99]",
    "std::process::exit(3)",
    "std::process::abort()",
    "fn f(n: u64) -> u64 { if n == u64::MAX { 0 } else { 1 + f(n + 1) } } f(0)",
    "let x: u8 = \"word\";",
    "r1.nosuch()",
    "Run::open(\"nosuch\")?",
    "struct S; impl Drop for S { fn drop(&mut self) { panic!(\"in drop\") } } let s = S; drop(s);",
    "std::thread::spawn(|| panic!(\"elsewhere\")).join().is_err()",
    "}{",
    "\u{feff}\u{202e}let a\u{301} = 1;",
    "loop { break } loop {",
    "%%gnn\ndata = \"karate\"; epochs = -1",
];

/// Cells that go on until they are interrupted.
const LONG: [&str; 6] = [
    "loop { std::hint::black_box(1); }",
    "std::thread::sleep(std::time::Duration::from_secs(600))",
    "loop { println!(\"{}\", \"x\".repeat(500)); }",
    "(0u64..).for_each(|k| { std::hint::black_box(k); })",
    "%%gnn -s halo -n 2 -o scrap --launch threads\ndata = \"karate\"; epochs = 100000000",
    "%%sweep -o scraps\ndata = \"karate\"; epochs = 2000; launch = \"threads\"; seed = [0, 1, 2]",
];

/// Lines that are no cells, and queries that are none.
const GARBAGE: [&str; 10] = [
    "%%sql\nSELECT",
    "%%sql\nSELECT * FROM (((((((((epochs",
    "%%check\n1 <",
    "%plot r1 nosuch",
    "%plan nosuch:1",
    "%nosuch",
    "%%gnn -o match\ndata = \"karate\"",
    "%jobs",
    "%runs",
    "%%sql\nSELECT COUNT(*) FROM epochs",
];

const SIGNALS: [i32; 4] = [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGABRT];

struct World {
    kernel: Kernel,
    dice: Dice,
    /// What the kernel has in the folder of its store when nothing has happened yet.
    known: BTreeSet<String>,
    /// What was said since the last check.
    said: String,
}

fn entries(dir: &Path) -> BTreeSet<String> {
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    all.map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

impl World {
    fn new(seed: u64) -> anyhow::Result<World> {
        let mut world = World {
            kernel: Kernel::start()?,
            dice: Dice(seed),
            known: BTreeSet::new(),
            said: String::new(),
        };
        world.keep()?;
        let cell = "%%gnn -s halo -n 2 -o r1 --launch threads\ndata = \"karate\"; epochs = 12";
        let answer = world.kernel.execute(cell)?;
        ensure!(answer.is_ok(), "{}", answer.reply);
        world.known = entries(world.kernel.home());
        let more = [
            "tables",
            "frames",
            "plans",
            "sweeps",
            "partitions",
            "machine",
            "verdicts",
            "tmp",
        ];
        world.known.extend(more.map(str::to_owned));
        Ok(world)
    }

    fn runs(&self) -> BTreeSet<String> {
        entries(&self.kernel.home().join("runs"))
    }

    fn keep(&mut self) -> Outcome {
        let answer = self.kernel.execute("let kept: Vec<usize> = vec![7, 1];")?;
        ensure!(answer.is_ok(), "{}", answer.reply);
        Ok(())
    }

    fn hear(&mut self, answer: &Answer) {
        self.said += &answer.reply.to_string();
        for message in &answer.iopub {
            if message["header"]["msg_type"] != "stream" {
                self.said += &message.to_string();
            }
        }
    }

    fn cell(&mut self, code: &str) -> anyhow::Result<Answer> {
        let id = self.kernel.begin(code)?;
        let answer = self.kernel.receive(&id, LIMIT)?;
        self.hear(&answer);
        Ok(answer)
    }

    fn interrupt(&mut self) -> Outcome {
        self.kernel.command("interrupt_request", json!({}))?;
        Ok(())
    }

    /// Processes of this kernel whose command line has the word.
    fn processes(&self, word: &str) -> Vec<u32> {
        let all = processes::naming(self.kernel.home());
        let ours = all
            .into_iter()
            .filter(|(_, command)| command.contains(word));
        ours.map(|(pid, _)| pid).collect()
    }

    /// The process that holds the variables.
    fn child(&self) -> Option<u32> {
        let kernels = self.processes("halobook-kernel");
        kernels.into_iter().find(|pid| *pid != self.kernel.pid())
    }

    fn act(&mut self) -> anyhow::Result<String> {
        let what = self.dice.below(8);
        Ok(match what {
            0 => {
                let code = self.dice.of(&BAD);
                self.cell(code)?;
                format!("bad cell {code:?}")
            }
            1 | 2 => {
                let code = self.dice.of(&LONG);
                println!("     {code:?}");
                let id = self.kernel.begin(code)?;
                self.dice.pause(1_500);
                self.interrupt()?;
                // A long first wait, or a second interrupt that means it.
                let twice = self.dice.below(2) == 0;
                if twice {
                    self.dice.pause(800);
                    self.interrupt()?;
                }
                let answer = self.kernel.receive(&id, LIMIT)?;
                self.hear(&answer);
                format!("interrupted {code:?}{}", if twice { " twice" } else { "" })
            }
            3 => {
                let id = self.kernel.begin(LONG[4])?;
                self.dice.pause(2_500);
                let word = self.dice.of(&["worker", "train", "halobook "]);
                let signal = SIGNALS[self.dice.below(SIGNALS.len())];
                let hit = self.processes(word);
                let hit: Vec<u32> = hit
                    .into_iter()
                    .filter(|pid| *pid != self.kernel.pid())
                    .collect();
                println!("     signal {signal} to {hit:?} of {word:?}");
                for pid in &hit {
                    processes::signal(*pid, signal);
                }
                if hit.is_empty() {
                    self.interrupt()?;
                }
                let answer = self.kernel.receive(&id, LIMIT)?;
                self.hear(&answer);
                format!("signal {signal} to {} of {word:?}", hit.len())
            }
            4 => {
                let child = self.child();
                let signal = SIGNALS[self.dice.below(SIGNALS.len())];
                child
                    .into_iter()
                    .for_each(|pid| processes::signal(pid, signal));
                self.cell("1 + 1")?;
                format!("signal {signal} to the variables' process")
            }
            5 => {
                let child = self.child();
                child
                    .into_iter()
                    .for_each(|pid| processes::signal(pid, libc::SIGSTOP));
                self.dice.pause(300);
                child
                    .into_iter()
                    .for_each(|pid| processes::signal(pid, libc::SIGCONT));
                "the variables' process stopped for a while".to_owned()
            }
            6 => self.damage()?,
            _ => {
                let code = self.dice.of(&GARBAGE);
                self.cell(code)?;
                let at = self.dice.below(code.len());
                let at = (0..=at)
                    .rev()
                    .find(|at| code.is_char_boundary(*at))
                    .unwrap_or(0);
                self.kernel.complete(&code[..at])?;
                self.kernel.inspect(&code[..at])?;
                format!("garbage {code:?}")
            }
        })
    }

    /// A run whose files are changed at random, asked about, and deleted.
    fn damage(&mut self) -> anyhow::Result<String> {
        let before = self.runs();
        self.cell("%%gnn -s halo -n 2 --launch threads\ndata = \"karate\"; epochs = 3")?;
        let new = self.runs().difference(&before).next().cloned();
        let id = new.context("no run was made")?;
        let dir = self.kernel.home().join("runs").join(&id);
        let mut files = Vec::new();
        below(&dir, &mut files);
        ensure!(!files.is_empty(), "no files of a run");
        let file = files[self.dice.below(files.len())].clone();
        let mut bytes = std::fs::read(&file)?;
        if !bytes.is_empty() {
            let at = self.dice.below(bytes.len());
            match self.dice.below(3) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << self.dice.below(8),
                _ => bytes.extend_from_within(at..),
            }
        }
        std::fs::write(&file, bytes)?;
        self.cell("%%sql\nSELECT COUNT(*) AS n FROM epochs")?;
        self.cell("%runs")?;
        self.cell(&format!(
            "Run::open({id:?}).map(|run| run.epochs().height())"
        ))?;
        std::fs::remove_dir_all(dir)?;
        Ok(format!("damage to {}", file.display()))
    }

    fn check(&mut self) -> Outcome {
        ensure!(self.kernel.is_alive()?, "the kernel has ended");
        let answer = self.kernel.execute("kept.iter().sum::<usize>()")?;
        if answer.is_ok() {
            let sum = answer.shown("text/plain");
            ensure!(sum.as_deref() == Some("8"), "kept sums to {sum:?}");
        } else {
            let told = self.said.contains("variables are lost") && self.said.contains("kept");
            ensure!(
                told,
                "kept is gone and nobody said so: {} after {}",
                answer.reply,
                self.said
            );
            self.keep()?;
        }
        let answer = self.kernel.execute("r1.epochs().height()")?;
        let rows = answer.shown("text/plain");
        ensure!(
            rows.as_deref() == Some("12"),
            "r1 has {rows:?} epochs: {}",
            answer.reply
        );
        self.said.clear();
        let until = std::time::Instant::now() + Duration::from_secs(15);
        loop {
            let all = processes::naming(self.kernel.home());
            let left: Vec<_> = all
                .iter()
                .filter(|(_, command)| !command.contains("halobook-kernel"))
                .collect();
            if left.is_empty() {
                break;
            }
            ensure!(std::time::Instant::now() < until, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let there = entries(self.kernel.home());
        let new: Vec<&String> = there.difference(&self.known).collect();
        ensure!(new.is_empty(), "files that do not belong there: {new:?}");
        let mut files = Vec::new();
        below(self.kernel.home(), &mut files);
        let locks = files
            .iter()
            .filter(|file| file.extension().is_some_and(|e| e == "lock"));
        let locks: Vec<_> = locks.collect();
        ensure!(locks.is_empty(), "locks: {locks:?}");
        Ok(())
    }
}

/// All files below a folder.
fn below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
}

#[test]
fn random_acts_lose_nothing_that_is_not_named() -> Outcome {
    if !skip::soak() {
        return Ok(());
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("HALOBOOK_CHAOS_SEED").unwrap_or(1);
    let acts = number("HALOBOOK_CHAOS_ACTS").unwrap_or(ACTS);
    let mut world = World::new(seed)?;
    for number in 0..acts {
        let act = world
            .act()
            .with_context(|| format!("act {number} of seed {seed}"))?;
        println!("{number:4} {act}");
        let checked = world.check();
        checked.with_context(|| format!("after act {number} of seed {seed}: {act}"))?;
    }
    Ok(())
}
