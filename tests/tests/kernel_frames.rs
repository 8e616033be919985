//! `%%sweep`, `%%sql` and `%%check` in a notebook.
//!
//! Can catch: a frame that is not bound or lacks rows, an interrupt that loses finished rows or
//! variables. What settings come to is tested on the command line (`sweep.rs`). Cannot catch: how the
//! card looks.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::Outcome;
use tests::kernel::Kernel;

#[test]
fn many_runs_are_bound_as_one_frame() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "%%sweep -o grid\ndata = \"karate\"; epochs = 5; launch = \"threads\"\n\
                strategy = [\"single\", \"halo\"]\nranks = [1, 2]";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, Duration::from_secs(120))?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/html").context("no table")?;
    ensure!(
        shown.contains("4 of 4 settings, 1 without a result"),
        "{shown}"
    );
    for (code, value) in [
        ("grid.height()", "4"),
        ("_sweep.height()", "4"),
        ("sweep(\"latest\").height()", "4"),
        ("grid.column(\"epoch_ms\").unwrap().null_count()", "1"),
        (
            "grid.column(\"ranks\").unwrap().i64().unwrap().sum().unwrap()",
            "6",
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
    let answer = kernel.execute("%%sweep\nranks = [1, 2")?;
    ensure!(
        answer.content()["ename"] == "HaloConfigError",
        "{}",
        answer.reply
    );
    Ok(())
}

#[test]
fn one_run_with_several_seeds_is_bound_as_runs() -> Outcome {
    let mut kernel = Kernel::start()?;
    let keys = "data = \"karate\"; epochs = 5; launch = \"threads\"; seed = 7";
    for (flags, wait) in [("", None), (" --bg", Some("%wait many"))] {
        let id = kernel.begin(&format!("%%gnn --repeat 3 -o many{flags}\n{keys}"))?;
        let answer = kernel.receive(&id, Duration::from_secs(120))?;
        ensure!(answer.is_ok(), "{:?}", answer.iopub);
        if let Some(wait) = wait {
            let id = kernel.begin(wait)?;
            let answer = kernel.receive(&id, Duration::from_secs(120))?;
            ensure!(answer.is_ok(), "{:?}", answer.iopub);
        }
        for (code, value) in [
            ("many.len()", "3"),
            ("many.epochs().height()", "15"),
            ("many.summary().height()", "3"),
            ("many[2].epochs().height()", "5"),
            (
                "many.summary().column(\"seed\").unwrap().cast(&DataType::Int64).unwrap()\
                 .i64().unwrap().iter().flatten().collect::<Vec<_>>()",
                "[7, 8, 9]",
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
        let plot = kernel.execute("%plot many curve")?;
        let text = plot.shown("text/plain").context("no text")?;
        ensure!(
            text.contains("3 runs") || text.contains("3 seeds"),
            "{text}"
        );
        let rows = kernel.execute("%%sql\nSELECT count(*) AS n FROM many")?;
        ensure!(rows.is_ok(), "{:?}", rows.iopub);
    }
    let answer = kernel.execute("%run many")?;
    let said = answer.content()["evalue"].to_string();
    ensure!(said.contains("several runs"), "{said}");
    let one = kernel.execute("%run many[1]")?;
    let page = one.shown("text/plain").context("no page")?;
    ensure!(page.contains("seed 8"), "{page}");
    let none = kernel.execute("%run many[3]")?;
    ensure!(!none.is_ok(), "there are three");
    let answer = kernel.execute(&format!("%%gnn --repeat 2 --verify\n{keys}"))?;
    ensure!(
        answer.content()["ename"] == "HaloConfigError",
        "{}",
        answer.reply
    );
    Ok(())
}

#[test]
fn an_interrupt_keeps_finished_rows_and_variables() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let mine = 41;")?.is_ok());
    let cell = "%%sweep -o grid --in-order\ndata = \"sbm:nodes=400,classes=4\"\nepochs = 300\n\
                launch = \"threads\"\nseed = [1, 2, 3, 4, 5, 6, 7, 8]";
    let id = kernel.begin(cell)?;
    let rows = |kernel: &Kernel| {
        let sweeps = std::fs::read_dir(kernel.home().join("sweeps"));
        let dir = sweeps.ok()?.flatten().next()?.path();
        let text = std::fs::read_to_string(dir.join("events.jsonl")).ok()?;
        Some(
            text.lines()
                .filter(|l| l.contains("\"event\":\"row\""))
                .count(),
        )
    };
    let until = Instant::now() + Duration::from_secs(90);
    while rows(&kernel).unwrap_or(0) == 0 {
        ensure!(Instant::now() < until, "no row in time");
        std::thread::sleep(Duration::from_millis(5));
    }
    let reply = kernel.command("interrupt_request", json!({}))?;
    ensure!(reply["status"] == "ok", "{reply}");
    let answer = kernel.receive(&id, Duration::from_secs(60))?;
    ensure!(
        answer.content()["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    let answer = kernel.execute("mine + i32::from(grid.height() > 0 && grid.height() < 8)")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("42"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}

#[test]
fn queries_reach_what_is_bound_and_the_store() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cells = [
        "%%gnn -n 2 -s halo -o r1\ndata = \"karate\"; epochs = 4; launch = \"threads\"",
        "%%sweep -o grid\ndata = \"karate\"; epochs = 3; launch = \"threads\"\nlr = [0.1, 0.2]",
    ];
    for cell in cells {
        let id = kernel.begin(cell)?;
        let answer = kernel.receive(&id, Duration::from_secs(120))?;
        ensure!(answer.is_ok(), "{:?}", answer.iopub);
    }
    let cell = "%%params\ndata = \"karate\"; epochs = 3\nrates = [0.1, 0.2, 0.3]";
    ensure!(kernel.execute(cell)?.is_ok());
    let cell =
        "%%sweep -o three\ndata = $data; epochs = $epochs; launch = \"threads\"; lr = $rates";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, Duration::from_secs(120))?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("%%check\ncount(three.lr) == $epochs")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("rates.len() as i64 + epochs + data.len() as i64")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("12"),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("%%gnn\nepochs = $nothing")?;
    ensure!(
        answer.content()["evalue"] == "$nothing is no parameter",
        "{:?}",
        answer.iopub
    );
    for (query, rows) in [
        (
            "SELECT rank, AVG(wait_ms) AS w FROM r1_ranks GROUP BY rank",
            2,
        ),
        ("SELECT * FROM grid WHERE lr > 0.15", 1),
        (
            "SELECT run_id, MAX(epoch) AS last FROM epochs GROUP BY run_id",
            6,
        ),
        (
            "SELECT g.lr, r.seed FROM grid g JOIN runs r ON g.run_id = r.run_id",
            2,
        ),
    ] {
        let answer = kernel.execute(&format!("%%sql -o asked\n{query}"))?;
        ensure!(answer.is_ok(), "{query}: {:?}", answer.iopub);
        ensure!(answer.shown("text/html").is_some(), "{query}: no table");
        let answer = kernel.execute("asked.height()")?;
        let shown = answer.shown("text/plain");
        ensure!(
            shown == Some(rows.to_string()),
            "{query}: {:?}",
            answer.iopub
        );
    }
    let answer = kernel.execute("%%sql\nSELECT COUNT(*) AS n FROM asked")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("%%sql\nSELECT nothing FROM r1_ranks")?;
    let said = answer.content().to_string();
    ensure!(
        said.contains("HaloConfigError") && said.contains("r1_epochs"),
        "{said}"
    );
    let claims = "r1.epochs_done == 4\ncount(grid.lr) == 2\nmax(r1_ranks.rank) ~ 1.02";
    let answer = kernel.execute(&format!("%%check --figure 3\n{claims}"))?;
    let shown = answer.shown("text/plain");
    ensure!(
        shown.is_some_and(|text| text.starts_with("3 claims of figure 3: all hold")),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("%%check --tol 0.01\nmax(r1_ranks.rank) ~ 1.02\n1 < 2")?;
    let said = answer.content();
    ensure!(said["ename"] == "HaloCheckFailed", "{said}");
    ensure!(said["evalue"] == "1 of 2 claims do not hold", "{said}");
    ensure!(
        said.to_string().contains("1 against 1.02 ± 0.0102"),
        "{said}"
    );
    for kind in ["curve", "speedup", "pareto"] {
        let answer = kernel.execute(&format!("%plot grid {kind}"))?;
        ensure!(answer.shown("image/svg+xml").is_some(), "{}", answer.reply);
    }
    for (cell, said) in [
        ("%plot grid balance", "shows one run"),
        ("%plot asked curve", "asked is a frame, not a run"),
    ] {
        let answer = kernel.execute(cell)?;
        let evalue = answer.content()["evalue"].as_str().unwrap_or_default();
        ensure!(evalue.contains(said), "{cell}: {}", answer.reply);
    }
    Ok(())
}

#[test]
fn a_plan_is_bound_and_refuses_and_is_held_against_its_run() -> Outcome {
    let mut kernel = Kernel::start()?;
    let graph = "sbm:nodes=1500,classes=5,feat=24,degree=10";
    let cell = format!("%plan {graph} -s halo -n 1,2 --launch threads -o plan");
    let id = kernel.begin(&cell)?;
    let answer = kernel.receive(&id, Duration::from_secs(120))?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/html").context("no table")?;
    ensure!(
        shown.contains("epoch_bytes") && shown.contains("exact"),
        "{shown}"
    );
    let query = "%%sql\nSELECT COUNT(*) AS n FROM plan WHERE item = 'memory' AND ranks = 2";
    let answer = kernel.execute(query)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("plan.column(\"value\").unwrap().null_count()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("0"),
        "{:?}",
        answer.iopub
    );
    let body = format!("data = \"{graph}\"; hidden = 512; launch = \"threads\"; epochs = 2");
    let cell = format!("%%gnn -n 2 -s halo -o r1 --limit 9MB\n{body}");
    let answer = kernel.execute(&cell)?;
    let said = answer.content();
    ensure!(said["ename"] == "HaloPlanRefused", "{said}");
    ensure!(said.to_string().contains("of 9.0 MB"), "{said}");
    let cell = format!("%%gnn -n 2 -s halo -o r1 --limit 9MB --force\n{body}");
    let id = kernel.begin(&cell)?;
    let answer = kernel.receive(&id, Duration::from_secs(120))?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("%plan --like r1 -n 4")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/plain").context("no text")?;
    ensure!(
        shown.contains("does not fit: 4 rank(s)") == shown.contains(" !"),
        "{shown}"
    );
    let large = "%plan like:reddit -s halo -n 4 --launch threads --limit 1GB --forecast -o far";
    let answer = kernel.execute(large)?;
    let shown = answer.shown("text/plain").context("no text")?;
    ensure!(shown.contains("does not fit: 4 rank(s)"), "{shown}");
    let answer = kernel.execute("far.column(\"basis\")?.str()?.get(0).map(str::to_owned)")?;
    let basis = answer.shown("text/plain").context("no text")?;
    ensure!(basis.contains("forecast"), "{basis}");
    let answer = kernel.execute("%plot r1 plan")?;
    let svg = answer.shown("image/svg+xml").context("no plot")?;
    ensure!(
        svg.contains("predicted peak") && svg.contains("as planned"),
        "{svg}"
    );
    Ok(())
}

#[test]
fn a_traced_run_has_spans_in_rust_sql_a_plot_and_a_file() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "%%gnn -n 2 -s halo -o r1 --trace --slow 1:2x\ndata = \"karate\"; epochs = 3\n\
                launch = \"threads\"";
    let answer = kernel.execute(cell)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("r1.spans().height() > 30")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("true"),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("%%sql\nSELECT COUNT(DISTINCT rank) AS ranks FROM r1_spans")?;
    let shown = answer.shown("text/plain").context("no answer")?;
    ensure!(shown.contains('2'), "{shown}");
    let answer = kernel.execute("%plot r1 gantt --epoch 1")?;
    let text = answer.shown("text/plain").context("no plot")?;
    ensure!(
        text.contains("epoch 1:") && text.contains("critical path"),
        "{text}"
    );
    ensure!(text.contains("rank 1 slowed 2x on purpose"), "{text}");
    ensure!(
        answer.shown("image/svg+xml").is_some(),
        "{:?}",
        answer.iopub
    );
    let file = kernel.home().join("r1.json");
    let answer = kernel.execute(&format!("%trace r1 --to {}", file.display()))?;
    let text = answer.shown("text/plain").context("no summary")?;
    ensure!(
        text.contains("dropped") && text.contains("perfetto"),
        "{text}"
    );
    ensure!(std::fs::read_to_string(&file)?.contains("traceEvents"));
    let answer = kernel.execute("%plot r1 stack --epoch 1")?;
    ensure!(
        answer.content()["ename"] == "HaloConfigError",
        "{}",
        answer.reply
    );
    Ok(())
}

#[test]
fn a_sweep_in_the_background_is_bound_when_it_is_waited_for() -> Outcome {
    let mut kernel = Kernel::start()?;
    let body = "data = \"karate\"; launch = \"threads\"";
    let cell = format!("%%sweep --bg -o grid\n{body}; epochs = 5\nseed = [1, 2, 3]");
    let answer = kernel.execute(&cell)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    ensure!(
        answer.of("display_data").len() == 1,
        "no card: {:?}",
        answer.iopub
    );
    let answer = kernel.execute("%wait grid")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/plain").context("no frame")?;
    ensure!(shown.contains("3 of 3 settings"), "{shown}");
    let answer = kernel.execute("(grid.height(), _sweep.height())")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("(3, 3)"),
        "{:?}",
        answer.iopub
    );

    let cell =
        format!("%%sweep --bg -o long --in-order\n{body}; epochs = 100000000\nseed = [1, 2]");
    ensure!(kernel.execute(&cell)?.is_ok());
    let jobs = kernel
        .execute("%jobs")?
        .shown("text/plain")
        .context("no jobs")?;
    ensure!(jobs.contains("sweep") && jobs.contains("long"), "{jobs}");
    let card = kernel
        .execute("%attach long")?
        .shown("text/plain")
        .context("no card")?;
    ensure!(card.contains("0 of 2 settings"), "{card}");
    let told = kernel
        .execute("%stop long --now")?
        .shown("text/plain")
        .context("no word")?;
    ensure!(told.contains("is being ended"), "{told}");
    let answer = kernel.execute("%wait long")?;
    ensure!(
        answer.content()["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    let answer = kernel.execute("%%sweep --bg\nepoch = [1, 2]")?;
    ensure!(
        answer.content()["ename"] == "HaloConfigError",
        "{}",
        answer.reply
    );
    Ok(())
}

/// Whatever a cell does with a frame or a run, the next one has it.
#[test]
fn frames_stay_when_they_are_used_up() -> Outcome {
    let mut kernel = Kernel::start()?;
    for code in [
        "let t = df!(\"k\" => [1i64, 2, 2], \"value\" => [0.5, 1.0, 2.0])?;",
        "let u = t.lazy().group_by([col(\"k\")]).agg([col(\"value\").sum()]).collect()?;",
        "t.lazy().filter(col(\"k\").gt(lit(1))).collect()?",
        "let plan = t.lazy();",
        "plan.filter(col(\"k\").gt(lit(1))).collect()?",
        "fn rows(t: DataFrame) -> usize { t.height() }",
        "rows(t)",
        "let v = vec![1, 2];",
        "drop(v);",
    ] {
        let answer = kernel.execute(code)?;
        ensure!(answer.is_ok(), "{code}: {:?}", answer.iopub);
    }
    let answer = kernel.execute("(t.height(), u.height(), plan.collect()?.height())")?;
    let shown = answer.shown("text/plain");
    ensure!(shown.as_deref() == Some("(3, 2, 3)"), "{:?}", answer.iopub);
    // What is not cheap to clone goes, and it is said where.
    let said = kernel.execute("v.len()")?.content()["traceback"].to_string();
    ensure!(
        said.contains("help: cell 9 took `v` by value, so it is gone"),
        "{said}"
    );
    Ok(())
}

/// An error of the cell's own: its name, its line and what would be right, once, and nothing of it elsewhere.
#[test]
fn errors_in_cells_are_one_line_and_a_place() -> Outcome {
    let mut kernel = Kernel::start()?;
    kernel.execute("let t = df!(\"k\" => [1i64], \"value\" => [0.5])?;")?;
    for (code, said) in [
        (
            "let a = 1;\nlet b = t.lazy().select([col(\"valeu\")]).collect()?;",
            "PolarsError: not found: unable to find column \"valeu\"\n\
             line 2 | let b = t.lazy().select([col(\"valeu\")]).collect()?;\n\
             help: did you mean \"value\"? columns: value, k",
        ),
        (
            "std::fs::read_to_string(\"/nosuch\")?",
            "Error: No such file or directory (os error 2)\n\
             line 1 | std::fs::read_to_string(\"/nosuch\")?",
        ),
        (
            "\nRun::open(\"nosuch\")",
            "HaloError: there is no run \"nosuch\"\nline 2 | Run::open(\"nosuch\")\n\
             help: `halobook runs` lists the runs there are",
        ),
        (
            "let v = vec![1, 2, 3];\n\nv[7]",
            "Panic: index out of bounds: the len is 3 but the index is 7\nline 3 | v[7]",
        ),
    ] {
        let answer = kernel.execute(code)?;
        let lines = answer.content()["traceback"]
            .as_array()
            .context("no error")?;
        let lines: Vec<&str> = lines.iter().filter_map(|line| line.as_str()).collect();
        ensure!(lines.join("\n") == said, "{code}: {lines:#?}");
        ensure!(
            answer.stream("stderr").is_empty(),
            "{code}: {:?}",
            answer.iopub
        );
    }
    let answer = kernel.execute("t.height()")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    Ok(())
}
