//! `cargo verify`: every check there is, counted.

use crate::counts::{self, Counts};
use crate::flow::{Flow, Step, Stop};
use crate::notebook::Job;
use crate::places::Places;
use crate::{
    aarch64, browser, compile, differential, environment, exec, fuzz, links, memory, notebook,
    quickstart,
};
use std::path::PathBuf;
use std::process::Command;

/// The stages after set-up, in order.
const STAGES: [&str; 13] = [
    "format",
    "environment",
    "links",
    "clippy",
    "test",
    "docs",
    "protocol",
    differential::STAGE,
    "notebooks",
    browser::STAGE,
    memory::STAGE,
    aarch64::STAGE,
    fuzz::STAGE,
];

/// Those that take another toolchain and twenty minutes, or a browser: only when asked for.
const SLOW: [&str; 4] = [browser::STAGE, memory::STAGE, aarch64::STAGE, fuzz::STAGE];

/// Seed of the random cases: the same ones every time; `cargo test` alone draws others.
pub const SEED: &str = "20261121";

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Also the slow checks.
    pub soak: bool,
    /// Only this stage, and the set-up that it needs.
    pub only: Option<String>,
}

impl Options {
    /// Reads the words after `verify`.
    ///
    /// # Errors
    /// On a word that is not one of ours.
    pub fn parse(words: &[&str]) -> Result<Self, Stop> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--soak" => options.soak = true,
                "--only" => match words.next() {
                    Some(name) if STAGES.contains(name) => options.only = Some(name.to_string()),
                    other => return Err(unknown("stage", other.unwrap_or(&""))),
                },
                other => return Err(unknown("flag", other)),
            }
        }
        Ok(options)
    }

    fn wants(&self, stage: &str) -> bool {
        match self.only.as_deref() {
            Some(only) => only == stage,
            None => self.soak || !SLOW.contains(&stage),
        }
    }
}

fn unknown(kind: &str, word: &str) -> Stop {
    Stop::by_hand(
        format!("verify: no such {kind}: `{word}`"),
        format!("flags: --soak, --only NAME; stages: {}", STAGES.join(", ")),
    )
}

