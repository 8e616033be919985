//! What clients rely on beyond the conformance suite, from a client's side of the sockets.
//!
//! Can catch: an update that misses an output, requests that are not answered while something runs, flags of
//! a request that are ignored, text that comes late or twice, a kernel that only greets early subscribers.
//! Background runs' messages and their parents are tested in `jobs.rs`, interrupts in `interrupts.rs`. Cannot
//! catch: what a front end makes of it.

use anyhow::{Context as _, ensure};
use jupyter_protocol::{JupyterMessage, JupyterMessageContent};
use jupyter_zmq_client as zmq;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::Outcome;
use tests::kernel::{Answer, Kernel};

const LONG: Duration = Duration::from_secs(60);

fn ok(answer: &Answer) -> Outcome {
    ensure!(answer.is_ok(), "{}\n{:?}", answer.reply, answer.iopub);
    Ok(())
}

/// An execute request with some of its flags set otherwise.
fn request(code: &str, flags: Value) -> Value {
    let mut whole = json!({
        "code": code, "silent": false, "store_history": true,
        "user_expressions": {}, "allow_stdin": false, "stop_on_error": true,
    });
    if let (Some(whole), Value::Object(flags)) = (whole.as_object_mut(), flags) {
        whole.extend(flags);
    }
    whole
}

fn execute(kernel: &mut Kernel, code: &str, flags: Value) -> anyhow::Result<Answer> {
    let id = kernel.send("execute_request", request(code, flags))?;
    kernel.receive(&id, LONG)
}

#[test]
fn an_update_goes_to_every_output_of_that_id() -> Outcome {
    let mut kernel = Kernel::start()?;
    let show = "display::bundle_as(\"mine\", &display::Bundle::text(\"old\"))";
    for _ in 0..2 {
        let answer = kernel.execute(&format!("{show};"))?;
        ok(&answer)?;
        let shown = answer.of("display_data");
        ensure!(
            shown.len() == 1 && shown[0]["transient"]["display_id"] == "mine",
            "{shown:?}"
        );
    }
    let update = "display::update(\"mine\", &display::Bundle::text(\"new\"));";
    let answer = kernel.execute(update)?;
    ok(&answer)?;
    // One message names the id; a client finds all outputs by it.
    let updates = answer.of("update_display_data");
    ensure!(updates.len() == 1, "{:?}", answer.kinds());
    ensure!(
        updates[0]["transient"]["display_id"] == "mine",
        "{updates:?}"
    );
    ensure!(updates[0]["data"]["text/plain"] == "new", "{updates:?}");
    ensure!(answer.of("display_data").is_empty(), "shown a third time");
    // The card of a run is one output too.
    let cell = "%%gnn -n 2 -s halo\ndata = \"sbm:nodes=3000,classes=4\"; epochs = 60; launch = \"threads\"";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    ok(&answer)?;
    let ids = |kind| {
        let contents = answer.of(kind).into_iter();
        let ids = contents.map(|content| content["transient"]["display_id"].clone());
        ids.collect::<std::collections::HashSet<_>>()
    };
    let (cards, updates) = (ids("display_data"), ids("update_display_data"));
    ensure!(updates.is_subset(&cards), "{updates:?} of {cards:?}");
    Ok(())
}

