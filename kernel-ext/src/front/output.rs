//! A running cell's way to the notebook.

use jupyter_protocol::media::Media;
use jupyter_protocol::messaging::{
    ClearOutput, DisplayData, StreamContent, Transient, UpdateDisplayData,
};

use super::outcome::Shown;
use super::wire::{Parent, Wire};

/// Publishes what one cell prints and shows. Every message carries the header of the request
/// that started the cell, so nothing of it can land in a later cell.
#[derive(Clone)]
pub struct CellOutput {
    wire: Wire,
    parent: Parent,
    silent: bool,
}

impl CellOutput {
    /// The output of the cell that `parent` started; with `silent` nothing is published.
    pub fn new(wire: Wire, parent: Parent, silent: bool) -> CellOutput {
        CellOutput {
            wire,
            parent,
            silent,
        }
    }

    /// The same cell's output, of which nothing is published.
    pub fn silenced(&self) -> CellOutput {
        CellOutput {
            silent: true,
            ..self.clone()
        }
    }

    /// Appends to standard output.
    pub fn stdout(&self, text: &str) {
        self.stream(StreamContent::stdout(text));
    }

    /// Appends to standard error.
    pub fn stderr(&self, text: &str) {
        self.stream(StreamContent::stderr(text));
    }

    fn stream(&self, content: StreamContent) {
        if self.silent || content.text.is_empty() || !self.wire.printed.admits(&content.text) {
            return;
        }
        self.say_missing();
        self.wire.publish(&self.parent, content);
    }

    /// Says what was printed faster than it was read.
    pub fn say_missing(&self) {
        if let Some(said) = self.wire.printed.missing()
            && !self.silent
        {
            self.wire
                .publish(&self.parent, StreamContent::stderr(&said));
        }
    }

    /// The cell has ended because somebody interrupted it: what it printed before shall not arrive for long.
    pub fn cut(&self) {
        self.wire.printed.cut(&self.parent.header.msg_id);
    }

    /// Shows a value that can be replaced later under `display_id`.
    pub fn display(&self, shown: &Shown, display_id: &str) {
        if self.silent {
            return;
        }
        let mut content = DisplayData::new(media(shown));
        content.transient = Some(Transient {
            display_id: Some(display_id.to_owned()),
        });
        self.wire.publish(&self.parent, content);
    }

    /// Clears what the cell has shown; with `wait`, when the next output comes.
    pub fn clear(&self, wait: bool) {
        if !self.silent {
            self.wire.publish(&self.parent, ClearOutput { wait });
        }
    }

    /// Replaces what was shown under `display_id`, wherever it stands by now.
    pub fn update(&self, shown: &Shown, display_id: &str) {
        if !self.silent {
            self.wire.publish(
                &self.parent,
                UpdateDisplayData::new(media(shown), display_id),
            );
        }
    }
}

/// A bundle as the protocol crate wants it.
pub fn media(shown: &Shown) -> Media {
    serde_json::from_value(serde_json::Value::Object(shown.bundle.clone())).unwrap_or_default()
}
