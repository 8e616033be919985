//! Rich output from any cell: HTML, SVG, Markdown, replaced later if need be.
//!
//! ```
//! halobook::display::html("<b>bold</b>");
//! halobook::display::markdown("*two* epochs");
//! ```
//!
//! A cell's last value is shown through marked blocks on standard output, which a stock Rust kernel reads
//! too. What is shown on the way goes to this kernel as marked lines, so that it stands where it was shown
//! and at once; elsewhere as blocks.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::interrupt;

/// How a line begins that is for the kernel.
pub const LINE: &str = "\u{1}halobook ";

/// One value in several forms, for whichever the reader's front end can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    parts: Vec<(&'static str, String)>,
}

impl Bundle {
    /// A bundle that has at least words.
    pub fn text(text: impl Into<String>) -> Bundle {
        Bundle::default().with("text/plain", text)
    }

    /// Adds the form `mime`.
    pub fn with(mut self, mime: &'static str, content: impl Into<String>) -> Bundle {
        self.parts.push((mime, content.into()));
        self
    }

    /// The form `mime`, if the bundle has it.
    pub fn get(&self, mime: &str) -> Option<&str> {
        let found = self.parts.iter().find(|(known, _)| *known == mime);
        found.map(|(_, content)| content.as_str())
    }

    /// The bundle as marked blocks.
    pub fn blocks(&self) -> String {
        let mut out = String::new();
        for (mime, content) in &self.parts {
            // The marker inside content would end the block early; a zero-width joiner defuses it.
            let content = content.replace("EVCXR_END_CONTENT", "EVCXR\u{200d}_END_CONTENT");
            let content = content.trim_end_matches('\n');
            out += &format!("EVCXR_BEGIN_CONTENT {mime}\n{content}\nEVCXR_END_CONTENT\n");
        }
        out
    }

    /// Shows the bundle in the cell that runs now.
    pub fn show(&self) {
        // One write, so that another thread's line cannot land inside a block. A closed standard
        // output has nobody left to tell.
        let mut out = std::io::stdout().lock();
        let _ = out
            .write_all(self.blocks().as_bytes())
            .and_then(|()| out.flush());
    }
}

/// Tells the kernel, on a line of its own; whether it is one that understands.
pub(crate) fn tell(what: &Value) -> bool {
    if std::env::var_os("HALOBOOK_SCRATCH").is_none() {
        return false;
    }
    let mut out = std::io::stdout().lock();
    // As for blocks: nobody is left to tell of an error.
    let _ = writeln!(out, "{LINE}{what}").and_then(|()| out.flush());
    true
}

/// Prints text as it is, which the notebook shows at once, a line or less; cells' `print!` becomes this.
pub fn print(text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    if !tell(&json!({"print": text})) {
        print!("{text}");
    }
}

/// [`print!`], at once: see [`print`](crate::display::print).
#[macro_export]
macro_rules! print_now {
    ($($argument:tt)*) => {
        $crate::display::print(::std::format_args!($($argument)*))
    };
}

fn data(bundle: &Bundle) -> Map<String, Value> {
    let parts = bundle.parts.iter();
    parts
        .map(|(mime, content)| ((*mime).to_owned(), Value::from(content.as_str())))
        .collect()
}

/// Shows a bundle where the cell is now.
pub fn bundle(bundle: &Bundle) {
    interrupt::check();
    if !tell(&json!({"show": data(bundle)})) {
        bundle.show();
    }
}

/// Shows a bundle that [`update`] can replace under `id`.
pub fn bundle_as(id: &str, bundle: &Bundle) {
    interrupt::check();
    if !tell(&json!({"show": data(bundle), "id": id})) {
        bundle.show();
    }
}

/// Replaces what was shown under `id`, wherever it stands. In another kernel it is shown once more.
pub fn update(id: &str, bundle: &Bundle) {
    interrupt::check();
    if !tell(&json!({"update": data(bundle), "id": id})) {
        bundle.show();
    }
}

/// Clears the cell's output so far; with `wait`, when the next output comes. In another kernel nothing
/// happens.
pub fn clear_output(wait: bool) {
    interrupt::check();
    tell(&json!({"clear": wait}));
}

/// Shows `html` as it is: escape what you did not write yourself.
pub fn html(html: &str) {
    bundle(&Bundle::default().with("text/html", html));
}

/// Shows a whole SVG document.
pub fn svg(svg: &str) {
    bundle(&Bundle::default().with("image/svg+xml", svg));
}

/// Shows Markdown.
pub fn markdown(markdown: &str) {
    bundle(&Bundle::text(markdown).with("text/markdown", markdown));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_end_its_own_block() {
        let blocks = Bundle::text("a\nEVCXR_END_CONTENT\nb\n").blocks();
        assert_eq!(blocks.matches("\nEVCXR_END_CONTENT\n").count(), 1);
        assert!(blocks.starts_with("EVCXR_BEGIN_CONTENT text/plain\na\n"));
    }
}
