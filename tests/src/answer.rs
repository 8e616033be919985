//! What one request to a kernel brought back.

use serde_json::Value;
use std::time::Duration;

/// What one request brought: its reply, and the iopub messages it is the parent of, up to `idle`.
#[derive(Debug)]
pub struct Answer {
    /// The reply, whole (`header`, `parent_header`, `content`).
    pub reply: Value,
    /// Messages on iopub, in order, but for those of [`Answer::session`].
    pub iopub: Vec<Value>,
    /// What a kernel's first cell shows while the session is made ready.
    pub session: Vec<Value>,
    /// From sending to the later of reply and `idle`.
    pub took: Duration,
}

impl Answer {
    /// Whether a message shows that a session is made ready.
    pub fn is_of_session(message: &Value) -> bool {
        let id = message["content"]["transient"]["display_id"].as_str();
        id.is_some_and(|id| id.starts_with("halobook-session-"))
    }

    /// The content of the reply.
    pub fn content(&self) -> &Value {
        &self.reply["content"]
    }

    /// Whether the reply says `ok`.
    pub fn is_ok(&self) -> bool {
        self.content()["status"] == "ok"
    }

    /// The contents of iopub messages of one type.
    pub fn of(&self, kind: &str) -> Vec<&Value> {
        let messages = self.iopub.iter();
        messages
            .filter(|message| message["header"]["msg_type"] == kind)
            .map(|message| &message["content"])
            .collect()
    }

    /// The types of the iopub messages, in order.
    pub fn kinds(&self) -> Vec<&str> {
        let messages = self.iopub.iter();
        messages
            .filter_map(|message| message["header"]["msg_type"].as_str())
            .collect()
    }

    /// All text of one stream (`stdout`, `stderr`).
    pub fn stream(&self, name: &str) -> String {
        let streams = self.of("stream");
        let ours = streams.iter().filter(|content| content["name"] == name);
        ours.filter_map(|content| content["text"].as_str())
            .collect()
    }

    /// The first `execute_result`, `display_data` or `update_display_data` of this MIME type.
    pub fn shown(&self, mime: &str) -> Option<String> {
        let kinds = ["execute_result", "display_data", "update_display_data"];
        kinds
            .iter()
            .flat_map(|kind| self.of(kind))
            .find_map(|content| Some(content["data"][mime].as_str()?.to_string()))
    }
}
