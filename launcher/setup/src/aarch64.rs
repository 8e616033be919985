//! The stage `aarch64` of `cargo verify --soak`: the kernels compiled for aarch64, where plain loops
//! become NEON, and their tests run under an emulator.
//!
//! The standard library is compiled from its sources, since rustup's own for another architecture is
//! one more thing to fetch; that needs a nightly toolchain, as [`crate::memory`] does.
//!
//! # Not done
//! The emulator checks instructions and results; it says nothing about time. An x86-64 machine with
//! Debian's packages is taken for granted: elsewhere the tools are named and the stage refuses.

use crate::counts::Counts;
use crate::flow::{Flow, Step, Stop};
use crate::places::Places;
use crate::{exec, memory, system, verify};
use std::process::Command;

/// The stage's name after `--only`.
pub const STAGE: &str = "aarch64";

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian puts the other architecture's C library.
const ROOT: &str = "/usr/aarch64-linux-gnu";
const PACKAGES: [&str; 3] = [
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user",
];

/// Runs the tests; what they find is counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, total: &mut Counts) {
    let what = "finds a nightly toolchain, a linker for aarch64 and an emulator, or installs them";
    let outcome = flow.step("cross", what, 15, |step| {
        memory::provide(step)?;
        tools(step)
    });
    if let Err(stop) = outcome {
        return total.refuse(stop);
    }
    let what = "kernels on an emulated aarch64: NEON against the scalar references";
    let outcome = flow.step("neon", what, 60, |step| {
        verify::counted(step, places, &mut tests(places))
    });
    total.add(outcome);
}

/// Makes sure of the linker and the emulator.
fn tools(step: &mut Step) -> Result<(), Stop> {
    let there = || [LINKER, EMULATOR].map(|tool| exec::output(tool, &["--version"]).is_some());
    if there() == [true, true] {
        return Ok(());
    }
    let packages = PACKAGES.join(" ");
    let by_hand =
        format!("as root: apt-get install -y {packages}, then run the same command again");
    let what_is = format!("{LINKER} or {EMULATOR} is");
    system::install(step, &PACKAGES, &what_is, &by_hand)?;
    match there() {
        [true, true] => Ok(()),
        _ => Err(Stop::by_hand(
            format!("{what_is} missing although the packages are installed"),
            by_hand,
        )),
    }
}

/// The kernels' tests, few cases of each property: the emulator is slow.
fn tests(places: &Places) -> Command {
    let mut command = memory::nightly(places, STAGE);
    let key = |what: &str| format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_{what}");
    command.env(key("LINKER"), LINKER);
    command.env(key("RUNNER"), format!("{EMULATOR} -L {ROOT}"));
    command.env("PROPTEST_CASES", "12");
    command.args(["test", "--release", "-Zbuild-std", "--target", TARGET]);
    command.args(["-p", "kernels", "--no-default-features"]);
    command.args(["--lib", "--test", "edge", "--no-fail-fast", "--"]);
    memory::skip(&mut command, memory::SKIPPED.iter());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_are_linked_for_the_target_and_run_by_the_emulator() {
        let places = Places {
            root: "/r".into(),
            bin: "/t/release".into(),
            target: "/t".into(),
        };
        let command = tests(&places);
        let words: Vec<_> = command.get_args().map(|w| w.to_string_lossy()).collect();
        assert!(
            words
                .join(" ")
                .contains("--target aarch64-unknown-linux-gnu -p kernels")
        );
        let runner = command.get_envs().find(|(key, _)| {
            key.to_string_lossy() == "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
        });
        let runner = runner.and_then(|(_, value)| value).expect("it is set");
        assert_eq!(runner, "qemu-aarch64 -L /usr/aarch64-linux-gnu");
    }
}