#[test]
fn requests_are_answered_while_something_runs() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let kept_here = 1;")?)?;
    let cell = "%%gnn -n 2 -s halo -o r1\ndata = \"sbm:nodes=400,classes=4\"; epochs = 1000000\n\
                launch = \"threads\"";
    let training = kernel.begin(cell)?;
    std::thread::sleep(Duration::from_millis(500));
    let soon = |kernel: &mut Kernel, kind, content, limit: u64| {
        let asked = Instant::now();
        let answer = kernel.ask(kind, content)?;
        let took = asked.elapsed();
        ensure!(took < Duration::from_secs(limit), "{kind} took {took:?}");
        anyhow::Ok(answer)
    };
    let complete = |code: &str| json!({"code": code, "cursor_pos": code.len()});
    for (code, wanted, limit) in [
        ("%%swe", "%%sweep", 3),
        ("%%gnn --epo", "--epochs", 3),
        // Rust too, since nothing is evaluated.
        ("kept_h", "kept_here", 15),
    ] {
        // The first question about Rust may find rust-analyzer still reading crates: then nothing is offered.
        let until = Instant::now() + LONG;
        loop {
            let answer = soon(&mut kernel, "complete_request", complete(code), limit)?;
            let matches = answer.content()["matches"].to_string();
            if matches.contains(wanted) {
                break;
            }
            ensure!(Instant::now() < until, "{code}: {matches}");
        }
    }
    for (kind, content) in [
        ("is_complete_request", json!({"code": "fn f() {"})),
        (
            "inspect_request",
            json!({"code": "%%gnn", "cursor_pos": 5, "detail_level": 0}),
        ),
        (
            "history_request",
            json!({"hist_access_type": "tail", "n": 3, "output": false, "raw": true}),
        ),
        ("kernel_info_request", json!({})),
        ("comm_info_request", json!({})),
    ] {
        let answer = soon(&mut kernel, kind, content, 3)?;
        let status = &answer.content()["status"];
        ensure!(
            status == "ok" || status == "incomplete",
            "{kind}: {}",
            answer.reply
        );
    }
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&training, LONG)?;
    ensure!(
        answer.content()["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    // While Rust runs there is nobody to ask about Rust: an empty answer, at once.
    let running = kernel.begin("interrupt::sleep(std::time::Duration::from_secs(600));")?;
    let until = Instant::now() + LONG;
    while kernel
        .next_iopub(&running, LONG)?
        .is_none_or(|m| m["header"]["msg_type"] != "execute_input")
    {
        ensure!(Instant::now() < until, "it never began");
    }
    std::thread::sleep(Duration::from_millis(300));
    ok(&soon(
        &mut kernel,
        "complete_request",
        complete("kept_h"),
        3,
    )?)?;
    let answer = soon(&mut kernel, "complete_request", complete("%%swe"), 3)?;
    ensure!(
        answer.content()["matches"] == json!(["%%sweep"]),
        "{}",
        answer.reply
    );
    kernel.command("interrupt_request", json!({}))?;
    kernel.receive(&running, LONG)?;
    Ok(())
}

#[test]
fn the_flags_of_a_request_are_honoured() -> Outcome {
    let mut kernel = Kernel::start()?;
    let answer = execute(
        &mut kernel,
        "let a = 1; println!(\"{a}\"); a",
        json!({"silent": true}),
    )?;
    ok(&answer)?;
    ensure!(
        answer.kinds() == ["status", "status"],
        "{:?}",
        answer.kinds()
    );
    let failing = execute(&mut kernel, "nothing_of_that_name", json!({"silent": true}))?;
    ensure!(failing.content()["status"] == "error", "{}", failing.reply);
    ensure!(
        failing.kinds() == ["status", "status"],
        "{:?}",
        failing.kinds()
    );
    let answer = execute(&mut kernel, "a + 1", json!({"store_history": false}))?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("2"),
        "{:?}",
        answer.iopub
    );
    // The first stored cell is the first prompt.
    let expressions = json!({"sum": "a + 41", "wrong": "nothing_of_that_name", "frame": "df!(\"n\" => [a]).unwrap()"});
    let answer = execute(&mut kernel, "a", json!({"user_expressions": expressions}))?;
    ok(&answer)?;
    ensure!(answer.content()["execution_count"] == 1, "{}", answer.reply);
    let found = &answer.content()["user_expressions"];
    ensure!(
        found["sum"]["status"] == "ok" && found["sum"]["data"]["text/plain"] == "42",
        "{found}"
    );
    ensure!(
        found["wrong"]["status"] == "error" && found["wrong"]["ename"] == "HaloCompileError",
        "{found}"
    );
    ensure!(
        found["frame"]["data"]["text/html"]
            .as_str()
            .is_some_and(|t| t.contains("<table")),
        "{found}"
    );
    let past = json!({"hist_access_type": "tail", "n": 9, "output": false, "raw": true});
    let answer = kernel.ask("history_request", past)?;
    let history = answer.content()["history"]
        .as_array()
        .context("no history")?;
    ensure!(history.len() == 1 && history[0][1] == 1, "{history:?}");
    Ok(())
}

