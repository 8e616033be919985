//! The stage `fuzz` of `cargo verify --soak`: libFuzzer over every reader, guided by what it covers.
//!
//! The fuzzer is a workspace of its own, `tests/fuzz`, compiled by the nightly toolchain with coverage
//! and with checks of overflow. It begins with the files that the unit tests make; what it found worth
//! keeping stays in the target folder, and the next run goes on from there. `HALOBOOK_FUZZ_SECONDS`
//! is how long each part of a file is fuzzed.
//!
//! # Not done
//! Tables in Parquet and Arrow are read by a library and not fuzzed: a test damages them byte by byte
//! (`launcher/tests/damaged_tables.rs`). The readers are safe Rust, so there is no sanitizer; what
//! they allocate is bounded by the fuzzer's own allocator.

use crate::counts::Counts;
use crate::flow::{Flow, Step, Stop};
use crate::memory;
use crate::places::Places;
use crate::{compile, exec};
use std::path::PathBuf;
use std::process::Command;

/// The stage's name after `--only`.
pub const STAGE: &str = "fuzz";

/// Seconds for each target where nothing else is said.
const SECONDS: u64 = 15;

/// Bytes of an input at most: files of the formats are smaller.
const LONGEST: usize = 4096;

/// What makes rustc count what is covered, as cargo-fuzz does.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=4";

/// Builds the fuzzer and runs it on every target; what it finds is counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, total: &mut Counts) {
    let what = "finds a nightly toolchain, or has rustup install one";
    let host = match flow.step("nightly", what, 15, memory::provide) {
        Ok(host) => host,
        Err(stop) => return total.refuse(stop),
    };
    let what = "readers and converters, guided by coverage";
    let outcome = flow.step(STAGE, what, 120, |step| {
        step.run(&mut build(places, &host))?;
        let corpus = corpus(places);
        let seeds = Command::new(program(places, &host))
            .env("HALOBOOK_FUZZ_SEEDS", &corpus)
            .output()
            .map_err(|e| Stop::io("seeds", &e))?;
        let names = String::from_utf8_lossy(&seeds.stdout).into_owned();
        if !seeds.status.success() {
            step.note(String::from_utf8_lossy(&seeds.stderr));
            return Err(Stop::failed(
                "the fuzzer cannot write its seeds".into(),
                String::new(),
            ));
        }
        let mut counts = Counts::default();
        for name in names.lines() {
            counts.one(fuzz(step, places, &host, name)?);
        }
        Ok(counts)
    });
    total.add(outcome);
}

/// One target; whether nothing was found. What was found is said with how to see it again.
fn fuzz(step: &mut Step, places: &Places, host: &str, name: &str) -> Result<bool, Stop> {
    let (log, ended) = step.try_run(&mut fuzzer(places, host, name, seconds()))?;
    let exec::Ended::Failed(status) = ended else {
        return Ok(true);
    };
    step.note(format!("failed: {name}: {status}"));
    step.note(exec::tail(&log, 12));
    step.note(format!("the full output is in {}", places.show(&log)));
    Ok(false)
}

fn seconds() -> u64 {
    let given = std::env::var("HALOBOOK_FUZZ_SECONDS").ok();
    given.and_then(|s| s.parse().ok()).unwrap_or(SECONDS)
}

fn folder(places: &Places) -> PathBuf {
    places.target.join("fuzz")
}

fn corpus(places: &Places) -> PathBuf {
    folder(places).join("corpus")
}

/// The fuzzer.
fn program(places: &Places, host: &str) -> PathBuf {
    folder(places).join(host).join("release/readers")
}

fn build(places: &Places, host: &str) -> Command {
    let mut command = Command::new("rustup");
    compile::clean(&mut command);
    command.current_dir(places.root.join("tests/fuzz"));
    command.env("CARGO_TERM_COLOR", "never");
    command.env("CARGO_TARGET_DIR", folder(places));
    command.env("RUSTFLAGS", COVERAGE);
    // The target is named so that build scripts and macros are compiled without coverage.
    let words = ["run", "nightly", "cargo", "build", "--release", "--locked"];
    command.args(words).args(["--target", host]);
    command
}

fn fuzzer(places: &Places, host: &str, name: &str, seconds: u64) -> Command {
    let own = corpus(places).join(name);
    let mut command = Command::new(program(places, host));
    command.current_dir(folder(places));
    command.env("HALOBOOK_FUZZ", name);
    command.env("RAYON_NUM_THREADS", "1");
    let found = format!("{}/found-", own.display());
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={LONGEST}"),
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        format!("-seed={}", crate::verify::SEED),
        format!("-artifact_prefix={found}"),
    ]);
    command.arg(own);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_fuzzed_in_its_own_corpus_for_a_bounded_time() {
        let places = Places {
            root: "/r".into(),
            bin: "/t/release".into(),
            target: "/t".into(),
        };
        let host = "x86_64-unknown-linux-gnu";
        let command = fuzzer(&places, host, "rdf/a.nt.gz", 7);
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy()).collect();
        assert!(words.contains(&"-max_total_time=7".into()));
        assert_eq!(
            words.last().map(|w| w.as_ref()),
            Some("/t/fuzz/corpus/rdf/a.nt.gz")
        );
        let program = command.get_program().to_string_lossy();
        assert_eq!(program, "/t/fuzz/x86_64-unknown-linux-gnu/release/readers");
        let built = build(&places, host);
        assert_eq!(built.get_current_dir(), Some("/r/tests/fuzz".as_ref()));
    }
}