/// Runs the stages; a failing one does not keep the others from running. The last line printed is
/// `N passed, N failed`.
///
/// # Errors
/// When anything failed.
pub fn main(options: Options) -> Result<(), Stop> {
    let places = Places::find()?;
    let mut flow = Flow::new(&places);
    let mut total = Counts::default();
    let cheap = matches!(
        options.only.as_deref(),
        Some("format" | "environment" | "links" | memory::STAGE | aarch64::STAGE | fuzz::STAGE)
    );
    let ready = cheap || check(&mut total, quickstart::prepare(&mut flow, &places));
    if options.wants("format") {
        let outcome = flow.step("format", "cargo fmt --all --check", 2, |step| {
            step.run(compile::cargo(&places).args(["fmt", "--all", "--check"]))
        });
        check(&mut total, outcome);
    }
    if options.wants("environment") {
        let what = "environment.yml names the parts of the set-up table";
        let outcome = flow.step("environment", what, 1, |step| {
            let text = std::fs::read_to_string(places.root.join("environment.yml"));
            nothing(step, "drift", environment::drift(&text.unwrap_or_default()))
        });
        check(&mut total, outcome);
    }
    if options.wants("links") {
        let outcome = flow.step("links", "Markdown links lead to files", 1, |step| {
            nothing(step, "broken links", links::broken(&places.root))
        });
        check(&mut total, outcome);
    }
    if ready && options.wants("clippy") {
        let what = "cargo clippy on every target, warnings denied";
        let outcome = flow.step("clippy", what, 30, |step| clippy(step, &places));
        check(&mut total, outcome);
    }
    if ready && options.wants("test") {
        let what = "units, laws, CUDA kernels compiled and run without a GPU, mpirun on 1-4 ranks, \
                    a Jupyter client, documentation examples";
        let (limit, soak) = (if options.soak { 240 } else { 60 }, options.soak);
        let outcome = flow.step("test", what, limit, |step| test(step, &places, soak));
        total.add(outcome);
    }
    if ready && options.wants("docs") {
        let what = "cargo doc, links checked";
        let outcome = flow.step("docs", what, 20, |step| {
            let mut doc = compile::cargo(&places);
            doc.env("RUSTDOCFLAGS", "-D warnings");
            step.run(doc.args([
                "doc",
                "--release",
                "--no-deps",
                "--workspace",
                "--keep-going",
            ]))
        });
        check(&mut total, outcome);
    }
    if ready && options.wants("protocol") {
        let what = "the checks of jupyter_kernel_test";
        let outcome = flow.step("protocol", what, 15, |step| {
            let mut python = notebook::python(&places);
            python.arg(places.root.join("tests/conformance/jupyter.py"));
            counted(step, &places, &mut python)
        });
        total.add(outcome);
    }
    if ready && options.wants(differential::STAGE) {
        differential::main(&mut flow, &places, options.soak, &mut total);
    }
    if ready && options.wants("notebooks") {
        notebooks(&mut flow, &places, options.soak, &mut total);
    }
    if ready && options.wants(browser::STAGE) {
        browser::main(&mut flow, &places, &mut total);
    }
    if options.wants(memory::STAGE) {
        memory::main(&mut flow, &places, &mut total);
    }
    if options.wants(aarch64::STAGE) {
        aarch64::main(&mut flow, &places, &mut total);
    }
    if options.wants(fuzz::STAGE) {
        fuzz::main(&mut flow, &places, &mut total);
    }
    println!("\n{}", flow.table());
    if total.ignored > 0 {
        println!("{} tests are marked `ignore`", total.ignored);
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    match total.failed {
        0 => Ok(()),
        // The counts are the last line, so nothing more is said here.
        _ => Err(Stop::failed(String::new(), String::new())),
    }
}

/// Counts one check; says why when it failed. Returns whether it passed.
fn check<T>(total: &mut Counts, outcome: Result<T, Stop>) -> bool {
    let passed = outcome.is_ok();
    match outcome {
        Ok(_) => total.one(true),
        Err(stop) => total.refuse(stop),
    }
    passed
}

/// A check that looks for faults and should find none.
fn nothing(step: &Step, kind: &str, found: Vec<String>) -> Result<(), Stop> {
    if found.is_empty() {
        return Ok(());
    }
    step.note(found.join("\n"));
    Err(Stop::failed(
        format!("{} {kind}", found.len()),
        String::new(),
    ))
}

fn clippy(step: &mut Step, places: &Places) -> Result<(), Stop> {
    let mut clippy = compile::cargo(places);
    clippy.args([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--keep-going",
    ]);
    step.run(clippy.args(["--", "-D", "warnings"])).map(|_| ())
}

fn test(step: &mut Step, places: &Places, soak: bool) -> Result<Counts, Stop> {
    let mut test = compile::cargo(places);
    // Set-up has just provided an MPI and, where there is one, NVRTC: a test that does not find them
    // has found a fault.
    if std::env::var_os("HALOBOOK_REQUIRE").is_none() {
        let all = if cfg!(target_os = "linux") {
            "mpi,nvrtc"
        } else {
            "mpi"
        };
        test.env("HALOBOOK_REQUIRE", all);
    }
    test.env("PROPTEST_RNG_SEED", SEED);
    if soak {
        test.env("HALOBOOK_SOAK", "1");
    }
    test.args(["test", "--release", "--workspace", "--no-fail-fast"]);
    counted(step, places, &mut test)
}

/// Runs tests and counts their results; names those that failed and what they skipped.
///
/// # Errors
/// When the command cannot start or runs past the step's limit.
pub fn counted(step: &mut Step, places: &Places, tests: &mut Command) -> Result<Counts, Stop> {
    let (log, ended) = step.try_run(tests)?;
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
    let mut counts = counts::sum(&text);
    let failures = counts::failures(&text);
    for name in &failures {
        step.note(format!("failed: {name}\n{}", counts::kept(&text, name)));
    }
    for skip in counts::skips(&text) {
        step.note(format!("skip: {skip}"));
    }
    if let exec::Ended::Failed(status) = ended {
        if counts.failed == 0 {
            // A crash or a compile error leaves no result line of its own.
            counts.failed = 1;
            step.note(exec::tail(&log, 40));
        }
        step.note(format!(
            "{} {status}; the full output is in {}",
            exec::words(tests),
            places.show(&log)
        ));
    }
    step.note(format!(
        "{} passed, {} failed",
        counts.passed, counts.failed
    ));
    Ok(counts)
}

/// One check a notebook; runs go to stores of their own. Reproductions of papers, which train for half an hour, are
/// drafts but in the slow form, where each notebook has the machine to itself.
fn notebooks(flow: &mut Flow, places: &Places, soak: bool, total: &mut Counts) {
    let all = notebook::all(places);
    if all.is_empty() {
        let none = Stop::failed("there is no notebook to execute".into(), String::new());
        check(total, Err::<(), _>(none));
    }
    let out = places.logs().join("notebooks");
    let home = places.logs().join("home");
    let _ = std::fs::remove_dir_all(&home);
    if soak {
        for source in all {
            let what = format!("executes {} from clean", notebook::name(&source));
            let outcome = flow.step("notebooks", &what, 30, |step| {
                notebook::execute(step, places, &source, &out, Some(&home))
            });
            check(total, outcome);
        }
        return;
    }
    let long = |source: &PathBuf| source.parent().is_some_and(|of| of.ends_with("papers"));
    let mut jobs: Vec<Job> = all
        .into_iter()
        .map(|source| {
            let draft = long(&source);
            // What a notebook lists is what it has run; drafts name what they have run.
            let own = if draft {
                "papers".to_owned()
            } else {
                notebook::name(&source)
            };
            let home = home.join(own);
            Job {
                source,
                home,
                draft,
            }
        })
        .collect();
    // The long ones first, so that neither lane ends with one.
    jobs.sort_by_key(|job| !job.draft);
    let what = "executes all from clean, two at a time; those of papers as drafts: two epochs a run on small graphs, \
                claims are shown";
    // Each is counted by itself; the step's outcome is for the table alone.
    let _ = flow.step("notebooks", what, 60, |step| {
        let mut all_passed = true;
        for outcome in notebook::beside(step, places, &jobs, &out) {
            all_passed &= check(total, outcome);
        }
        match all_passed {
            true => Ok(()),
            false => Err(Stop::failed(String::new(), String::new())),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_wrong_ones_refused() {
        let options = Options::parse(&["--soak", "--only", "docs"]).expect("both are flags");
        assert!(options.soak && options.wants("docs") && !options.wants("test"));
        let wants = |words: &[&str], stage| Options::parse(words).expect("flags").wants(stage);
        for slow in SLOW {
            assert!(wants(&["--soak"], slow) && wants(&["--only", slow], slow));
            assert!(!wants(&[], slow) && !wants(&["--only", "docs"], slow));
        }
        assert_eq!(
            Options::parse(&["--only", "dogs"])
                .expect_err("no stage")
                .code,
            2
        );
        assert_eq!(Options::parse(&["--sok"]).expect_err("no flag").code, 2);
    }
}
