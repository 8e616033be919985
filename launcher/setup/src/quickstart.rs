//! `cargo quickstart`: from a clean machine to an executed notebook.

use crate::flow::{Flow, Stop};
use crate::places::Places;
use crate::stamp::Inputs;
use crate::{compile, exec, notebook, python, system, table, toolchain};
use std::path::Path;

/// The steps up to a kernel that Jupyter can start; `cargo verify` needs the same ones.
///
/// # Errors
/// Those of the first step that fails.
pub fn prepare(flow: &mut Flow, places: &Places) -> Result<(), Stop> {
    flow.step(
        "system",
        "finds compilers of C and C++, an MPI with headers, libclang and Python; installs what is missing",
        15,
        system::provide,
    )?;
    flow.step(
        "toolchain",
        "finds the sources of Rust's standard library, which notebooks infer types from",
        10,
        toolchain::provide,
    )?;
    flow.step(
        "build",
        "compiles the workspace once, with optimisation (the first time takes a while)",
        75,
        |step| compile::workspace(step, places),
    )?;
    flow.step(
        "prelude",
        "prebuilds the library that notebook cells use, so that no cell waits for it",
        20,
        |step| compile::prelude(step, places),
    )?;
    flow.step(
        "jupyter",
        "makes a project-local Jupyter environment in .halobook/venv",
        15,
        |step| python::environment(step, places),
    )?;
    flow.step(
        "nvrtc",
        "installs the compiler of the CUDA kernels (90 MB) into that environment",
        10,
        |step| python::nvrtc(step, places),
    )?;
    flow.step(
        "kernelspec",
        "installs the kernel `halobook` into that environment",
        2,
        |step| compile::kernelspec(step, places),
    )
}

/// All of quickstart.
///
/// # Errors
/// Those of the first step that fails.
pub fn main() -> Result<(), Stop> {
    let places = Places::find()?;
    let mut flow = Flow::new(&places);
    let outcome = prepare(&mut flow, &places).and_then(|()| show(&mut flow, &places));
    println!("\n{}", flow.table());
    let epochs = outcome?;
    let out = places.local().join("out");
    if !epochs.is_empty() {
        println!("The last run's epochs:\n{epochs}\n");
    }
    let root = exec::output("id", &["-u"]).is_some_and(|uid| uid.trim() == "0");
    let allow = if root { " --allow-root" } else { "" };
    println!(
        "notebook  {}",
        places.show(&out.join("00-quickstart.ipynb"))
    );
    println!("HTML      {}", places.show(&out.join("00-quickstart.html")));
    println!("plots     {}", places.show(&out.join("plots")));
    println!("\nOpen it:  .halobook/venv/bin/jupyter lab{allow} .halobook/out/00-quickstart.ipynb");
    Ok(())
}

/// Executes the first notebook unless nothing has changed; returns the epoch table.
fn show(flow: &mut Flow, places: &Places) -> Result<String, Stop> {
    let source = places.root.join("notebooks/00-quickstart.ipynb");
    let out = places.local().join("out");
    let stamp = places.local().join("stamps/notebook");
    let kept = out.join("epochs.txt");
    let inputs = Inputs::default()
        .content(&source)
        .content(&places.root.join("launcher/setup/src/notebook.py"))
        .identity(&places.binary("halobook"))
        .identity(&places.binary("halobook-kernel"));
    flow.step(
        "notebook",
        "executes notebooks/00-quickstart.ipynb and writes its HTML and plots",
        15,
        |step| {
            let there = |name: &str| out.join(name).is_file();
            if inputs.unchanged(&stamp)
                && there("00-quickstart.html")
                && there("00-quickstart.ipynb")
            {
                step.unchanged();
                return Ok(());
            }
            notebook::execute(step, places, &source, &out, None)?;
            write_epochs(places, &kept)?;
            inputs.keep(&stamp);
            Ok(())
        },
    )?;
    Ok(std::fs::read_to_string(&kept).unwrap_or_default())
}

fn write_epochs(places: &Places, kept: &Path) -> Result<(), Stop> {
    let frames = ["frames", "latest", "epochs", "--json"];
    let lines = exec::output(places.binary("halobook"), &frames).ok_or_else(|| {
        Stop::failed(
            "`halobook frames latest epochs --json` failed although the notebook ran".into(),
            "call it by hand; the runs are listed by `halobook runs`".into(),
        )
    })?;
    std::fs::write(kept, table::epochs(&lines, 8)).map_err(|e| Stop::io("the epoch table", &e))
}