#[test]
fn cells_behind_a_failed_one_are_aborted_if_it_says_so() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let a = 1;")?)?;
    for (stop, statuses) in [
        (true, ["error", "aborted", "aborted"]),
        (false, ["error", "ok", "ok"]),
    ] {
        let fails = "std::thread::sleep(std::time::Duration::from_millis(500)); panic!(\"no\")";
        let first = kernel.send(
            "execute_request",
            request(fails, json!({"stop_on_error": stop})),
        )?;
        let ids = [first, kernel.begin("a + 1")?, kernel.begin("%lsmagic")?];
        for (id, status) in ids.iter().zip(statuses) {
            let answer = kernel.receive(id, LONG)?;
            ensure!(
                answer.content()["status"] == status,
                "{stop}: {}",
                answer.reply
            );
            // This client reads a reply without a number as one with 0.
            let numbered = answer.content()["execution_count"] != 0;
            ensure!(numbered == (status != "aborted"), "{}", answer.reply);
        }
        // What comes after the failure was known is executed.
        ok(&kernel.execute("a + 2")?)?;
    }
    Ok(())
}

#[test]
fn unknown_and_broken_requests_do_no_harm() -> Outcome {
    let mut kernel = Kernel::start()?;
    let answer = kernel.ask("frobnicate_request", json!({"deep": [1, {"x": null}]}))?;
    ensure!(answer.content()["status"] == "error", "{}", answer.reply);
    ensure!(
        answer.reply["header"]["msg_type"] == "frobnicate_reply",
        "{}",
        answer.reply
    );
    let control = kernel.command("frobnicate_request", json!({}))?;
    ensure!(control["status"] == "error", "{control}");
    let comm = json!({"comm_id": "c", "target_name": "jupyter.widget", "data": {}});
    let opened = kernel.send("comm_open", comm)?;
    let mut closed = None;
    while let Some(message) = kernel.next_iopub(&opened, LONG)? {
        if message["header"]["msg_type"] == "comm_close" {
            closed = Some(message["content"]["comm_id"].clone());
        }
        if message["content"]["execution_state"] == "idle" {
            break;
        }
    }
    ensure!(
        closed == Some(json!("c")),
        "a comm that nobody speaks over stays open"
    );
    // Nobody waits for an answer to these.
    for (kind, content) in [
        ("gossip", json!({"x": 1})),
        ("comm_msg", json!({"comm_id": "c", "data": {}})),
        ("comm_close", json!({"comm_id": "c", "data": {}})),
        (
            "execute_reply",
            json!({"status": "ok", "execution_count": 1}),
        ),
    ] {
        kernel.send(kind, content)?;
    }
    for (code, cursor) in [("%%gnn", 500), ("é", 1), ("🎉x", 2), ("", 0)] {
        let asked = json!({"code": code, "cursor_pos": cursor});
        ok(&kernel.ask("complete_request", asked)?).with_context(|| code.to_string())?;
    }
    let answer = kernel.execute("1 + 1")?;
    ok(&answer)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("2"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}

#[test]
fn all_text_comes_before_the_end_of_its_cell_a_hundred_times() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(&kernel.execute("let mut round = 0;")?)?;
    let cell = "round += 1;\nfor n in 0..5 { println!(\"{round} out {n}\"); eprintln!(\"{round} err {n}\"); }\n\
                std::thread::spawn(|| eprint!(\"no line end\\n\")).join().unwrap(); round";
    for round in 1..=100 {
        let answer = kernel.execute(cell)?;
        ok(&answer)?;
        let lines = |word: &str| {
            (0..5)
                .map(|n| format!("{round} {word} {n}\n"))
                .collect::<String>()
        };
        let (out, err) = (answer.stream("stdout"), answer.stream("stderr"));
        ensure!(out == lines("out"), "round {round}: {out:?}");
        ensure!(
            err == lines("err") + "no line end\n",
            "round {round}: {err:?}"
        );
        ensure!(
            answer.shown("text/plain") == Some(round.to_string()),
            "{:?}",
            answer.iopub
        );
    }
    Ok(())
}

