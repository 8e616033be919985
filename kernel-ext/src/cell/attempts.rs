//! A cell compiled with as few and as small calls of rustc as it takes.
//!
//! Sources that are quicker to compile ([`lean`]) are tried first: without the prelude where nothing of
//! it is named, then with it. What neither compiles is compiled as evcxr wrote it, and only what the
//! compiler says of that is ever reported.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::scratch::Flags;
use super::shim::{Shim, own_error, path_flag, unless_cancelled};
use super::{lean, scratch, variables};

/// One cell to be compiled.
pub struct Cell<'a> {
    /// The tool that evcxr called.
    pub shim: &'a Shim,
    /// rustc's `-Copt-level`.
    pub opt_level: &'a str,
    /// Whether a library is wanted, and not the compiler's opinion alone.
    pub building: bool,
}

/// What a call of the compiler came to.
struct Outcome {
    compiled: bool,
    /// Its messages, a line each.
    said: Vec<String>,
}

/// A source to be compiled.
enum Source<'a> {
    /// The one that evcxr wrote.
    Written,
    /// Another one with the same lines.
    Lean(&'a str),
}

impl Cell<'_> {
    /// Compiles the cell and reports as cargo does.
    ///
    /// # Errors
    /// When the compiler cannot be started, or a folder cannot be written.
    pub fn compile(&self) -> Result<ExitCode> {
        fs::create_dir_all(self.out())?;
        let outcome = match self.building {
            true => self.shortest()?,
            false => self.call(Source::Written, true)?,
        };
        self.report(&outcome)
    }

    /// The first of the sources that compiles, or what is wrong with the cell.
    fn shortest(&self) -> Result<Outcome> {
        let flags = scratch::flags();
        let written = fs::read_to_string(self.shim.root.join("src/lib.rs"))?;
        let may_differ = lean::may_differ(&written)
            && !flags
                .as_ref()
                .is_some_and(|flags| flags.own_display().exists());
        if !may_differ {
            return self.call(Source::Written, true);
        }
        let small = lean::without_idle_variables(&written);
        let small = match &self.shim.facts.variables {
            Some(_) => variables::shared(&small).unwrap_or(small),
            None => small,
        };
        let shown = lean::with_one_display(&small);
        let known = Known::read(flags.as_ref());
        let mut needs = Vec::new();
        if let Some(lone) = lean::without_prelude(shown.as_ref().unwrap_or(&small), &known.words) {
            let outcome = self.call(Source::Lean(&lone), false)?;
            if outcome.compiled || self.stopped() {
                return Ok(outcome);
            }
            needs = unresolved(&outcome.said);
            if needs.is_empty() {
                // It is not the prelude that is missing.
                return match lean::without_prelude(&written, &HashSet::new()) {
                    Some(lone) => self.call(Source::Lean(&lone), false),
                    None => self.call(Source::Written, true),
                };
            }
        }
        let outcome = self.call(Source::Lean(shown.as_ref().unwrap_or(&small)), true)?;
        if outcome.compiled {
            known.learn(&needs);
        }
        if outcome.compiled || self.stopped() {
            return Ok(outcome);
        }
        self.call(Source::Written, true)
    }

    fn out(&self) -> PathBuf {
        let target = self.shim.root.join("target");
        target.join(&self.shim.facts.host).join("debug/deps")
    }

    /// Whether somebody asked to stop compiling.
    fn stopped(&self) -> bool {
        scratch::flags().is_some_and(|flags| flags.cancel().exists())
    }

    /// Calls the compiler once.
    fn call(&self, source: Source<'_>, prelude: bool) -> Result<Outcome> {
        let folder = match source {
            Source::Written => self.shim.root.clone(),
            Source::Lean(text) => {
                // The same path from the compiler's folder, so that a panic's place reads the same.
                let folder = self.shim.root.join("lean");
                fs::create_dir_all(folder.join("src"))?;
                fs::write(folder.join("src/lib.rs"), text)?;
                folder
            }
        };
        let mut command = self.rustc(prelude);
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start rustc")?;
        let stderr = child.stderr.take().context("rustc has no standard error")?;
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines();
            lines.map_while(Result::ok).collect::<Vec<String>>()
        });
        let status = unless_cancelled(&mut child)?;
        Ok(Outcome {
            compiled: status.success(),
            said: reader.join().unwrap_or_default(),
        })
    }

    fn rustc(&self, prelude: bool) -> Command {
        let facts = &self.shim.facts;
        let std = facts
            .sysroot
            .join("lib/rustlib")
            .join(&facts.host)
            .join("lib");
        let mut command = self.shim.real(&facts.rustc());
        command
            .args(["--crate-name", "ctx", "--edition", "2024", "src/lib.rs"])
            .args(["--crate-type", "cdylib", "--error-format=json"])
            .args(["--json=diagnostic-short", "-Cdebuginfo=0"])
            .args(["-Cprefer-dynamic", "-Cdebug-assertions=on"])
            .args(["-Cstrip=debuginfo", "-Ccodegen-units=1"])
            .arg(format!("-Copt-level={}", self.opt_level))
            .arg(match self.building {
                true => "--emit=link",
                false => "--emit=metadata",
            })
            .arg(path_flag("-Clink-arg=-Wl,-rpath,", &std))
            .arg("--out-dir")
            .arg(self.out());
        if prelude {
            facts.link_cell(&mut command);
        }
        if let Some(library) = &facts.variables {
            variables::link(library, &mut command);
        }
        command
    }

    fn report(&self, outcome: &Outcome) -> Result<ExitCode> {
        let mut stdout = std::io::stdout().lock();
        for line in &outcome.said {
            match serde_json::from_str::<Value>(line) {
                Ok(mut message) => {
                    own_error(&mut message);
                    let wrapped = json!({ "reason": "compiler-message", "message": message });
                    writeln!(stdout, "{wrapped}")?;
                }
                Err(_) => eprintln!("{line}"),
            }
        }
        if !outcome.compiled {
            return Ok(ExitCode::from(101));
        }
        if self.building {
            let file = self.out().join("libctx.so");
            let artifact = json!({
                "reason": "compiler-artifact",
                "target": { "name": "ctx", "kind": ["cdylib"] },
                "filenames": [file.to_string_lossy()],
            });
            writeln!(stdout, "{artifact}")?;
            if let Some(flags) = scratch::flags() {
                fs::write(flags.compiled(), "")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Words that are known to come from the prelude. They only save an attempt.
struct Known {
    words: HashSet<String>,
    /// Where those found out in this session are kept.
    file: Option<PathBuf>,
}

/// What cells use most of the prelude, and the crates in it.
const COMMON: &str = "halobook polars DataFrame LazyFrame Series Column df col lit lazy Run runs";

impl Known {
    fn read(flags: Option<&Flags>) -> Known {
        let file = flags.map(Flags::needed);
        let found = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        let found = found.unwrap_or_default();
        let words = COMMON.split_whitespace().chain(found.split_whitespace());
        Known {
            words: words.map(str::to_owned).collect(),
            file,
        }
    }

    /// Keeps words that were missing without the prelude and are not with it.
    fn learn(&self, words: &[String]) {
        let Some(file) = &self.file else { return };
        let file = fs::OpenOptions::new().append(true).create(true).open(file);
        if let Ok(mut file) = file {
            // What is not kept is found out once more.
            let _ = words.iter().try_for_each(|word| writeln!(file, "{word}"));
        }
    }
}

/// The names that the compiler did not find, each as the last word of what it put in quotes first.
fn unresolved(said: &[String]) -> Vec<String> {
    let messages = said
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let names = messages.filter(|message| message["level"] == "error");
    let names = names.filter_map(|message| {
        let text = message["message"].as_str()?;
        let code = message["code"]["code"].as_str();
        let missing = match code {
            Some(code) => MISSING.contains(&code),
            None => text.starts_with("cannot find "),
        };
        let quoted = text.split('`').nth(1)?;
        let word = quoted.rsplit("::").next()?;
        missing.then(|| word.to_owned())
    });
    names.collect()
}

/// The compiler's codes for a name that is not there.
const MISSING: &[&str] = &[
    "E0404", "E0405", "E0407", "E0412", "E0422", "E0423", "E0425", "E0432", "E0433", "E0463",
    "E0531", "E0532", "E0573", "E0574", "E0576", "E0599",
];

#[cfg(test)]
mod tests {
    use super::unresolved;

    fn error(code: Option<&str>, message: &str) -> String {
        let code = code.map(|code| serde_json::json!({ "code": code }));
        serde_json::json!({ "level": "error", "code": code, "message": message }).to_string()
    }

    #[test]
    fn missing_names_are_read_from_what_the_compiler_says() {
        let said = [
            error(Some("E0425"), "cannot find function `col` in this scope"),
            error(None, "cannot find macro `df` in this scope"),
            error(Some("E0599"), "no method named `lazy` found for struct `A`"),
            error(Some("E0308"), "mismatched types: `A`"),
            error(None, "aborting due to 3 previous errors"),
        ];
        assert_eq!(unresolved(&said), ["col", "df", "lazy"]);
    }
}
