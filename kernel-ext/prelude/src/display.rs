//! Rich output from any cell: HTML, SVG, Markdown.
//!
//! ```
//! halobook::display::html("<b>bold</b>");
//! halobook::display::markdown("*two* epochs");
//! ```
//!
//! Both this kernel and a stock Rust kernel read marked blocks on standard output; each value
//! prints one block a MIME type.

use std::io::Write;

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

/// Shows `html` as it is: escape what you did not write yourself.
pub fn html(html: &str) {
    Bundle::default().with("text/html", html).show();
}

/// Shows a whole SVG document.
pub fn svg(svg: &str) {
    Bundle::default().with("image/svg+xml", svg).show();
}

/// Shows Markdown.
pub fn markdown(markdown: &str) {
    Bundle::text(markdown)
        .with("text/markdown", markdown)
        .show();
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
