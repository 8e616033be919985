//! Runs that nobody waits for, in a notebook: `--bg`, `%jobs`, `%wait`, `%attach`, `%stop`,
//! `%replay`, and what comes back after a crash.
//!
//! Can catch: a run that ends with its kernel, a card that stands still or lands in another cell,
//! a waiting that takes the run along, a broken promise of the same bits that is not told, frames
//! lost in a crash. Cannot catch: how a front end draws the card.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tests::kernel::{Answer, Kernel};
use tests::{Outcome, processes};

const SOON: Duration = Duration::from_secs(60);
/// The body of a run that ends only when it is asked to.
const ENDLESS: &str =
    "data = \"sbm:nodes=400,classes=4\"\nepochs = 1000000\nlaunch = \"threads\"\n";

fn ok(answer: &Answer) -> Outcome {
    ensure!(answer.is_ok(), "{}\n{:?}", answer.reply, answer.iopub);
    Ok(())
}

fn said(kernel: &mut Kernel, code: &str) -> anyhow::Result<String> {
    let answer = kernel.execute(code)?;
    ok(&answer).with_context(|| code.to_owned())?;
    answer
        .shown("text/plain")
        .with_context(|| format!("{code} shows nothing"))
}

fn fails(kernel: &mut Kernel, code: &str, ename: &str) -> anyhow::Result<String> {
    let answer = kernel.execute(code)?;
    let content = answer.content();
    ensure!(content["ename"] == ename, "{code}: {content}");
    Ok(content.to_string())
}

/// The folders of all runs, oldest first.
fn runs(home: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.join("runs")).into_iter().flatten();
    let mut all: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|run| run.join("manifest.json").exists())
        .collect();
    // Names have seconds only.
    all.sort_by_key(|run| of_manifest(run, "started"));
    all
}

