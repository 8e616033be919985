//! The Jupyter kernel, from a client's side of its sockets.
//!
//! Can catch: missing or misordered messages, wrong parents, a kernel that is deaf while it works,
//! lost variables, runs that a key stroke starts. Cannot catch: a wire format that the protocol
//! crate gets wrong on both sides (the executed notebooks use libzmq), or what a front end draws.

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::kernel::{Answer, Kernel};
use tests::{Outcome, processes};

const SOON: Duration = Duration::from_secs(30);

fn ok(answer: &Answer) -> Outcome {
    ensure!(answer.is_ok(), "{}\n{:?}", answer.reply, answer.iopub);
    Ok(())
}

/// The reply is an error with its three fields, and iopub has exactly one `error` that agrees.
fn fails_with(answer: &Answer, ename: &str) -> Outcome {
    let reply = answer.content();
    ensure!(reply["status"] == "error", "{reply}");
    let errors = answer.of("error");
    ensure!(
        errors.len() == 1,
        "{} error messages: {errors:?}",
        errors.len()
    );
    for of in [reply, errors[0]] {
        ensure!(
            of["ename"]
                .as_str()
                .is_some_and(|name| name.contains(ename)),
            "ename: {of}"
        );
        ensure!(
            of["evalue"].as_str().is_some_and(|value| !value.is_empty()),
            "evalue: {of}"
        );
        ensure!(
            of["traceback"]
                .as_array()
                .is_some_and(|lines| !lines.is_empty()),
            "{of}"
        );
    }
    Ok(())
}

/// `busy` first, `idle` last, each once, and every message has the request as its parent.
fn framed(answer: &Answer, id: &str) -> Outcome {
    let states: Vec<_> = answer
        .of("status")
        .iter()
        .filter_map(|content| content["execution_state"].as_str())
        .collect();
    ensure!(states == ["busy", "idle"], "{states:?}");
    let kinds = answer.kinds();
    ensure!(
        kinds.first() == Some(&"status") && kinds.last() == Some(&"status"),
        "{kinds:?}"
    );
    for message in answer.iopub.iter().chain([&answer.reply]) {
        ensure!(
            message["parent_header"]["msg_id"] == id,
            "a wrong parent: {message}"
        );
    }
    Ok(())
}

fn run_cell(kernel: &mut Kernel, code: &str) -> anyhow::Result<(Answer, String)> {
    let id = kernel.begin(code)?;
    let answer = kernel.receive(&id, Duration::from_secs(180))?;
    Ok((answer, id))
}

#[test]
fn it_says_what_it_is_and_is_ready_soon() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    // The bar is 3 s; a shared machine gets some air.
    ensure!(
        kernel.ready_after < Duration::from_secs(8),
        "{:?}",
        kernel.ready_after
    );
    let answer = kernel.ask("kernel_info_request", json!({}))?;
    let info = answer.content();
    ok(&answer)?;
    ensure!(info["language_info"]["name"] == "rust", "{info}");
    ensure!(info["language_info"]["file_extension"] == ".rs", "{info}");
    ensure!(
        info["implementation"]
            .as_str()
            .is_some_and(|name| name.contains("halobook")),
        "{info}"
    );
    let version = info["protocol_version"]
        .as_str()
        .context("no protocol_version")?;
    ensure!(version.starts_with("5."), "{version}");
    Ok(())
}

#[test]
fn completeness_is_told_in_three_ways() -> Outcome {
    let mut kernel = Kernel::start()?;
    for (code, status) in [
        ("let x = 1;", "complete"),
        ("%lsmagic", "complete"),
        ("%%gnn -n 2\ndata = \"karate\"\n", "complete"),
        ("fn f() {", "incomplete"),
        ("fn fn", "invalid"),
        (")", "invalid"),
    ] {
        let found = kernel.is_complete(code)?;
        ensure!(found == status, "{code:?} is {found}, not {status}");
    }
    Ok(())
}

