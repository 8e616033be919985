//! The library of a reproduction in a notebook: runs by name, a frame of them that `%%check` knows, and
//! claims that end their cell.
//!
//! Can catch: a name that magics do not get, a failed claim that is only a panic, a finished run that is
//! run again. Cannot catch: what figures look like.

use anyhow::{Context as _, ensure};
use tests::Outcome;
use tests::kernel::Kernel;

#[test]
fn a_figure_is_runs_by_name_and_claims_about_them() -> Outcome {
    let mut kernel = Kernel::start()?;
    let cell = "let setting = Setting::new(\"data = karate; epochs = 4; launch = threads; ranks = 2\");\n\
                let fig = setting.runs(&[(\"CAGNET\", \"strategy = broadcast\"), (\"halo\", \"strategy = halo\")])\n\
                .measure(\"bytes\", |r| r.row_bytes());\n\
                bars(&fig, \"method\", &[\"bytes\"]).title(\"Figure 9\")";
    let answer = kernel.execute(cell)?;
    let svg = answer.shown("image/svg+xml").context("no figure")?;
    ensure!(svg.contains("Figure 9") && svg.contains("karate"), "{svg}");
    let answer = kernel.execute("bind(\"fig9\", &fig)")?;
    ensure!(answer.shown("text/html").is_some(), "{:?}", answer.iopub);
    let claims = "\"halo sends less\": fig9['halo'].bytes < fig9['CAGNET'].bytes\n\
                  shown \"by half\" (by luck): fig9['halo'].bytes < 0.01 * fig9['CAGNET'].bytes";
    let answer = kernel.execute(&format!("%%check --figure 9\n{claims}"))?;
    let shown = answer.shown("text/plain").context("no verdicts")?;
    ensure!(
        shown.contains("1 hold, 1 shown") && shown.contains("NOT so here; by luck"),
        "{shown}"
    );
    let failing = "claims(\"Figure 9\").claim(\"nothing travels\", fig.of(\"halo\", \"bytes\"), \"==\", 0.0).check()";
    let answer = kernel.execute(failing)?;
    let said = answer.content();
    ensure!(said["ename"] == "HaloCheckFailed", "{said}");
    ensure!(
        said["evalue"] == "1 of 1 claims of Figure 9 do not hold",
        "{said}"
    );
    ensure!(
        said.to_string().contains("FAILS  nothing travels: "),
        "{said}"
    );
    // The same setting is the same run, a fresh one another.
    let same = "setting.run(\"halo\", \"strategy = halo\") == *fig.runs().of(\"halo\")";
    let fresh = "setting.fresh().run(\"halo\", \"strategy = halo\") == *fig.runs().of(\"halo\")";
    for (code, value) in [(same, "true"), (fresh, "false")] {
        let answer = kernel.execute(code)?;
        ensure!(
            answer.shown("text/plain").as_deref() == Some(value),
            "{code}: {:?}",
            answer.iopub
        );
    }
    Ok(())
}
