//! Cells are input from anywhere: what hostile names do in a notebook.
//!
//! Can catch: text that becomes markup in a table, a card, a figure or an error; a word of a magic that
//! reaches a shell, leaves its folder or becomes Rust. Cannot catch: a front end that runs what it is told
//! is plain text. What a cell shows with `display::html` is its own.

use anyhow::{Context as _, ensure};
use std::time::Duration;
use tests::Outcome;
use tests::folder::Known;
use tests::kernel::{Answer, Kernel};

const LONG: Duration = Duration::from_secs(120);

/// Names that would do something where they are not taken as text.
const HOSTILE: [&str; 6] = [
    "<script>alert(1)</script>",
    "\"onload=alert(1) x=\"",
    "'><img src=x onerror=alert(1)>",
    "$(touch touched)",
    "; touch touched;",
    "`touch touched`|&\n../..",
];

/// No output of the cell holds a hostile name as markup.
fn tame(answer: &Answer, what: &str) -> Outcome {
    for message in &answer.iopub {
        let data = &message["content"]["data"];
        for mime in ["text/html", "image/svg+xml", "text/markdown"] {
            let shown = data[mime].as_str().unwrap_or_default().to_lowercase();
            for bad in ["<script", "<img", "\"onload=", "'><"] {
                ensure!(!shown.contains(bad), "{what}: {bad} in {shown}");
            }
        }
    }
    Ok(())
}

fn run(kernel: &mut Kernel, cell: &str) -> anyhow::Result<Answer> {
    let id = kernel.begin(cell)?;
    let answer = kernel.receive(&id, LONG)?;
    tame(&answer, cell)?;
    ensure!(
        !kernel.home().join("touched").exists(),
        "{cell}: something was executed"
    );
    Ok(answer)
}

fn ok(kernel: &mut Kernel, cell: &str) -> anyhow::Result<Answer> {
    let answer = run(kernel, cell)?;
    ensure!(answer.is_ok(), "{cell}: {}", answer.reply);
    Ok(answer)
}

/// A value as the body of a cell writes it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[test]
fn names_and_values_are_shown_as_text() -> Outcome {
    let mut kernel = Kernel::start()?;
    for hostile in HOSTILE {
        let name = format!("{hostile:?}");
        let frame = ok(
            &mut kernel,
            &format!("df!({name} => [{name}, \"x\"]).unwrap()"),
        )?;
        ensure!(
            frame
                .shown("text/html")
                .is_some_and(|html| html.contains("<table"))
        );
        ok(
            &mut kernel,
            &format!("df!({name} => [1.5]).unwrap().lazy().filter(col({name}).gt(lit(0)))"),
        )?;
        ok(
            &mut kernel,
            &format!("%%params\nword = {}", quoted(hostile)),
        )?;
        let answer = ok(&mut kernel, "word")?;
        let shown = answer.shown("text/plain").context("no value")?;
        ensure!(
            shown == format!("{hostile:?}"),
            "{shown} is not {hostile:?}"
        );
        let cell = format!(
            "%%sql -o asked\nSELECT '{}' AS \"{}\"",
            hostile.replace('\'', "''"),
            hostile.replace('"', "\"\"")
        );
        run(&mut kernel, &cell)?;
        run(&mut kernel, &format!("panic!(\"{{}}\", {name})"))?;
    }
    Ok(())
}

#[test]
fn a_run_with_a_hostile_name_is_drawn_and_listed() -> Outcome {
    let mut kernel = Kernel::start()?;
    for (at, hostile) in HOSTILE.into_iter().enumerate() {
        // Long enough for a card.
        let cell = format!(
            "%%gnn -n 2 -s halo -o r{at}\ndata = \"sbm:nodes=2000,classes=4\"; epochs = 40\nlaunch = \"threads\"; name = {}",
            quoted(hostile)
        );
        let trained = run(&mut kernel, &cell)?;
        if !trained.is_ok() {
            // A name may be refused; then in words.
            ensure!(
                trained.content()["ename"] == "HaloConfigError",
                "{}",
                trained.reply
            );
            continue;
        }
        for show in ["curve", "stack", "balance", "matrix", "plan"] {
            ok(&mut kernel, &format!("%plot r{at} {show}"))?;
        }
        ok(&mut kernel, &format!("%run r{at}"))?;
        ok(&mut kernel, &format!("r{at}.summary()"))?;
    }
    for list in [
        "%runs",
        "%jobs",
        "runs()",
        "%%sql\nSELECT name FROM runs",
        "%diff r0 r3",
    ] {
        run(&mut kernel, list)?;
    }
    Ok(())
}