#[test]
fn magics_complete_and_explain_themselves_and_start_nothing() -> Outcome {
    let mut kernel = Kernel::start()?;
    for (code, wanted) in [
        ("%do", "doctor"),
        ("%%gn", "gnn"),
        ("%%gnn --ep", "epochs"),
        ("%%gnn -s ha", "halo"),
        ("%%gnn -n 2\nepo", "epochs"),
        ("%%gnn -n 2\ndata = \"kar", "karate"),
    ] {
        let found = kernel.complete(code)?;
        ensure!(
            found.iter().any(|m| m.contains(wanted)),
            "{code:?} gives {found:?}"
        );
    }
    let help = kernel.inspect("%%gnn")?.context("%%gnn is not found")?;
    ensure!(help.contains("epochs"), "{help}");
    let answer = kernel.execute("%gnn?")?;
    ok(&answer)?;
    let pages = answer.content()["payload"]
        .as_array()
        .context("no payload")?;
    let page =
        |p: &&serde_json::Value| p["source"] == "page" && p["data"]["text/plain"].is_string();
    ensure!(
        pages.len() == 1 && pages.iter().all(|p| page(&p)),
        "{pages:?}"
    );
    let runs = kernel.home().join("runs");
    ensure!(
        !runs.exists() || std::fs::read_dir(runs)?.count() == 0,
        "completion started a run"
    );
    Ok(())
}

#[test]
fn cells_print_show_fail_and_keep_their_variables() -> Outcome {
    let mut kernel = Kernel::start()?;
    let (answer, id) = run_cell(
        &mut kernel,
        "println!(\"hello, world\");\neprintln!(\"aside\");",
    )?;
    ok(&answer)?;
    framed(&answer, &id)?;
    ensure!(answer.content()["execution_count"] == 1, "{}", answer.reply);
    ensure!(
        answer.stream("stdout") == "hello, world\n",
        "{:?}",
        answer.stream("stdout")
    );
    ensure!(
        answer.stream("stderr").contains("aside"),
        "{:?}",
        answer.stream("stderr")
    );
    ensure!(
        answer.of("execute_input").len() == 1,
        "{:?}",
        answer.kinds()
    );

    let (answer, id) = run_cell(&mut kernel, "let kept = 41;\nkept + 1")?;
    ok(&answer)?;
    framed(&answer, &id)?;
    let results = answer.of("execute_result");
    ensure!(
        results.len() == 1 && results[0]["data"]["text/plain"] == "42",
        "{results:?}"
    );
    ensure!(results[0]["execution_count"] == 2, "{results:?}");

    let (answer, id) = run_cell(&mut kernel, "let wrong: u32 = \"text\";")?;
    framed(&answer, &id)?;
    fails_with(&answer, "")?;
    let (answer, id) = run_cell(&mut kernel, "%%gnn --bogus")?;
    framed(&answer, &id)?;
    fails_with(&answer, "HaloConfigError")?;
    let text = answer.content()["evalue"].to_string();
    ensure!(text.contains("bogus"), "{text}");

    let (answer, _) = run_cell(&mut kernel, "kept")?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("41"),
        "{:?}",
        answer.iopub
    );
    let found = kernel.complete("kep")?;
    ensure!(found.iter().any(|name| name == "kept"), "{found:?}");

    let request = json!({"hist_access_type": "tail", "n": 3, "output": false, "raw": true});
    let answer = kernel.ask("history_request", request)?;
    let history = answer.content()["history"]
        .as_array()
        .context("no history")?;
    ensure!(history.len() == 3, "{history:?}");
    ensure!(
        history
            .iter()
            .any(|entry| entry.to_string().contains("--bogus")),
        "{history:?}"
    );
    Ok(())
}

