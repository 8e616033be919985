//! Interrupts, by what runs when they come.
//!
//! Can catch: a plain cell that cannot be ended without losing its variables, an interrupt that is lost
//! between compiling and running, a second interrupt that does nothing, runs and processes left behind.
//! `%%sweep`, `%%ranks` and `%wait` are tested beside their magics (`kernel_frames.rs`, `ranks.rs`,
//! `jobs.rs`). Cannot catch: what a front end's button sends.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::deaf::Deaf;
use tests::kernel::{Answer, Kernel};
use tests::{Outcome, processes};

const LONG: Duration = Duration::from_secs(60);

/// Interrupts, and holds the kernel to its acknowledgement. The bar is 200 ms; beside other tests it gets air.
fn interrupt(kernel: &mut Kernel) -> Outcome {
    let asked = Instant::now();
    let reply = kernel.command("interrupt_request", json!({}))?;
    ensure!(reply["status"] == "ok", "{reply}");
    let took = asked.elapsed();
    ensure!(
        took < Duration::from_secs(10),
        "acknowledged after {took:?}"
    );
    Ok(())
}

/// Waits until the cell `id` has printed `text` on either stream.
fn printed(kernel: &mut Kernel, id: &str, text: &str) -> Outcome {
    let (until, mut all) = (Instant::now() + LONG, String::new());
    while !all.contains(text) {
        let left = until.saturating_duration_since(Instant::now());
        let message = kernel.next_iopub(id, left)?;
        let message = message.with_context(|| format!("no {text:?} in {all:?}"))?;
        let content = &message["content"];
        ensure!(content["execution_state"] != "idle", "it ended: {all}");
        all += content["text"].as_str().unwrap_or_default();
    }
    Ok(())
}

fn interrupted(answer: &Answer) -> anyhow::Result<String> {
    let content = answer.content();
    ensure!(content["ename"] == "HaloInterrupted", "{}", answer.reply);
    ensure!(answer.of("error").len() == 1, "{:?}", answer.iopub);
    Ok(content["traceback"].to_string())
}

fn value(kernel: &mut Kernel, code: &str) -> anyhow::Result<String> {
    let answer = kernel.execute(code)?;
    ensure!(answer.is_ok(), "{code}: {}", answer.reply);
    answer.shown("text/plain").context("no value")
}

