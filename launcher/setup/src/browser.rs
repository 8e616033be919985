//! The stage `browser` of `cargo verify --soak`: the quickstart notebook in JupyterLab, in a real Chromium.
//!
//! Without a Chromium on the search path or in `HALOBOOK_BROWSER` the stage says that it was skipped.
//! Screenshots of what a reader sees lie beside the executed notebooks.

use crate::counts::Counts;
use crate::flow::Flow;
use crate::places::Places;
use crate::{notebook, verify};

/// The stage's name after `--only`.
pub const STAGE: &str = "browser";

/// Runs the test; its checks are counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, total: &mut Counts) {
    let what = "a notebook in JupyterLab: run, watched, interrupted";
    let outcome = flow.step(STAGE, what, 30, |step| {
        let mut python = notebook::python(places);
        python.arg(places.root.join("tests/browser/lab.py"));
        python.arg(places.root.join("notebooks/00-quickstart.ipynb"));
        python.arg(places.logs().join("browser"));
        verify::counted(step, places, &mut python)
    });
    total.add(outcome);
}
