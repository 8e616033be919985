//! A strategy written in a cell: compiled, compared with `single`, then a name like any other.
//!
//! Can catch: errors that do not point at the cell's lines, a strategy that is called exact and is not, a
//! name that runs and sweeps do not find. What the seams compute is tested in `gnn-core`.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::Outcome;
use tests::kernel::Kernel;
use tests::runs::Store;

const LONG: Duration = Duration::from_secs(120);

const STALE: &str = "%%strategy halo_stale --set every=1\n\
    /// Halo rows travel every so many epochs.\n\
    struct HaloStale { every: usize }\n\
    impl Strategy for HaloStale {\n\
        fn exchange(&mut self, x: &mut Exchange) -> Result<()> {\n\
            if x.epoch() % self.every == 0 { x.fetch_fresh() } else { x.reuse_last() }\n\
        }\n\
    }\n";

#[test]
fn a_strategy_of_a_cell_is_compared_and_used_by_name() -> Outcome {
    let mut kernel = Kernel::start()?;
    let id = kernel.begin(STALE)?;
    let answer = kernel.receive(&id, LONG)?;
    let shown = answer.shown("text/plain").context("nothing shown")?;
    ensure!(shown.contains("exact: the losses of single"), "{shown}");
    ensure!(shown.contains("every (no default)"), "{shown}");
    let cell = "%%gnn -n 2 -s halo_stale -o r1\ndata = \"karate\"; epochs = 6; every = 3";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let cell = "r1.stale().column(\"rows_reused\").unwrap().u64().unwrap().sum().unwrap() > 0";
    let answer = kernel.execute(cell)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("true"),
        "{:?}",
        answer.iopub
    );
    let cell = "%%sweep -o both\ndata = \"karate\"; epochs = 3; launch = \"threads\"\n\
                strategy = [\"halo\", \"halo_stale\"]; ranks = 2";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    // `halo_stale` needs a setting that `halo` does not know: a row without a result.
    let shown = answer.shown("text/plain").context("no table")?;
    ensure!(shown.contains("1 without a result"), "{shown}");
    let cell = "%%sweep -o both\ndata = \"karate\"; epochs = 3; launch = \"threads\"\n\
                strategy = \"halo_stale\"; every = [1, 2]; ranks = 2";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    ensure!(kernel.complete("%%gnn -s halo_s")? == ["halo_stale"]);
    Ok(())
}

const DRIFT: &str = "%%strategy drifting --set far=0\n\
    frame! {\n\
        /// How far a layer's rows have moved since they travelled.\n\
        Drift in \"drift\" by layer {\n\
            /// Layer, from 0.\n\
            layer: u32,\n\
            /// Length of the move over that of the rows; none before the first time.\n\
            relative: f64,\n\
            /// Whether it was too far.\n\
            fetches: bool,\n\
        }\n\
    }\n\
    /// Fetches what has moved too far.\n\
    struct Drifting { far: f64 }\n\
    impl Strategy for Drifting {\n\
        fn exchange(&mut self, x: &mut Exchange) -> Result<()> {\n\
            if x.backward() { return x.fetch_fresh(); }\n\
            let relative = x.drift()?;\n\
            let fetches = relative > self.far;\n\
            x.row(Drift { layer: x.layer() as u32, relative, fetches });\n\
            if fetches { x.fetch_fresh() } else { x.reuse_last() }\n\
        }\n\
    }\n";