#[test]
fn who_subscribes_late_is_welcomed_and_hears_all_that_follows() -> Outcome {
    let mut kernel = Kernel::start()?;
    // A kernel's first cell says what it waits for.
    ensure!(kernel.execute("0")?.is_ok());
    let info = kernel.info().clone();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        // As VS Code does: the shell is connected and answered before anybody listens.
        let session = uuid::Uuid::new_v4().to_string();
        let identity = zmq::peer_identity_for_session(&session)?;
        let shell =
            zmq::create_client_shell_connection_with_identity(&info, &session, identity).await?;
        let (mut send, mut replies) = shell.split();
        let message = |kind: &str, content: Value| {
            let content = JupyterMessageContent::from_type_and_content(kind, content)?;
            anyhow::Ok(JupyterMessage::new(content, None))
        };
        send.send(message("kernel_info_request", json!({}))?)
            .await?;
        let reply = tokio::time::timeout(LONG, replies.read()).await??;
        ensure!(reply.message_type() == "kernel_info_reply", "{reply:?}");
        let mut iopub = zmq::create_client_iopub_connection(&info, "", &session).await?;
        let first = tokio::time::timeout(LONG, iopub.read()).await??;
        ensure!(first.message_type() == "iopub_welcome", "{first:?}");
        let cell = message(
            "execute_request",
            request("println!(\"heard\");", json!({})),
        )?;
        let id = cell.header.msg_id.clone();
        send.send(cell).await?;
        let mut kinds = Vec::new();
        while kinds.iter().filter(|kind| *kind == "status").count() < 2 {
            let heard = tokio::time::timeout(LONG, iopub.read()).await??;
            if heard
                .parent_header
                .as_ref()
                .is_some_and(|parent| parent.msg_id == id)
            {
                kinds.push(heard.message_type().to_string());
            }
        }
        ensure!(
            kinds == ["status", "execute_input", "stream", "status"],
            "{kinds:?}"
        );
        Ok(())
    })?;
    // The client that was there first is not disturbed.
    ok(&kernel.execute("2 + 2")?)
}

/// What is nested deeper than any stack is refused by its depth, whoever would read it, and nothing is lost.
#[test]
fn what_is_nested_too_deeply_is_refused() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let kept = 41;")?.is_ok());
    for deep in [
        format!("let z = {};", "(".repeat(1000)),
        format!("let z = {}1;", "-".repeat(100_000)),
        format!("let z: {}u8;", "Vec<".repeat(100_000)),
        format!(
            "%%sql\nselect {}1{}",
            "(".repeat(100_000),
            ")".repeat(100_000)
        ),
        format!("%%gnn\ndata = {}", "[".repeat(100_000)),
    ] {
        let answer = kernel.execute(&deep)?;
        let said = answer.content()["evalue"].as_str().unwrap_or_default();
        ensure!(said.starts_with("the cell is nested 1000"), "{said}");
        for (kind, body) in [
            ("complete_request", json!({"code": deep, "cursor_pos": 900})),
            ("is_complete_request", json!({"code": deep})),
            (
                "inspect_request",
                json!({"code": deep, "cursor_pos": 900, "detail_level": 0}),
            ),
        ] {
            let id = kernel.send(kind, body)?;
            kernel.receive(&id, Duration::from_secs(10))?;
        }
    }
    // As deep as is read.
    let deep = format!("let z = {}1{};", "(".repeat(190), ")".repeat(190));
    ensure!(kernel.execute(&deep)?.is_ok());
    let answer = kernel.execute("kept + z")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("42"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}
