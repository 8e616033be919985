//! A user's own analysis in a notebook, and its ways out.
//!
//! Can catch: a chart of a frame that is not shown or not written, a query that does not see a cell's frame, text that
//! waits for its line's end, a value of nothing that is shown, files in another form than their names say. Cannot
//! catch: how a chart looks.

use anyhow::{Context as _, ensure};
use std::time::{Duration, Instant};
use tests::Outcome;
use tests::kernel::Kernel;
use tests::runs::Store;

const TABLE: &str = "let t = df!(\"ranks\" => [1, 2, 4, 4], \"epoch_ms\" => [3.0, 2.0, 1.5, 1.7], \
                     \"strategy\" => [\"halo\", \"halo\", \"halo\", \"halo\"])?;";

#[test]
fn charts_of_frames_are_shown_and_written() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute(TABLE)?.is_ok());
    let answer =
        kernel.execute("%plot t line --x ranks --y epoch_ms --by strategy\nlet behind = 7;")?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let figure = answer.shown("image/svg+xml").context("no figure")?;
    ensure!(
        figure.contains("epoch_ms by ranks and strategy"),
        "{figure}"
    );
    ensure!(kernel.execute("behind")?.shown("text/plain").as_deref() == Some("7"));
    let file = kernel.home().join("late.svg");
    let cell = format!(
        "%plot 't.clone().lazy().filter(col(\"ranks\").gt(1))' box --x ranks --y epoch_ms -o {} --bare --width 8cm",
        file.display()
    );
    let answer = kernel.execute(&cell)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    ensure!(std::fs::read_to_string(&file)?.contains("width=\"8cm\""));
    let answer = kernel.execute("%plot t line --x ranks --y epoc_ms")?;
    let said = answer.content()["traceback"].to_string();
    ensure!(said.contains("did you mean \\\"epoch_ms\\\"?"), "{said}");
    ensure!(
        said.contains("line 1 | %plot t line --x ranks --y epoc_ms"),
        "{said}"
    );
    let answer = kernel.execute("plot(&t).bar(\"ranks\", \"epoch_ms\").err(\"std\")")?;
    let words = answer.shown("text/plain").context("no words")?;
    ensure!(
        words.contains("mean and standard deviation of up to 2 rows"),
        "{words}"
    );
    Ok(())
}

#[test]
fn queries_see_the_frames_of_cells() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(
        kernel
            .execute(&format!(
                "{TABLE} let later = t.clone().lazy().filter(col(\"ranks\").gt(2));"
            ))?
            .is_ok()
    );
    let cell = "%%sql -o n\nSELECT COUNT(*) AS n FROM t JOIN later ON t.ranks = later.ranks";
    let answer = kernel.execute(cell)?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    let answer = kernel.execute("n.column(\"n\")?.get(0)?.to_string()")?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("\"4\""),
        "{:?}",
        answer.iopub
    );
    ensure!(kernel.execute("t.height()")?.shown("text/plain").as_deref() == Some("4"));
    Ok(())
}

#[test]
fn less_than_a_line_is_printed_at_once_and_nothing_is_not_shown() -> Outcome {
    let mut kernel = Kernel::start()?;
    let answer = kernel.execute("for i in 0..3 { print!(\"{i} \"); }")?;
    ensure!(answer.stream("stdout") == "0 1 2 ", "{:?}", answer.iopub);
    let answer = kernel.execute("println!(\"whole\")")?;
    ensure!(
        answer.stream("stdout") == "whole\n" && answer.shown("text/plain").is_none(),
        "{:?}",
        answer.iopub
    );
    let answer = kernel.execute("print!(\"a\"); 7")?;
    ensure!(answer.stream("stdout") == "a" && answer.shown("text/plain").as_deref() == Some("7"));
    let answer = kernel.execute("%cite sancus")?;
    ensure!(
        answer
            .shown("text/plain")
            .is_some_and(|said| said.contains("@article{sancus2022"))
    );
    Ok(())
}