#[test]
fn a_wrong_signature_is_refused() -> Outcome {
    let mut kernel = Kernel::start()?;
    let right = kernel.info().key.clone();
    ensure!(
        kernel.answers_to(&right, SOON)?,
        "no answer to the right key"
    );
    ensure!(
        !kernel.answers_to("wrong", Duration::from_secs(2))?,
        "it answers to a wrong key"
    );
    ensure!(kernel.is_alive()?, "a wrong signature ended the kernel");
    ok(&kernel.ask("kernel_info_request", json!({}))?)
}

#[test]
fn the_heart_beats_while_a_cell_runs() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    ok(&kernel.execute("let warm = 1;")?)?;
    let id = kernel.begin("std::thread::sleep(std::time::Duration::from_secs(3));")?;
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        slowest = slowest.max(kernel.heartbeat()?);
        std::thread::sleep(Duration::from_millis(100));
    }
    let done = kernel.next_iopub(&id, Duration::ZERO)?;
    ensure!(
        done.is_none_or(|m| m["content"]["execution_state"] != "idle"),
        "it was not busy"
    );
    ensure!(
        slowest < Duration::from_secs(1),
        "a heartbeat took {slowest:?}"
    );
    ok(&kernel.receive(&id, SOON)?)
}

#[test]
fn a_frame_shows_as_a_table() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    let cell = "use halobook::prelude::*;\nlet frame = df!(\"name\" => [\"a\", \"b\"], \"x\" => [1.5, 2.5])?;\nframe";
    let first = kernel.execute(cell)?;
    ok(&first)?;
    let html = first.shown("text/html").context("no HTML")?;
    ensure!(html.contains("<table") && html.contains("2.5"), "{html}");
    ensure!(
        first
            .shown("text/plain")
            .is_some_and(|text| text.contains("name")),
        "no plain text"
    );
    // The bar is 15 s after a cold start; a shared machine gets some air.
    ensure!(
        first.took < Duration::from_secs(40),
        "the first frame cell took {:?}",
        first.took
    );
    let later = kernel.execute("frame.head(Some(1))")?;
    ok(&later)?;
    ensure!(
        later.took < Duration::from_secs(8),
        "a later frame cell took {:?}",
        later.took
    );
    // A final `?` once showed the frame as plain text only.
    let fallible =
        kernel.execute("frame.clone().lazy().filter(col(\"x\").gt(lit(2.0))).collect()?")?;
    ok(&fallible)?;
    ensure!(
        fallible
            .shown("text/html")
            .is_some_and(|html| html.contains("<table")),
        "no table behind a final question mark"
    );
    fails_with(
        &kernel.execute("frame.column(\"missing\")?")?,
        "PolarsError",
    )?;
    // The error is about the cell as it was written.
    let wrong = kernel.execute("frame.height()?")?;
    fails_with(&wrong, "HaloCompileError")?;
    let said = serde_json::to_string(&wrong.reply["content"])?;
    ensure!(
        said.contains("frame.height()?") && said.contains("the `?` operator"),
        "{said}"
    );
    ok(&kernel.execute("frame.height()")?)
}

#[test]
fn a_run_is_bound_as_frames() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"\nepochs = 12\nlaunch = \"threads\"\n";
    let (answer, id) = run_cell(&mut kernel, cell)?;
    ok(&answer)?;
    framed(&answer, &id)?;
    let (answer, _) = run_cell(&mut kernel, "r1.epochs().height()")?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("12"),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("r1.ranks()")?;
    ok(&answer)?;
    let html = answer.shown("text/html").context("no HTML")?;
    ensure!(html.contains("wait_ms"), "{html}");
    for (magic, mime, says) in [
        ("%plot r1 curve", "image/svg+xml", "<svg"),
        ("%plot r1 stack", "image/svg+xml", "<svg"),
        ("%plot r1 balance", "image/svg+xml", "<svg"),
        ("%runs", "text/html", "karate"),
    ] {
        let answer = kernel.execute(magic)?;
        ok(&answer)?;
        let shown = answer
            .shown(mime)
            .with_context(|| format!("{magic} shows no {mime}"))?;
        ensure!(shown.contains(says), "{magic}: {shown}");
    }
    for magic in ["%log r1", "%doctor", "%lsmagic"] {
        ok(&kernel.execute(magic)?).with_context(|| magic.to_string())?;
    }
    Ok(())
}