fn wait_for(what: &str, holds: impl Fn() -> bool) -> Outcome {
    let until = Instant::now() + LONG;
    while !holds() {
        ensure!(Instant::now() < until, "{what} never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Epochs written by all runs of a store.
fn epochs(home: &Path) -> usize {
    let runs = std::fs::read_dir(home.join("runs")).into_iter().flatten();
    let texts = runs.flatten();
    let texts = texts.flat_map(|run| std::fs::read_to_string(run.path().join("events.jsonl")));
    texts.map(|text| text.matches("\"epoch\"").count()).sum()
}

const TRAIN: &str = "data = \"karate\"; epochs = 2; launch = threads";

#[test]
fn a_plain_cell_ends_at_its_next_library_call_and_loses_nothing() -> Outcome {
    let mut kernel = Kernel::start()?;
    let first = format!("let mut kept: Vec<usize> = vec![7, 1];\nlet r1 = train({TRAIN:?});");
    let answer = kernel.execute(&first)?;
    ensure!(answer.is_ok(), "{}", answer.reply);
    for (what, cell) in [
        (
            "frames",
            "kept.push(r1.epochs().height()); println!(\"go\"); loop { kept.push(r1.epochs().height()); }",
        ),
        (
            "checks",
            "kept.push(1); println!(\"go\"); loop { kept.push(1); interrupt::check(); }",
        ),
        (
            "a loop",
            "kept.push(1); println!(\"go\"); let mut k = 0u64; while k < u64::MAX { k += 1; kept[1] = 0; }",
        ),
        (
            "a chain",
            "kept.push(1); println!(\"go\"); let n = (0u64..).map(|k| std::hint::black_box(k)).filter(|k| *k == u64::MAX).count(); \
             kept.push(n);",
        ),
        (
            "a nap",
            "kept.push(1); println!(\"go\"); std::thread::sleep(std::time::Duration::from_secs(600));",
        ),
        (
            "waits",
            "kept.push(1); println!(\"go\"); interrupt::sleep(std::time::Duration::from_secs(600));",
        ),
        (
            "displays",
            "kept.push(1); println!(\"go\"); for n in 0.. { display::update(\"d\", &display::Bundle::text(n.to_string())); \
             std::thread::sleep(std::time::Duration::from_millis(5)); }",
        ),
        (
            "a thread",
            "kept.push(1); println!(\"go\"); std::thread::spawn(|| loop { runs(); }).join().unwrap();",
        ),
    ] {
        let before: usize = value(&mut kernel, "kept.len()")?.parse()?;
        let id = kernel.begin(cell)?;
        printed(&mut kernel, &id, "go")?;
        interrupt(&mut kernel)?;
        let answer = kernel.receive(&id, LONG)?;
        let said = interrupted(&answer).context(what)?;
        ensure!(
            said.contains("variables of earlier cells are intact"),
            "{what}: {said}"
        );
        // What the cell changed before it said "go" is there.
        let after: usize = value(&mut kernel, "kept.len()")?.parse()?;
        ensure!(after > before, "{what}: {after} of {before}");
    }
    ensure!(value(&mut kernel, "kept[0] + r1.epochs().height()")? == "9");
    Ok(())
}

#[test]
fn a_flood_is_bounded_counted_and_ends_with_its_cell() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    ensure!(kernel.execute("let flood = \"x\".repeat(199);")?.is_ok());
    let id = kernel.begin("println!(\"go\"); loop { println!(\"{flood}\"); }")?;
    printed(&mut kernel, &id, "go")?;
    let deaf = Deaf::client(kernel.info())?;
    std::thread::sleep(Duration::from_secs(6));
    let memory = processes::resident(kernel.pid()).context("no memory of the kernel")?;
    ensure!(memory < 700 << 20, "the kernel holds {} MB", memory >> 20);
    interrupt(&mut kernel)?;
    std::thread::sleep(Duration::from_secs(1));
    drop(deaf);
    let answer = kernel.receive(&id, LONG)?;
    interrupted(&answer)?;
    let missing = answer.stream("stderr");
    ensure!(
        missing.contains("are missing here: they came faster"),
        "{missing}"
    );
    let asked = Instant::now();
    let answer = kernel.execute("flood.len()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("199"),
        "{:?}",
        answer.reply
    );
    ensure!(answer.stream("stdout").is_empty(), "old output arrives");
    ensure!(
        asked.elapsed() < Duration::from_secs(20),
        "after {:?}",
        asked.elapsed()
    );
    Ok(())
}

#[test]
fn a_cell_that_trains_stops_its_run_at_an_epoch() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(
        kernel
            .execute("let mut done: Vec<Run> = Vec::new();")?
            .is_ok()
    );
    let long = "data = \"sbm:nodes=400,classes=4\"; epochs = 1000000; launch = threads";
    let cell = format!("done.push(train({TRAIN:?}));\nloop {{ done.push(train({long:?})); }}");
    let id = kernel.begin(&cell)?;
    let home = kernel.home().to_path_buf();
    wait_for("the second run", || epochs(&home) > 8)?;
    interrupt(&mut kernel)?;
    let answer = kernel.receive(&id, LONG)?;
    let said = interrupted(&answer)?;
    ensure!(said.contains("keeps its finished epochs"), "{said}");
    ensure!(value(&mut kernel, "done.len()")? == "1");
    let code = "let r = Run::open(\"latest\"); (r.status(), r.epochs().height() > 1)";
    ensure!(value(&mut kernel, code)? == "(\"interrupted\", true)");
    let worker = |found: &(u32, String)| found.1.contains("train");
    let left: Vec<_> = processes::naming(&home)
        .into_iter()
        .filter(worker)
        .collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_second_interrupt_ends_the_process_and_what_is_on_disk_comes_back() -> Outcome {
    let mut kernel = Kernel::start()?;
    let first = "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"; epochs = 3; launch = \"threads\"";
    let answer = kernel.execute(first)?;
    ensure!(answer.is_ok(), "{}", answer.reply);
    ensure!(kernel.execute("let gone = 5;")?.is_ok());
    // No loop of its own, no closure that is one and no call into the library: the first interrupt can only ask.
    let id = kernel.begin("println!(\"go\"); std::iter::repeat(7u64).map(std::hint::black_box).filter(|k| *k > 9).count()")?;
    printed(&mut kernel, &id, "go")?;
    interrupt(&mut kernel)?;
    printed(&mut kernel, &id, "A second interrupt ends its process")?;
    interrupt(&mut kernel)?;
    let answer = kernel.receive(&id, LONG)?;
    let said = interrupted(&answer)?;
    ensure!(said.contains("bound again: r1"), "{said}");
    ensure!(said.contains("these variables are lost: gone"), "{said}");
    ensure!(value(&mut kernel, "r1.epochs().height()")? == "3");
    ensure!(!kernel.execute("gone")?.is_ok());
    Ok(())
}

#[test]
fn an_interrupt_stops_the_compiler_and_keeps_everything() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let kept = 41;")?.is_ok());
    // Computed by the compiler, for longer than anybody waits.
    let cell = "#[allow(long_running_const_eval)]\n\
                const N: u64 = { let mut n = 0; while n < u64::MAX { n += 1; } n };\nprintln!(\"{N}\");";
    let id = kernel.begin(cell)?;
    let home = kernel.home().to_path_buf();
    let compiler = |found: &(u32, String)| found.1.contains("--crate-name ctx");
    wait_for("rustc", || processes::naming(&home).iter().any(compiler))?;
    interrupt(&mut kernel)?;
    let answer = kernel.receive(&id, LONG)?;
    let said = interrupted(&answer)?;
    ensure!(said.contains("all variables are intact"), "{said}");
    ensure!(value(&mut kernel, "kept + 1")? == "42");
    Ok(())
}

#[test]
fn an_interrupt_reaches_the_cell_that_starts_just_then() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let kept = 41;")?.is_ok());
    // Sent at points between the request and the cell's first call: whether rustc is stopped or the call
    // ends the cell, it ends, and nothing is lost.
    for wait in [0, 30, 60, 90, 120, 200, 400] {
        let id = kernel.begin("interrupt::sleep(std::time::Duration::from_secs(600));")?;
        let busy = kernel.next_iopub(&id, LONG)?.context("not busy")?;
        ensure!(busy["content"]["execution_state"] == "busy", "{busy}");
        std::thread::sleep(Duration::from_millis(wait));
        interrupt(&mut kernel)?;
        interrupted(&kernel.receive(&id, LONG)?).with_context(|| format!("after {wait} ms"))?;
        ensure!(value(&mut kernel, "kept + 1")? == "42");
    }
    Ok(())
}

#[test]
fn a_second_interrupt_kills_a_run_and_keeps_its_epochs() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let kept = 41;")?.is_ok());
    let cell = "%%gnn -n 2 -s halo -o cut\ndata = \"sbm:nodes=400,classes=4\"\nepochs = 1000000\n\
                launch = \"threads\"";
    let id = kernel.begin(cell)?;
    let home = kernel.home().to_path_buf();
    wait_for("epochs", || epochs(&home) > 6)?;
    interrupt(&mut kernel)?;
    interrupt(&mut kernel)?;
    let answer = kernel.receive(&id, LONG)?;
    interrupted(&answer)?;
    ensure!(value(&mut kernel, "kept + cut.epochs().height().min(1) as i32")? == "42");
    Ok(())
}