#[test]
fn words_of_magics_stay_words() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(
        &mut kernel,
        "%%gnn -o r1\ndata = \"karate\"; epochs = 2; launch = \"threads\"",
    )?;
    ok(&mut kernel, "let kept = 1;")?;
    for hostile in HOSTILE.map(|name| name.replace('\n', " ")) {
        let word = quoted(&hostile);
        for cell in [
            format!("%%gnn\ndata = {word}; epochs = 1"),
            format!("%%gnn\nstrategy = {word}; epochs = 1"),
            format!("%%gnn\nepochs = {word}"),
            format!("%%gnn\npartition = {word}; epochs = 1"),
            format!("%%gnn\n{hostile} = 1"),
            format!("%%gnn -o {word}\nepochs = 1"),
            format!("%%gnn {hostile}\nepochs = 1"),
            format!("%%sweep -o {word}\nlr = [0.1]; epochs = 1"),
            format!("%%sweep\ndata = [{word}]; epochs = 1"),
            format!("%%sql -o {word}\nSELECT 1"),
            format!("%%params\n{hostile} = 1"),
            format!("%%check\n{hostile}"),
            format!("%%strategy {word}\nstruct X;"),
            format!("%partition {word} -n 2"),
            format!("%partition karate -n 2 -o {word}"),
            format!("%plan {word} -n 2"),
            format!("%plot {word} curve"),
            format!("%plot r1 {word}"),
            format!("%run {word}"),
            format!("%rm {word}"),
            format!("%stop {word}"),
            format!("%log {word}"),
            format!("%wait {word}"),
            format!("%replay {word}"),
            format!("%diff r1 {word}"),
            format!("%{hostile}"),
        ] {
            let answer = run(&mut kernel, &cell)?;
            // A sweep has a row that says what is wrong; a `%` before no name of a magic is Rust.
            let said = answer.content()["status"] == "error" || cell.starts_with("%%sweep");
            ensure!(said, "{cell}: {}", answer.reply);
        }
        run(&mut kernel, &format!("%log r1 --grep {word}"))?;
    }
    let answer = ok(&mut kernel, "kept + r1.epochs().height() as i32")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("3"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}

#[test]
fn paths_lead_where_they_say_and_names_no_further_than_the_store() -> Outcome {
    let mut kernel = Kernel::start()?;
    ok(
        &mut kernel,
        "%%gnn -o r1\ndata = \"karate\"; epochs = 2; launch = \"threads\"",
    )?;
    // What looks like a way out of the store is no run.
    std::fs::create_dir(kernel.home().join("outside"))?;
    std::fs::copy(
        std::fs::read_dir(kernel.home().join("runs"))?
            .flatten()
            .next()
            .context("no run")?
            .path()
            .join("manifest.json"),
        kernel.home().join("outside/manifest.json"),
    )?;
    for name in ["../outside", "..", ".", "/", "../../..", "../runs"] {
        for magic in ["%run", "%rm", "%log", "%stop", "%pin"] {
            let answer = run(&mut kernel, &format!("{magic} {name}"))?;
            ensure!(!answer.is_ok(), "{magic} {name}: {}", answer.reply);
        }
    }
    ensure!(
        kernel.home().join("outside/manifest.json").exists(),
        "it was removed"
    );
    ok(&mut kernel, "r1.epochs().height()")?;
    // A folder's name is only a name, also for what starts ranks.
    let folder = kernel.home().join("$(touch touched); it's & <b>");
    Known::new(60, 4, 3).write(&folder)?;
    let cell = format!(
        "%%gnn -n 2 -s halo -o mine\ndata = {}; epochs = 2",
        quoted(&folder.display().to_string())
    );
    ok(&mut kernel, &cell)?;
    ok(&mut kernel, "%run mine")?;
    let odd = format!("{}/../$(touch touched); it's & <b>", folder.display());
    ok(
        &mut kernel,
        &format!(
            "%%gnn -n 2 -s halo\ndata = {}; epochs = 2; launch = \"threads\"",
            quoted(&odd)
        ),
    )?;
    Ok(())
}