/// A frame that a cell declares is one everywhere: in what the cell shows, in %%sql over a bound run and over
/// all runs, in Rust, in completion, in %lsmagic and %diff, and on the command line.
#[test]
fn a_strategy_of_a_cell_has_a_frame_of_its_own() -> Outcome {
    let mut kernel = Kernel::start()?;
    let id = kernel.begin(DRIFT)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/plain").context("nothing shown")?;
    ensure!(shown.contains("exact: the losses of single"), "{shown}");
    let columns = "frame drift: epoch, rank, layer, relative, fetches";
    ensure!(shown.contains(columns), "{shown}");
    for (bound, far) in [("r1", "0.05"), ("r2", "0.5")] {
        let cell = format!(
            "%%gnn -n 2 -s drifting -o {bound}\ndata = \"karate\"; epochs = 6; far = {far}"
        );
        let id = kernel.begin(&cell)?;
        let answer = kernel.receive(&id, LONG)?;
        ensure!(answer.is_ok(), "{:?}", answer.iopub);
    }
    let cell = "%%sql\nSELECT COUNT(*) * 1000 + MAX(layer) AS n FROM r1_drift WHERE epoch = 5";
    let answer = kernel.execute(cell)?;
    let shown = answer.shown("text/plain").context("no table")?;
    // Two ranks and two layers.
    ensure!(shown.contains("4001"), "{shown}");
    let cell = "%%sql\nSELECT run_id, COUNT(*) AS n FROM drift GROUP BY run_id";
    let answer = kernel.execute(cell)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let shown = answer.shown("text/plain").context("no table")?;
    ensure!(shown.matches("24").count() >= 2, "{shown}");
    let cell = "r1.frame(\"drift\").height() == 24 && r1.stale().height() > 0";
    let answer = kernel.execute(cell)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("true"),
        "{:?}",
        answer.iopub
    );
    ensure!(kernel.complete("%%sql\nSELECT * FROM dri")? == ["drift"]);
    ensure!(kernel.complete("%%sql\nSELECT * FROM r2_dri")? == ["r2_drift"]);
    for (magic, says) in [
        ("%lsmagic", "How far a layer's rows have moved"),
        ("%diff r1 r2", "drift.relative"),
        ("%%strategy --show-trait", "frame!"),
    ] {
        let answer = kernel.execute(magic)?;
        let shown = answer.shown("text/plain").context("nothing shown")?;
        ensure!(shown.contains(says), "{magic}: {shown}");
    }
    // A frame of a name that every run has is refused before it trains.
    let taken = DRIFT.replace("\"drift\"", "\"ranks\"");
    let id = kernel.begin(&taken)?;
    let answer = kernel.receive(&id, LONG)?;
    let content = answer.content();
    ensure!(content["status"] == "error", "{content}");
    ensure!(
        content
            .to_string()
            .contains("every run has a frame of that name"),
        "{content}"
    );
    Ok(())
}

const BY_DEGREE: &str = "%%strategy by_degree --set fanout=all --set batch=0\n\
    /// Neighbours in proportion to a power of their degree.\n\
    struct ByDegree { power: f64 }\n\
    impl Default for ByDegree { fn default() -> Self { ByDegree { power: 1.0 } } }\n\
    impl Neighbourhood for ByDegree {\n\
        fn draw(&self, of: &Vertex<'_>, random: &mut Random, drawn: &mut Drawn) {\n\
            let degree = of.degree();\n\
            let Some(most) = of.fan_out.filter(|most| *most < degree) else {\n\
                return (0..degree).for_each(|k| drawn.take(k));\n\
            };\n\
            let weight = |k| f64::from(1 + of.source_degree(k)).powf(self.power);\n\
            let total: f64 = (0..degree).map(weight).sum();\n\
            for _ in 0..most {\n\
                let mut at = random.uniform() * total;\n\
                let k = (0..degree).find(|&k| { at -= weight(k); at < 0.0 }).unwrap_or(0);\n\
                drawn.take_for(k, (total / weight(k) / most as f64) as f32);\n\
            }\n\
        }\n\
    }\n";

/// A sampling function is compared with `single` on whole neighbourhoods, and then a name with bytegnn's settings
/// and its own; one that takes what is not there is refused with what it did.
#[test]
fn a_sampling_function_of_a_cell_is_a_strategy() -> Outcome {
    let mut kernel = Kernel::start()?;
    let id = kernel.begin(BY_DEGREE)?;
    let answer = kernel.receive(&id, LONG)?;
    let shown = answer.shown("text/plain").context("nothing shown")?;
    ensure!(shown.contains("exact: the losses of single"), "{shown}");
    ensure!(shown.contains("power"), "{shown}");
    let cell = "%%gnn -n 2 -s by_degree -o r1\ndata = \"sbm:nodes=300,degree=12,classes=3,feat=8\"; epochs = 3; \
                fanout = 3; batch = 50; power = 0.5; dags = 3";
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let cell = "(r1.schedule().height() > 0, r1.hops().height())";
    let answer = kernel.execute(cell)?;
    let shown = answer.shown("text/plain").context("no answer")?;
    ensure!(shown == "(true, 12)", "{shown}");
    let wrong = BY_DEGREE
        .replace("by_degree", "beyond")
        .replace("take(k)", "take(k + 1)");
    let id = kernel.begin(&wrong)?;
    let answer = kernel.receive(&id, LONG)?;
    let told = format!("{:?}", answer.iopub);
    ensure!(told.contains("which has"), "{told}");
    Ok(())
}

