//! The stage `browser` of `cargo verify --soak`: the quickstart notebook in JupyterLab and in Notebook 7, in a
//! real Chromium.
//!
//! Without a Chromium on the search path or in `HALOBOOK_BROWSER` the stage says that it was skipped.
//! Screenshots of what a reader sees lie beside the executed notebooks.

use crate::counts::Counts;
use crate::flow::Flow;
use crate::places::Places;
use crate::{notebook, verify};

/// The stage's name after `--only`.
pub const STAGE: &str = "browser";

/// Front ends: their names for the script, and for people.
const FRONTS: [(&str, &str); 2] = [("lab", "JupyterLab"), ("notebook", "Notebook 7")];

/// Runs the tests; their checks are counted in `total`.
pub fn main(flow: &mut Flow, places: &Places, total: &mut Counts) {
    for (front, name) in FRONTS {
        let what = format!("a notebook in {name}: run, watched, interrupted");
        let outcome = flow.step(STAGE, &what, 30, |step| {
            let mut python = notebook::python(places);
            python.arg(places.root.join("tests/browser/lab.py"));
            python.arg(places.root.join("notebooks/00-quickstart.ipynb"));
            python.arg(places.logs().join("browser"));
            python.args(["--front", front]);
            verify::counted(step, places, &mut python)
        });
        total.add(outcome);
    }
}
