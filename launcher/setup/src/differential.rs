//! The stage `differential`: plain Rust cells in our kernel, against what stock evcxr_jupyter made of them.
//!
//! Stock's answers are recorded in `tests/conformance/stock.json`, because building it takes many minutes.
//! With `--soak`, or where `HALOBOOK_STOCK` names the program, stock itself runs too and must still answer so.

use crate::counts::Counts;
use crate::flow::{Flow, Step, Stop};
use crate::places::Places;
use crate::{compile, notebook, verify};
use std::path::PathBuf;

/// The stage's name after `--only`.
pub const STAGE: &str = "differential";

/// The version whose answers are recorded.
const STOCK: &str = "0.22.0";

/// Runs the comparison; its cells are counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, soak: bool, total: &mut Counts) {
    let named = std::env::var_os("HALOBOOK_STOCK").map(PathBuf::from);
    let stock = match (named, soak) {
        (None, true) => {
            let what = format!("builds evcxr_jupyter {STOCK}");
            match flow.step("stock", &what, 60, |step| build(step, places)) {
                Ok(program) => Some(program),
                Err(stop) => return total.refuse(stop),
            }
        }
        (named, _) => named,
    };
    let what = "plain Rust cells as in stock evcxr_jupyter";
    let outcome = flow.step(STAGE, what, 30, |step| {
        let mut python = notebook::python(places);
        python.arg(places.root.join("tests/conformance/differential.py"));
        if let Some(stock) = &stock {
            python.arg("--stock").arg(stock);
        }
        verify::counted(step, places, &mut python)
    });
    total.add(outcome);
}

/// Has cargo install the stock kernel into the target folder, once.
fn build(step: &mut Step, places: &Places) -> Result<PathBuf, Stop> {
    let root = places.target.join("stock");
    let program = root.join("bin/evcxr_jupyter");
    if program.is_file() {
        step.unchanged();
        return Ok(program);
    }
    let mut install = compile::cargo(places);
    install.args(["install", "evcxr_jupyter", "--version", STOCK, "--locked"]);
    install.args(["--no-track", "--root"]).arg(&root);
    step.run(&mut install)?;
    Ok(program)
}