#[test]
fn what_rank_0_prints_is_shown_and_what_it_dies_of_is_told_once() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "%%strategy talk --no-verify\n\
        struct Talk { last: usize }\n\
        impl Strategy for Talk {\n\
            fn exchange(&mut self, x: &mut Exchange) -> Result<()> {\n\
                if x.epoch() == 1 { println!(\"it is {}\", x.rank()); }\n\
                if x.epoch() == self.last && x.rank() == 0 { panic!(\"no more\"); }\n\
                x.fetch_fresh()\n\
            }\n\
        }\n";
    let id = kernel.begin(cell)?;
    ensure!(kernel.receive(&id, LONG)?.is_ok());
    let mut run = |last: usize| {
        let cell =
            format!("%%gnn -n 2 -s talk -o r1\ndata = \"karate\"; epochs = 6; last = {last}");
        let id = kernel.begin(&cell)?;
        kernel.receive(&id, LONG)
    };
    let whole = run(9)?;
    ensure!(whole.is_ok(), "{:?}", whole.iopub);
    let printed = whole.stream("stdout");
    ensure!(printed.contains("it is 0\n"), "{printed}");
    ensure!(
        printed.contains("rank 1 printed other lines: %log") && !printed.contains("6 of 6"),
        "{printed}"
    );
    let torn = run(3)?;
    let printed = torn.stream("stdout");
    ensure!(
        printed.contains("it is 0\n") && !printed.contains("panicked"),
        "{printed}"
    );
    let content = torn.content();
    ensure!(content["ename"] == "HaloRankFailed", "{content}");
    let told = content["traceback"].to_string();
    ensure!(
        told.matches("no more").count() == 1 && !told.contains("backtrace"),
        "{told}"
    );
    Ok(())
}

#[test]
fn the_compiler_speaks_of_the_cells_lines() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = STALE.replace("x.reuse_last()", "7");
    let id = kernel.begin(&cell)?;
    let answer = kernel.receive(&id, LONG)?;
    let content = answer.content();
    ensure!(content["ename"] == "HaloCompileError", "{content}");
    let lines = content["traceback"].to_string();
    ensure!(lines.contains("6 | if x.epoch()"), "{lines}");
    for (cell, said) in [
        ("%%strategy mine\nfn f() {}", "no strategy"),
        ("%%strategy halo\nstruct X;", "built-in"),
        ("%%strategy ../up\nstruct X;", "cannot be"),
    ] {
        let answer = kernel.execute(cell)?;
        let content = answer.content();
        let evalue = content["evalue"].as_str().unwrap_or_default();
        ensure!(evalue.contains(said), "{cell}: {content}");
    }
    let traits = kernel.execute("%%strategy --show-trait")?;
    let shown = traits.shown("text/plain").context("nothing shown")?;
    ensure!(shown.contains("fn exchange"), "{shown}");
    Ok(())
}

#[test]
fn ranks_that_disagree_are_named_and_an_aggregate_is_exact() -> Outcome {
    let mut kernel = Kernel::start()?;
    let blocks = "%%strategy mine\n\
        struct Mine { blocks: BlockRows }\n\
        impl Aggregate for Mine {\n\
            fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {\n\
                self.blocks.exact(cx, at, x)\n\
            }\n\
        }\n";
    let id = kernel.begin(blocks)?;
    let answer = kernel.receive(&id, LONG)?;
    let shown = answer.shown("text/plain").context("nothing shown")?;
    ensure!(shown.contains("exact: the losses of single"), "{shown}");
    // Rank 0 never fetches again and rank 1 does: their messages do not match.
    let torn = "%%strategy torn -n 2\n\
        struct Torn { }\n\
        impl Strategy for Torn {\n\
            fn exchange(&mut self, x: &mut Exchange) -> Result<()> {\n\
                if x.rank() == 0 { x.reuse_last() } else { x.fetch_fresh() }\n\
            }\n\
        }\n";
    let started = Instant::now();
    let id = kernel.begin(torn)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(started.elapsed() < LONG);
    let content = answer.content();
    ensure!(content["ename"] == "HaloCheckFailed", "{content}");
    let evalue = content["evalue"].as_str().unwrap_or_default();
    ensure!(
        evalue.contains("torn does not train on 2 ranks"),
        "{evalue}"
    );
    Ok(())
}

#[test]
fn the_command_line_compiles_and_compares_too() -> Outcome {
    let store = Store::new()?;
    let file = store.home().join("stale.rs");
    let (_, code) = STALE.split_once('\n').context("two lines")?;
    std::fs::write(&file, code)?;
    let file = file.display();
    let done = store.halobook(&format!("strategy halo_stale {file} --set every=1"))?;
    ensure!(done.status.success(), "{}", done.stderr);
    ensure!(
        done.stdout.contains("exact: the losses of single"),
        "{}",
        done.stdout
    );
    let done = store.halobook("verify halo_stale --set every=2 --json -n [2]")?;
    ensure!(done.status.code() == Some(1), "{}", done.stderr);
    ensure!(done.json()?["exact"] == json!(false), "{}", done.stdout);
    let done = store.halobook("verify broadcast -n [3]")?;
    ensure!(done.status.success(), "{}", done.stdout);
    let done = store.halobook("train --data karate -s halo_stale -n 2 --launch threads")?;
    ensure!(done.status.code() == Some(2), "{}", done.stdout);
    ensure!(done.stderr.contains("every"), "{}", done.stderr);
    Ok(())
}
