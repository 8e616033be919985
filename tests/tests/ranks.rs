//! `%%ranks`: Rust on every rank of a pool that stays, by real MPI processes.
//!
//! Can catch: messages that do not arrive, output or values of the wrong rank, a deadlock that is not named,
//! a failing cell that takes the pool down or blames another rank, state that does not last. Cannot catch:
//! what only several machines show.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::answer::Answer;
use tests::kernel::Kernel;
use tests::{Outcome, processes};

const LONG: Duration = Duration::from_secs(120);

fn run(kernel: &mut Kernel, cell: &str) -> anyhow::Result<Answer> {
    let id = kernel.begin(cell)?;
    kernel.receive(&id, LONG)
}

fn failed(kernel: &mut Kernel, cell: &str) -> anyhow::Result<(String, String, String)> {
    let answer = run(kernel, cell)?;
    let content = answer.content();
    let word = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
    let trace = content["traceback"].to_string();
    Ok((word("ename"), word("evalue"), trace))
}

#[test]
fn messages_values_output_and_state() -> Outcome {
    let mut kernel = Kernel::start()?;
    let ring = "%%ranks -n 3 -o sums\n\
        comm.send((rank + 1) % size, format!(\"from {rank}\"))?;\n\
        let left: String = comm.recv((rank + size - 1) % size)?;\n\
        println!(\"hello\");\n\
        println!(\"I am {rank}\");\n\
        ctx.keep(\"mine\", rank * 10);\n\
        row! { left, total = comm.sum(rank as f64)?, all = comm.all_gather(rank)? }";
    let answer = run(&mut kernel, ring)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let printed = answer.stream("stdout");
    ensure!(
        printed == "[3 ranks] hello\n[rank 0] I am 0\n[rank 1] I am 1\n[rank 2] I am 2\n",
        "{printed}"
    );
    for (code, value) in [
        ("sums.height()", "3"),
        (
            "sums.column(\"left\").unwrap().str().unwrap().get(0).unwrap().to_owned()",
            "\"from 2\"",
        ),
        (
            "sums.column(\"total\").unwrap().f64().unwrap().sum().unwrap()",
            "9.0",
        ),
    ] {
        let answer = kernel.execute(code)?;
        let shown = answer.shown("text/plain");
        ensure!(
            shown.as_deref() == Some(value),
            "{code}: {:?}",
            answer.iopub
        );
    }
    // The pool listens to its own host.
    let ports: Vec<_> = processes::naming(&kernel.home().join("pools"))
        .into_iter()
        .map(|(pid, words)| (processes::listening(pid), words))
        .collect();
    ensure!(ports.len() > 3, "{ports:?}");
    ensure!(ports.iter().all(|(open, _)| open.is_empty()), "{ports:?}");
    // The pool stays, with what its ranks keep; only two of them run this.
    let kept = "%%ranks -t 1,2 -o kept\n*ctx.kept::<usize>(\"mine\").unwrap() as i64";
    ensure!(run(&mut kernel, kept)?.is_ok());
    let answer = kernel.execute("%%sql\nSELECT SUM(value) AS s, COUNT(*) AS n FROM kept")?;
    let shown = answer.shown("text/plain").context("no frame")?;
    ensure!(shown.contains("30") && shown.contains('2'), "{shown}");
    // A long cell's lines come while it runs, each of them once.
    let long = "%%ranks\nprintln!(\"early {rank}\");\n\
        std::thread::sleep(std::time::Duration::from_millis(2500));\nprint!(\"late\");";
    let id = kernel.begin(long)?;
    let answer = kernel.receive(&id, LONG)?;
    let printed = answer.stream("stdout");
    let early = "[rank 0] early 0\n[rank 1] early 1\n[rank 2] early 2\n";
    ensure!(printed == format!("{early}[3 ranks] late\n"), "{printed}");
    ensure!(answer.of("stream").len() > 1, "{:?}", answer.iopub);
    // Other layouts of the same lines.
    let said = |group: &str| {
        format!(
            "%%ranks --group {group}\nprintln!(\"hello\");\neprintln!(\"warn {{rank}}\");\n\
             comm.barrier()?;\nprintln!(\"I am {{rank}}\");"
        )
    };
    let answer = run(&mut kernel, &said("rank"))?;
    let by_rank = |rank: u32| {
        format!("[rank {rank}] hello\n[rank {rank}] warn {rank}\n[rank {rank}] I am {rank}\n")
    };
    let all: String = (0..3).map(by_rank).collect();
    ensure!(answer.stream("stdout") == all, "{:?}", answer.iopub);
    let answer = run(&mut kernel, &said("type"))?;
    let (out, err) = (answer.stream("stdout"), answer.stream("stderr"));
    ensure!(
        out.starts_with("[3 ranks] hello\n") && !out.contains("warn"),
        "{out}"
    );
    ensure!(
        err == "[rank 0] warn 0\n[rank 1] warn 1\n[rank 2] warn 2\n",
        "{err}"
    );
    let answer = run(&mut kernel, &said("none"))?;
    let out = answer.stream("stdout");
    ensure!(out.lines().count() == 9 && !out.contains('['), "{out}");
    // One rank prints in turn after the other.
    let turns = "%%ranks --group order\nfor turn in (0..size).rev() {\n\
        if turn == rank { println!(\"turn {rank}\"); }\n\
        std::thread::sleep(std::time::Duration::from_millis(100)); comm.barrier()?;\n}";
    let answer = run(&mut kernel, turns)?;
    let out = answer.stream("stdout");
    ensure!(
        out == "[rank 2] turn 2\n[rank 1] turn 1\n[rank 0] turn 0\n",
        "{out}"
    );
    // A variable of the notebook, and the loaded part.
    ensure!(
        kernel
            .execute("let xs: Vec<f64> = vec![0.5, 1.5];")?
            .is_ok()
    );
    let part = "%%ranks -i xs -i sums --data karate -o owned\n\
        let (mine, halo) = ctx.graph().counts();\n\
        row! { mine, halo, host = ctx.host(), x = xs[1], rows = sums.height() }";
    let answer = run(&mut kernel, part)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("owned.column(\"mine\").unwrap().i64().unwrap().sum().unwrap()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("34"),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("%cluster")?;
    let shown = answer.shown("text/plain").context("no status")?;
    ensure!(shown.contains("pid"), "{shown}");
    let answer = kernel.execute("%cluster down")?;
    let shown = answer.shown("text/plain").context("no status")?;
    ensure!(shown == "3 ranks have ended", "{shown}");
    Ok(())
}

#[test]
fn deadlocks_are_named_and_failures_blamed() -> Outcome {
    let mut kernel = Kernel::start()?;
    let stuck = "%%ranks -n 3 --stall 1\nctx.keep(\"n\", 7usize);\n\
        if rank == 1 { comm.recv::<u8>(0)?; } else { comm.barrier()?; }";
    let (name, what, trace) = failed(&mut kernel, stuck)?;
    ensure!(name == "HaloStalled", "{name}: {what}");
    ensure!(
        what.contains("rank 1 waits in recv from 0")
            && what.contains("ranks 0 and 2 wait in barrier"),
        "{what}"
    );
    ensure!(trace.contains("the pool goes on"), "{trace}");
    let torn = "%%ranks\nlet v = vec![1, 2];\nif rank == 2 { println!(\"{}\", v[rank]); }\n\
        comm.barrier()?;";
    let (name, what, trace) = failed(&mut kernel, torn)?;
    ensure!(name == "HaloRankFailed", "{name}: {what}");
    ensure!(what.starts_with("rank 2 failed at line 3"), "{what}");
    ensure!(
        trace.contains("ranks 0 and 1 waited and gave up"),
        "{trace}"
    );
    // Messages that nobody received are gone, and what was kept is not.
    let left = "%%ranks\nif rank == 0 { comm.send(1, 5)?; comm.send(1, 6)?; }";
    ensure!(run(&mut kernel, left)?.is_ok());
    let fresh = "%%ranks -o n\nif rank == 0 { comm.send(1, 8)?; }\n\
        if rank == 1 { assert_eq!(comm.recv::<i32>(0)?, 8); }\n\
        *ctx.kept::<usize>(\"n\").unwrap() as i64 + comm.sum(1.0)? as i64";
    let answer = run(&mut kernel, fresh)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("n.column(\"value\").unwrap().i64().unwrap().sum().unwrap()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("30"),
        "{:?}",
        answer.iopub
    );
    let (name, what, _) = failed(&mut kernel, "%%ranks\nlet x: usize = \"a\";")?;
    ensure!(
        name == "HaloCompileError" && what == "mismatched types",
        "{what}"
    );
    let (name, what, _) = failed(
        &mut kernel,
        "%%ranks --timeout 1\nif rank == 0 { std::thread::sleep(std::time::Duration::from_secs(2)); }\n\
         comm.barrier()?;",
    )?;
    ensure!(name == "HaloTimeout", "{name}: {what}");
    Ok(())
}

#[test]
fn interrupts_and_deaths_leave_the_session_whole() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let mine = 41;")?.is_ok());
    ensure!(kernel.execute("%cluster up -n 2")?.is_ok());
    let id = kernel.begin("%%ranks --stall 60\nif rank == 0 { comm.recv::<u8>(1)?; }")?;
    std::thread::sleep(Duration::from_millis(1500));
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(
        answer.content()["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    // A rank that computes for ever goes with the second interrupt, and the pool with it.
    let id = kernel.begin("%%ranks\nif rank == 1 { loop { std::hint::spin_loop(); } }")?;
    std::thread::sleep(Duration::from_millis(1500));
    kernel.command("interrupt_request", json!({}))?;
    std::thread::sleep(Duration::from_millis(300));
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&id, LONG)?;
    let trace = answer.content()["traceback"].to_string();
    ensure!(trace.contains("the pool is gone"), "{trace}");
    let dead = "%%ranks -n 2\nif rank == 1 { std::process::abort(); }\ncomm.barrier()?;";
    let started = Instant::now();
    let (name, what, _) = failed(&mut kernel, dead)?;
    ensure!(name == "HaloRankFailed", "{name}: {what}");
    ensure!(what.contains("rank 1"), "{what}");
    ensure!(started.elapsed() < LONG);
    let answer = run(&mut kernel, "%%ranks -o r\nrank")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("mine + r.height() as i32")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("43"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}