#[test]
fn a_partition_is_bound_as_a_frame_and_drawn() -> Outcome {
    let mut kernel = Kernel::start()?;
    let answer = kernel.execute("%partition karate -n 3 --balance train -o part")?;
    ok(&answer)?;
    let html = answer.shown("text/html").context("no table")?;
    ensure!(
        html.contains("halo_nodes") && html.contains("hash"),
        "{html}"
    );
    let answer = kernel.execute("part.height()")?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("3"),
        "{:?}",
        answer.iopub
    );
    for magic in ["%plot part partition", "%plot part"] {
        let answer = kernel.execute(magic)?;
        ok(&answer)?;
        let svg = answer.shown("image/svg+xml").context("no figure")?;
        ensure!(svg.contains("part 2") && svg.contains("halo"), "{svg}");
    }
    fails_with(&kernel.execute("%plot part curve")?, "HaloConfigError")?;
    fails_with(&kernel.execute("%log part")?, "HaloConfigError")?;
    fails_with(&kernel.execute("%partition karat -n 2")?, "HaloConfigError")?;
    let cell = "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"\nepochs = 2\nlaunch = \"threads\"\n";
    ok(&run_cell(&mut kernel, cell)?.0)?;
    let answer = kernel.execute("%plot r1 partition")?;
    ok(&answer)?;
    ensure!(
        answer
            .shown("image/svg+xml")
            .is_some_and(|svg| svg.contains("part 1"))
    );
    Ok(())
}

#[test]
fn an_interrupt_ends_a_run_at_an_epoch_and_keeps_variables() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    ok(&kernel.execute("let before = 7_usize;")?)?;
    let cell = "%%gnn -n 2 -s halo -o cut\ndata = \"sbm:nodes=400,classes=4\"\nepochs = 1000000\nlaunch = \"threads\"\n";
    let id = kernel.begin(cell)?;
    let home = kernel.home().join("runs");
    let events = || {
        let runs = std::fs::read_dir(&home).into_iter().flatten();
        let texts = runs
            .flatten()
            .map(|run| std::fs::read_to_string(run.path().join("events.jsonl")));
        texts.flatten().collect::<String>()
    };
    let started = Instant::now();
    while events().matches("\"epoch\"").count() < 6 {
        if started.elapsed() > SOON {
            let answer = kernel.receive(&id, Duration::from_secs(1))?;
            bail!("no epochs: {}", answer.reply);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let asked = Instant::now();
    let reply = kernel.command("interrupt_request", json!({}))?;
    ensure!(reply["status"] == "ok", "{reply}");
    ensure!(
        asked.elapsed() < Duration::from_secs(2),
        "acknowledged after {:?}",
        asked.elapsed()
    );
    let answer = kernel.receive(&id, SOON)?;
    fails_with(&answer, "HaloInterrupted")?;
    let answer = kernel.execute("before + cut.epochs().height().min(1)")?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("8"),
        "{:?}",
        answer.iopub
    );
    let worker = |found: &(u32, String)| found.1.contains("train") || found.1.contains("worker");
    let left: Vec<_> = processes::naming(&home)
        .into_iter()
        .filter(worker)
        .collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn a_shutdown_is_answered_and_leaves_nothing() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let x = 1;")?)?;
    let home = kernel.home().to_path_buf();
    let reply = kernel.shutdown()?;
    ensure!(
        reply["status"] == "ok" && reply["restart"] == false,
        "{reply}"
    );
    let left = processes::wait_gone(&home, Duration::from_secs(5));
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}