#[test]
fn tables_for_a_paper_are_text_that_is_shown_as_it_is() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute(TABLE)?.is_ok());
    let answer = kernel.execute("t.mean_std(&[\"strategy\"])?.to_latex()")?;
    let shown = answer.shown("text/plain").context("no text")?;
    ensure!(
        shown.contains("\\toprule\nstrategy & n & ranks & epoch\\_ms \\\\"),
        "{shown}"
    );
    let file = kernel.home().join("t.csv");
    let answer = kernel.execute(&format!("t.to_csv({:?})?;", file.display().to_string()))?;
    ensure!(answer.is_ok(), "{:?}", answer.iopub);
    ensure!(std::fs::read_to_string(&file)?.starts_with("ranks,epoch_ms,strategy\n1,3.0,halo\n"));
    // What Polars has beside groups and joins.
    let cell = "let options = RollingOptionsFixedWindow { window_size: 2, min_periods: 1, ..Default::default() };\n\
                let of = t.clone().lazy().filter(col(\"ranks\").is_between(lit(1), lit(2), ClosedInterval::Both));\n\
                let both = concat([of.clone(), of], UnionArgs::default())?.with_columns([col(\"epoch_ms\")\n\
                    .rolling_mean(options).alias(\"m\"), pearson_corr(col(\"ranks\"), col(\"epoch_ms\")).alias(\"r\")]).collect()?;\n\
                let long = both.unpivot(Some([\"m\", \"epoch_ms\"]), [\"ranks\"])?;\n\
                let counts = both.column(\"ranks\")?.as_materialized_series().value_counts(true, false, \"n\".into(), false)?;\n\
                (both.height(), long.height(), counts.height())";
    let answer = kernel.execute(cell)?;
    ensure!(
        answer.shown("text/plain").as_deref() == Some("(4, 8, 2)"),
        "{:?}",
        answer.iopub
    );
    Ok(())
}

#[test]
fn frames_leave_the_command_line_as_files() -> Outcome {
    let store = Store::new()?;
    store.train("--data karate -s halo -n 2 --epochs 3 --launch threads")?;
    let limit = std::time::Duration::from_secs(60);
    let run = |words: &[&str]| store.start_words(words)?.wait(limit);
    let printed = run(&["frames", "latest", "ranks", "--csv"])?;
    ensure!(
        printed.stdout.starts_with("run_id,epoch,rank,") && printed.stdout.lines().count() == 7,
        "{printed}"
    );
    let file = store.home().join("ranks.parquet");
    let path = file.display().to_string();
    ensure!(
        run(&["frames", "latest", "ranks", "-o", &path])?
            .status
            .success()
    );
    ensure!(std::fs::read(&file)?.starts_with(b"PAR1"));
    let refused = run(&["frames", "latest", "ranks", "--parquet"])?;
    ensure!(refused.stderr.contains("name a file: -o FILE"), "{refused}");
    let refused = run(&["frames", "latest", "ranks", "-o", "ranks.xls"])?;
    ensure!(
        refused.stderr.contains("neither .csv nor .parquet"),
        "{refused}"
    );
    let cited = run(&["cite", "hongtu"])?;
    ensure!(
        cited.stdout.contains("10.1145/3626733") && cited.stdout.contains("@software{halobook"),
        "{cited}"
    );
    Ok(())
}

#[test]
fn a_column_that_is_not_there_names_the_near_one() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute(TABLE)?.is_ok());
    for cell in [
        "t.column(\"epoc_ms\")?.f64()?.len()",
        "t.clone().lazy().select([col(\"epoc_ms\")]).collect()?",
        "let u = t.select([\"epoc_ms\"])?;",
    ] {
        let answer = kernel.execute(cell)?;
        let said = answer.content();
        ensure!(said["ename"] == "PolarsError", "{said}");
        let help = said["traceback"].to_string();
        ensure!(help.contains("did you mean \\\"epoch_ms\\\"?"), "{said}");
    }
    let width = kernel.execute("t.join_asof(&t, \"epoch_ms\", &[\"strategy\"])?.width()")?;
    ensure!(
        width.shown("text/plain").as_deref() == Some("4"),
        "{:?}",
        width.iopub
    );
    let sum = kernel.execute("t.column(\"ranks\")?.i32()?.sum()")?;
    ensure!(
        sum.shown("text/plain").as_deref() == Some("Some(11)"),
        "{:?}",
        sum.iopub
    );
    Ok(())
}

#[test]
fn the_first_cell_says_what_it_waits_for() -> Outcome {
    let mut kernel = Kernel::start_alone()?;
    let asked = Instant::now();
    let answer = kernel.execute("1 + 1")?;
    let took = asked.elapsed();
    ensure!(answer.is_ok(), "{}", answer.reply);
    // What takes no second needs no words.
    let said = answer.session.first().map(ToString::to_string);
    match said {
        Some(said) => ensure!(said.contains("is being made ready"), "{said}"),
        None => ensure!(took < Duration::from_secs(2), "{took:?}"),
    }
    // Gone again once the cell's own output may come.
    let last = answer
        .session
        .last()
        .map(|message| &message["content"]["data"]["text/plain"]);
    ensure!(last.is_none_or(|text| text == ""), "{last:?}");
    let answer = kernel.execute("2 + 2")?;
    ensure!(answer.session.is_empty(), "{:?}", answer.session);
    Ok(())
}
