//! The stage `memory` of `cargo verify --soak`: the kernels under Miri, which sees undefined
//! behaviour on the scalar paths, and under the address sanitizer, which sees what vector loads and
//! stores touch beside their buffers.
//!
//! Both need a nightly toolchain. It is used when it is there and complete, and else installed by
//! rustup.
//!
//! # Not done
//! Miri runs one thread and no vector instructions, so it sees no data race and no SIMD path; the
//! address sanitizer sees no read of what was never written.

use crate::counts::Counts;
use crate::flow::{Flow, Step, Stop};
use crate::places::Places;
use crate::toolchain::Wanted;
use crate::{compile, exec, verify};
use std::process::Command;

/// The stage's name after `--only`.
pub const STAGE: &str = "memory";

const INSTALL: [&str; 9] = [
    "toolchain",
    "install",
    "nightly",
    "--profile",
    "minimal",
    "--component",
    "miri",
    "--component",
    "rust-src",
];

/// Tests that no tool runs: they compile with a C++ compiler, or measure times.
pub const SKIPPED: [&str; 2] = ["cuda::", "bench::"];

/// Library tests that Miri runs: kernels against their references, and refusals. The others start
/// threads or have large inputs.
const SMALL: [&str; 7] = [
    "equal_naive",
    "equals_naive",
    "refused",
    "named",
    "csr::",
    "hubs::",
    "vector::",
];

/// Library tests too slow for Miri in spite of their names; the fuzz of the public edge sends small
/// inputs through the same kernels.
const LARGE: [&str; 4] = ["gemm", "linear", "sddmm", "typed_sums_and_gradients"];

/// Minutes of dense products, which the sanitizer sees in smaller ones too.
const DENSE: [&str; 1] = ["many_rows_many_blocks"];

/// Runs both tools; what they find is counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, total: &mut Counts) {
    let what = "finds a nightly toolchain with Miri, or has rustup install one";
    let outcome = flow.step("nightly", what, 15, provide);
    let host = match outcome {
        Ok(host) => host,
        Err(stop) => return total.refuse(stop),
    };
    let what = "kernels under Miri: scalar paths, one thread, few cases of each property";
    let outcome = flow.step("miri", what, 60, |step| {
        let mut counts = verify::counted(step, places, &mut miri_edge(places))?;
        counts += verify::counted(step, places, &mut miri_library(places))?;
        Ok(counts)
    });
    total.add(outcome);
    let what = "kernels under the address sanitizer: every SIMD level of this processor";
    let outcome = flow.step("sanitizer", what, 30, |step| {
        verify::counted(step, places, &mut sanitizer(places, &host))
    });
    total.add(outcome);
}

/// Makes sure of the toolchain; returns its host triple.
///
/// # Errors
/// Exit status 2 when it is missing and cannot be fetched from here.
pub fn provide(step: &mut Step) -> Result<String, Stop> {
    let by_hand = format!(
        "rustup {}, then run the same command again",
        INSTALL.join(" ")
    );
    let wanted = Wanted {
        missing: "there is no nightly toolchain with Miri and rust-src",
        rustup: &INSTALL,
        by_hand: &by_hand,
    };
    wanted.provide(step, ready)
}

/// The host triple of a nightly toolchain that has everything.
fn ready() -> Option<String> {
    let nightly = |words: &[&str]| exec::output("rustup", &[&["run", "nightly"], words].concat());
    nightly(&["cargo", "miri", "--version"])?;
    let sysroot = nightly(&["rustc", "--print", "sysroot"])?;
    let sources = std::path::Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    let version = nightly(&["rustc", "-vV"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))?;
    sources.is_dir().then(|| host.to_string())
}

/// `cargo` of the nightly toolchain, with a target folder of its own.
pub fn nightly(places: &Places, folder: &str) -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(&places.root);
    compile::clean(&mut command);
    command.args(["run", "nightly", "cargo"]);
    command.env("CARGO_TERM_COLOR", "never");
    command.env("CARGO_TARGET_DIR", places.target.join(folder));
    command.env("PROPTEST_RNG_SEED", verify::SEED);
    // The fuzz provokes thousands of refusals, and Miri would resolve the frames of each.
    command.env("RUST_BACKTRACE", "0");
    command
}

fn miri(places: &Places) -> Command {
    let mut command = nightly(places, "miri");
    // Tests read the environment, and a property's seed is in it; and they compare bits, to which Miri
    // would else add errors where the language allows them.
    command.env(
        "MIRIFLAGS",
        "-Zmiri-disable-isolation -Zmiri-deterministic-floats",
    );
    command.env("PROPTEST_CASES", "1");
    // Cases found elsewhere are large.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command.args(["miri", "test", "-p", "kernels", "--no-default-features"]);
    command
}

fn miri_edge(places: &Places) -> Command {
    let mut command = miri(places);
    command.args(["--test", "edge", "--no-fail-fast"]);
    command
}

fn miri_library(places: &Places) -> Command {
    let mut command = miri(places);
    command.args(["--lib", "--no-fail-fast", "--"]).args(SMALL);
    skip(&mut command, SKIPPED.iter().chain(&LARGE));
    command
}

fn sanitizer(places: &Places, host: &str) -> Command {
    let mut command = nightly(places, "sanitizer");
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    // Threads that live as long as the process are no fault.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    command.env("PROPTEST_CASES", "12");
    // The target is named so that build scripts and macros are compiled without the sanitizer.
    command.args([
        "test",
        "--release",
        "-p",
        "kernels",
        "--no-default-features",
    ]);
    command.args(["--target", host, "--lib", "--test", "edge"]);
    // Compiling is what takes long, and an optimiser would remove what is looked for.
    command.args(["--config", "profile.release.package.kernels.opt-level=0"]);
    command.args(["--no-fail-fast", "--"]);
    skip(&mut command, SKIPPED.iter().chain(&DENSE));
    command
}

/// Leaves out the tests whose names contain one of `tests`.
pub fn skip<'a>(command: &mut Command, tests: impl Iterator<Item = &'a &'static str>) {
    for name in tests {
        command.args(["--skip", name]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn both_tools_run_the_fuzz_of_the_public_edge_in_folders_of_their_own() {
        let places = Places {
            root: "/r".into(),
            bin: "/t/release".into(),
            target: "/t".into(),
        };
        let miri = miri_edge(&places);
        let asan = sanitizer(&places, "x86_64-unknown-linux-gnu");
        for command in [&miri, &asan] {
            assert!(words(command).starts_with("run nightly cargo "));
            assert!(
                words(command).contains("-p kernels") && words(command).contains("--test edge")
            );
        }
        assert!(words(&asan).contains("--target x86_64-unknown-linux-gnu"));
        let folder = |command: &Command| {
            let of = |name: &str| command.get_envs().find(|(key, _)| *key == name)?.1;
            of("CARGO_TARGET_DIR").map(std::ffi::OsStr::to_os_string)
        };
        assert_eq!(folder(&miri), Some("/t/miri".into()));
        assert_eq!(folder(&asan), Some("/t/sanitizer".into()));
    }
}
