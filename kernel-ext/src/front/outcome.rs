//! What a cell came to.

use serde_json::{Map, Value};

/// A cell's end: a value to show (or none), or a failure.
pub type Outcome = Result<Option<Shown>, Failure>;

/// A value in one or more MIME types.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    /// MIME type to content.
    pub bundle: Map<String, Value>,
    /// Text for the client's pager instead of the cell's output.
    pub page: bool,
}

impl Shown {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Shown {
        let mut shown = Shown::default();
        shown
            .bundle
            .insert("text/plain".into(), Value::from(text.into()));
        shown
    }

    /// Plain text with an HTML twin.
    pub fn html(text: impl Into<String>, html: impl Into<String>) -> Shown {
        let mut shown = Shown::text(text);
        shown
            .bundle
            .insert("text/html".into(), Value::from(html.into()));
        shown
    }

    /// Plain text with an SVG twin.
    pub fn svg(text: impl Into<String>, svg: impl Into<String>) -> Shown {
        let mut shown = Shown::text(text);
        shown
            .bundle
            .insert("image/svg+xml".into(), Value::from(svg.into()));
        shown
    }
}

/// What is said once on iopub and once in the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error's name, for `allow_error_names` of executors.
    pub ename: String,
    /// One line.
    pub evalue: String,
    /// Under forty lines.
    pub traceback: Vec<String>,
}

impl Failure {
    /// A failure whose traceback is `ename: evalue` followed by `lines`.
    pub fn new(
        ename: impl Into<String>,
        evalue: impl Into<String>,
        lines: impl IntoIterator<Item = String>,
    ) -> Failure {
        let (ename, evalue) = (ename.into(), evalue.into());
        let mut traceback = vec![format!("{ename}: {evalue}")];
        traceback.extend(lines);
        if traceback.len() > 39 {
            // The end holds the command that shows the rest, so the middle gives way.
            let tail = traceback.split_off(traceback.len() - 10);
            traceback.truncate(28);
            traceback.push("…".to_owned());
            traceback.extend(tail);
        }
        Failure {
            ename,
            evalue,
            traceback,
        }
    }

    /// A request that was refused before anything started.
    pub fn config(evalue: impl Into<String>, lines: impl IntoIterator<Item = String>) -> Failure {
        Failure::new("HaloConfigError", evalue, lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_stays_under_forty_lines_and_keeps_its_end() {
        let failure = Failure::new("E", "x", (0..100).map(|i| i.to_string()));
        assert!(failure.traceback.len() < 40);
        assert_eq!(failure.traceback.last().map(String::as_str), Some("99"));
        assert_eq!(failure.traceback[0], "E: x");
    }
}