fn of_manifest(run: &Path, key: &str) -> String {
    let text = std::fs::read_to_string(run.join("manifest.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
    manifest[key].as_str().unwrap_or_default().to_owned()
}

fn status(run: &Path) -> String {
    of_manifest(run, "status")
}

fn epochs(run: &Path) -> usize {
    let text = std::fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    text.matches("\"event\":\"epoch\"").count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
    let limit = Instant::now() + 2 * SOON;
    while !holds() {
        ensure!(Instant::now() < limit, "{what} did not happen in time");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Starts a run in the background; the id of the request and of the card. No compiler is waited
/// for.
fn background(kernel: &mut Kernel, name: &str) -> anyhow::Result<(String, String)> {
    let id = kernel.begin(&format!("%%gnn --bg -n 2 -s halo -o {name}\n{ENDLESS}"))?;
    let answer = kernel.receive(&id, SOON)?;
    ok(&answer)?;
    let took = answer.took;
    ensure!(took < Duration::from_secs(10), "it returned after {took:?}");
    let cards = answer.of("display_data");
    ensure!(cards.len() == 1, "{} cards", cards.len());
    let card = cards[0]["transient"]["display_id"].as_str();
    Ok((id, card.context("a card without an id")?.to_owned()))
}

fn supervisors(home: &Path) -> Vec<(u32, String)> {
    let of_run = |found: &(u32, String)| found.1.contains("train") || found.1.contains("worker");
    let all = processes::naming(&home.join("runs")).into_iter();
    all.chain(processes::naming(home)).filter(of_run).collect()
}

#[test]
fn a_background_run_has_its_card_in_its_cell_while_others_run() -> Outcome {
    let mut kernel = Kernel::start()?;
    let (id, card) = background(&mut kernel, "r1")?;
    let run = runs(kernel.home()).pop().context("no run")?;
    until("an epoch", || epochs(&run) > 0)?;

    let began = Instant::now();
    let cell = "std::thread::sleep(std::time::Duration::from_secs(3));\n\
                (r1.status(), r1.epochs().height() > 0)";
    let other = kernel.begin(cell)?;
    let answer = kernel.receive(&other, SOON)?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("(\"running\", true)"),
        "{:?}",
        answer.iopub
    );
    ensure!(
        answer.of("update_display_data").is_empty(),
        "the card is updated in another cell"
    );
    let mut updates = 0;
    while let Some(message) = kernel.next_iopub(&id, Duration::ZERO)? {
        let content = &message["content"];
        ensure!(content["transient"]["display_id"] == *card, "{message}");
        ensure!(content["data"]["text/html"].is_string(), "{message}");
        updates += 1;
    }
    let most = 4 * (began.elapsed().as_secs() + 3) as usize;
    ensure!((2..=most).contains(&updates), "{updates} updates");

    let table = said(&mut kernel, "%jobs")?;
    let name = run.file_name().context("a name")?.to_string_lossy();
    ensure!(table.contains(&*name) && table.contains("r1"), "{table}");
    let found = kernel.complete("%wait r")?;
    ensure!(found.iter().any(|name| name == "r1"), "{found:?}");

    said(&mut kernel, "%stop r1")?;
    let told = fails(&mut kernel, "%wait r1", "HaloInterrupted")?;
    ensure!(told.contains("they are whole"), "{told}");
    let limit = Instant::now() + SOON;
    let last = loop {
        let message = kernel.next_iopub(&id, Duration::from_secs(1))?;
        let text = message.map(|m| m["content"]["data"]["text/plain"].to_string());
        if let Some(text) = text.filter(|text| text.contains("interrupted")) {
            break text;
        }
        ensure!(Instant::now() < limit, "the card does not say the end");
    };
    ensure!(last.contains(&*name), "{last}");
    ensure!(said(&mut kernel, "%jobs")? == "no run is under way");

    background(&mut kernel, "r2")?;
    said(&mut kernel, "%stop r2 --now")?;
    fails(&mut kernel, "%wait r2", "HaloInterrupted")?;
    let home = kernel.home().to_path_buf();
    until("the end of all processes", || supervisors(&home).is_empty())
}

#[test]
fn who_stops_waiting_does_not_stop_the_run() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let kept = 41;")?)?;
    background(&mut kernel, "r1")?;
    let id = kernel.begin("%wait r1")?;
    // Its card comes once it waits.
    let mut waits = false;
    while !waits {
        let message = kernel.next_iopub(&id, SOON)?.context("no card")?;
        waits = message["header"]["msg_type"] == "display_data";
    }
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&id, SOON)?;
    let content = answer.content();
    ensure!(content["ename"] == "HaloInterrupted", "{content}");
    ensure!(content.to_string().contains("goes on"), "{content}");
    ensure!(said(&mut kernel, "kept + 1")? == "42");
    ensure!(said(&mut kernel, "r1.status()")? == "\"running\"");
    ok(&kernel.execute("%stop --now")?)?;
    fails(&mut kernel, "%wait", "HaloInterrupted").map(drop)
}

#[test]
fn runs_outlive_a_killed_kernel_and_are_found_by_the_next() -> Outcome {
    let mut kernel = Kernel::start()?;
    background(&mut kernel, "endless")?;
    let [endless] = runs(kernel.home()).try_into().ok().context("one run")?;
    kernel.begin(
        "%%gnn -n 2 -s halo -o waited\ndata = \"sbm:nodes=400,classes=4\"\nepochs = 2000\n\
         launch = \"threads\"\n",
    )?;
    let home = kernel.home().to_path_buf();
    let waited = || runs(&home).into_iter().find(|run| *run != endless);
    until("six epochs", || {
        waited().is_some_and(|run| epochs(&run) > 5)
    })?;
    let waited = waited().context("a second run")?;
    ensure!(status(&waited) == "running", "it ended before the kernel");
    kernel.kill_and_start_again()?;
    until("the end of the run", || status(&waited) != "running")?;
    ensure!(status(&waited) == "ok", "{}", status(&waited));
    ensure!(epochs(&waited) == 2000, "{} epochs", epochs(&waited));

    let id = waited.file_name().context("a name")?.to_string_lossy();
    let table = said(&mut kernel, &format!("%wait {id} -o waited"))?;
    ensure!(table.contains("the last 20 of 2000 epochs"), "{table}");
    ensure!(said(&mut kernel, "waited.epochs().height()")? == "2000");
    let answer = kernel.execute("%attach -o back")?;
    ok(&answer)?;
    let id = endless.file_name().context("a name")?.to_string_lossy();
    let card = answer.shown("text/plain").context("no card")?;
    ensure!(card.contains(&*id) && card.contains("running"), "{card}");
    ensure!(said(&mut kernel, "back.status()")? == "\"running\"");
    ok(&kernel.execute("%stop back")?)?;
    fails(&mut kernel, "%wait back", "HaloInterrupted")?;
    kernel.shutdown()?;
    let left = processes::wait_gone(&home, Duration::from_secs(10));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn what_a_kernel_has_started_leaves_nothing_defunct() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let before = 1;")?)?;
    for _ in 0..3 {
        let (_, on) = processes::children(kernel.pid());
        ensure!(!on.is_empty(), "the process of the variables");
        on.iter()
            .for_each(|pid| processes::signal(*pid, libc::SIGKILL));
        // It is said, and the next cell has a process again.
        let answer = kernel.execute("before")?;
        ensure!(answer.content()["status"] == "error", "{}", answer.reply);
        ok(&kernel.execute("let before = 2;")?)?;
    }
    ok(&kernel
        .execute("%%gnn -s halo -n 2\ndata = \"karate\"; epochs = 2; launch = \"threads\"")?)?;
    until("nobody defunct", || {
        processes::children(kernel.pid()).0.is_empty()
    })?;
    Ok(())
}

#[test]
fn a_cell_that_never_ends_ends_with_its_kernel() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let before = 1;")?)?;
    kernel.begin("let mut k = 0u64; loop { k = std::hint::black_box(k + 1); }")?;
    let home = kernel.home().to_path_buf();
    // The cell is compiled and runs once its process uses a core.
    std::thread::sleep(Duration::from_secs(5));
    ensure!(processes::naming(&home).len() >= 2, "the cell's process");
    processes::signal(kernel.pid(), 9);
    let left = processes::wait_gone(&home, Duration::from_secs(10));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_shutdown_stops_the_run_that_a_cell_waits_for_and_no_other() -> Outcome {
    let mut kernel = Kernel::start()?;
    background(&mut kernel, "left")?;
    kernel.begin(&format!("%%gnn -n 2 -s halo\n{ENDLESS}"))?;
    let home = kernel.home().to_path_buf();
    let last = || runs(&home).pop().map_or(0, |run| epochs(&run));
    until("a second run", || runs(&home).len() == 2 && last() > 2)?;
    kernel.shutdown()?;
    let all = runs(&home);
    until("the end of the waited run", || status(&all[1]) != "running")?;
    ensure!(status(&all[1]) == "interrupted", "{}", status(&all[1]));
    let before = epochs(&all[0]);
    until("more epochs", || epochs(&all[0]) > before + 5)?;
    ensure!(status(&all[0]) == "running", "{}", status(&all[0]));
    std::fs::write(all[0].join("stop"), "")?;
    let left = processes::wait_gone(&home, SOON);
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_run_is_repeated_bit_by_bit_or_the_difference_is_an_error() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"; epochs = 8; launch = \"threads\"\n";
    ok(&kernel.execute(cell)?)?;
    let verdict = said(&mut kernel, "%replay r1 -o again")?;
    for part in ["the same bits in all 8 epochs", "promised: the same bits"] {
        ensure!(verdict.contains(part), "{verdict}");
    }
    ensure!(said(&mut kernel, "again.epochs().height()")? == "8");
    let left = said(&mut kernel, "%diff r1 again")?;
    ensure!(!left.contains("setting"), "{left}");

    let plan = runs(kernel.home())[0].join("plan.json");
    let text = std::fs::read_to_string(&plan)?;
    ensure!(text.contains("\"seed\": 0"), "{text}");
    std::fs::write(&plan, text.replace("\"seed\": 0", "\"seed\": 1"))?;
    let told = fails(&mut kernel, "%replay r1 -o other", "HaloReplayDiffers")?;
    ensure!(told.contains("0 of 8 epochs"), "{told}");
    ensure!(said(&mut kernel, "other.status()")? == "\"ok\"");

    // A replay is a run like any other for interrupts.
    ok(&kernel.execute("let kept = 1;")?)?;
    background(&mut kernel, "long")?;
    ok(&kernel.execute("%stop long")?)?;
    fails(&mut kernel, "%wait long", "HaloInterrupted")?;
    let id = kernel.begin("%replay long -o cut")?;
    let home = kernel.home().to_path_buf();
    let last = || runs(&home).pop().map_or(0, |run| epochs(&run));
    until("a second run", || runs(&home).len() == 5 && last() > 2)?;
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&id, SOON)?;
    ensure!(
        answer.content()["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    ensure!(said(&mut kernel, "kept + 1")? == "2");
    ensure!(said(&mut kernel, "cut.status()")? == "\"interrupted\"");
    Ok(())
}

#[test]
fn after_a_crash_runs_frames_and_parameters_are_back() -> Outcome {
    let mut kernel = Kernel::start()?;
    for cell in [
        "%%params\nepochs = 3",
        "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"; epochs = $epochs; launch = \"threads\"\n",
        "%partition karate -n 2 -o part",
        "%%sql -o answer\nSELECT * FROM r1_epochs",
        "let (gone, r2) = (1, 2);",
    ] {
        ok(&kernel.execute(cell)?).with_context(|| cell.to_owned())?;
    }
    let told = fails(&mut kernel, "std::process::abort();", "HaloProcessEnded")?;
    ensure!(
        told.contains("bound again: answer, epochs, part, r1"),
        "{told}"
    );
    ensure!(
        told.contains("these variables are lost: gone, r2"),
        "{told}"
    );
    let all = "r1.epochs().height() + part.height() + answer.height() + epochs as usize";
    ensure!(said(&mut kernel, all)? == "11");
    ensure!(said(&mut kernel, "_run.id() == r1.id()")? == "true");

    ok(&kernel.execute("let part = 7;")?)?;
    let back = said(&mut kernel, "%restore")?;
    ensure!(back == "bound again: answer, epochs, part, r1", "{back}");
    ensure!(said(&mut kernel, "part.height()")? == "2");
    let ready = said(&mut kernel, "%warm")?;
    ensure!(ready.starts_with("ready for frames"), "{ready}");
    Ok(())
}
