//! Requests that need no cell: answered at once, also while one runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jupyter_protocol::messaging::{
    CommClose, CommInfoReply, CompleteReply, CompleteRequest, HelpLink, InspectReply,
    InspectRequest, IsCompleteReply, JupyterMessageContent, KernelInfoReply, LanguageInfo,
    ReplyStatus,
};
use serde_json::{Map, Value, json};

use super::executor::Executor;
use super::history::History;
use super::output::media;
use super::wire::{Channel, Parent, Wire};
use crate::cell::engine::Engine;
use crate::cell::scratch::Scratch;
use crate::depth::is_too_deep;
use crate::live::bound::Bound;
use crate::live::catalogue;
use crate::magic;
use crate::text;

/// How long a completion may wait for the evaluation thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers requests, each on a thread of its own.
pub struct Answerer {
    wire: Wire,
    engine: Engine,
    history: Arc<History>,
    bound: Arc<Bound>,
    rust_version: String,
}

impl Answerer {
    /// An answerer for one kernel.
    pub fn new(wire: Wire, engine: Engine, executor: &Executor, scratch: &Scratch) -> Answerer {
        let rust_version = scratch
            .facts
            .as_ref()
            .map_or_else(|| "1".to_owned(), |facts| facts.rust_version.clone());
        Answerer {
            wire,
            engine,
            history: executor.history(),
            bound: executor.bound(),
            rust_version,
        }
    }

    /// Answers between busy and idle, without holding up the socket.
    pub fn answer(self: &Arc<Self>, channel: Channel, parent: Parent) {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            this.wire.busy(&parent);
            if let Some(content) = this.content(&parent) {
                this.wire.reply(channel, &parent, content);
            }
            this.wire.idle(&parent);
        });
    }

    fn content(&self, parent: &Parent) -> Option<JupyterMessageContent> {
        use JupyterMessageContent as Content;
        Some(match &parent.content {
            Content::KernelInfoRequest(_) => Content::KernelInfoReply(Box::new(self.kernel_info())),
            // Whether it can be read is for the cell to say.
            Content::IsCompleteRequest(request) if is_too_deep(&request.code) => {
                IsCompleteReply::complete().into()
            }
            Content::CompleteRequest(request) if is_too_deep(&request.code) => {
                no_matches(request.cursor_pos).into()
            }
            Content::InspectRequest(request) if is_too_deep(&request.code) => InspectReply {
                found: false,
                data: Default::default(),
                metadata: Map::new(),
                status: ReplyStatus::Ok,
                error: None,
            }
            .into(),
            Content::IsCompleteRequest(request) => is_complete(&request.code).into(),
            Content::CompleteRequest(request) => self.complete(request).into(),
            Content::InspectRequest(request) => self.inspect(request).into(),
            Content::HistoryRequest(request) => self.history.answer(request).into(),
            Content::CommInfoRequest(_) => CommInfoReply {
                status: ReplyStatus::Ok,
                comms: HashMap::new(),
                error: None,
            }
            .into(),
            // Nothing here speaks over comms: whoever opens one is told so.
            Content::CommOpen(open) => {
                let close = CommClose {
                    comm_id: open.comm_id.clone(),
                    data: serde_json::Map::new(),
                };
                self.wire.publish(parent, close);
                return None;
            }
            Content::CommMsg(_) | Content::CommClose(_) => return None,
            Content::UnknownMessage(unknown) if unknown.msg_type.ends_with("_request") => unknown
                .reply(json!({
                    "status": "error",
                    "ename": "HaloUnknownRequest",
                    "evalue": format!("this kernel does not answer {}", unknown.msg_type),
                    "traceback": [],
                })),
            _ => return None,
        })
    }

    fn kernel_info(&self) -> KernelInfoReply {
        KernelInfoReply {
            status: ReplyStatus::Ok,
            protocol_version: "5.3".to_owned(),
            implementation: "halobook".to_owned(),
            implementation_version: env!("CARGO_PKG_VERSION").to_owned(),
            language_info: LanguageInfo {
                name: "rust".to_owned(),
                version: self.rust_version.clone(),
                mimetype: Some("text/rust".to_owned()),
                file_extension: Some(".rs".to_owned()),
                pygments_lexer: Some("rust".to_owned()),
                codemirror_mode: Some(jupyter_protocol::messaging::CodeMirrorMode::Simple(
                    "rust".to_owned(),
                )),
                nbconvert_exporter: Some("rust".to_owned()),
            },
            banner: format!(
                "Halobook {}: distributed GNN training in Rust cells. %lsmagic lists what is \
                 beyond Rust.",
                env!("CARGO_PKG_VERSION")
            ),
            help_links: Vec::<HelpLink>::new(),
            debugger: false,
            error: None,
        }
    }

    fn complete(&self, request: &CompleteRequest) -> CompleteReply {
        let code = &request.code;
        let position = text::byte_offset(code, request.cursor_pos);
        let (items, range) = match magic::complete::at(code, position, &|value| {
            catalogue::names(value, &self.bound)
        }) {
            Some(found) => (found.items, found.range),
            None => match self
                .engine
                .complete(&magic::rust_only(code), position, PATIENCE)
            {
                Some(found) => (
                    found
                        .items
                        .into_iter()
                        .map(|(text, kind)| (text, kind.to_owned()))
                        .collect(),
                    found.range,
                ),
                None => (Vec::new(), position..position),
            },
        };
        let start = text::char_offset(code, range.start);
        let end = text::char_offset(code, range.end);
        let kinds: Vec<Value> = items
            .iter()
            .map(|(text, kind)| json!({ "start": start, "end": end, "text": text, "type": kind }))
            .collect();
        let mut metadata = Map::new();
        metadata.insert("_jupyter_types_experimental".to_owned(), Value::from(kinds));
        CompleteReply {
            matches: items.into_iter().map(|(text, _)| text).collect(),
            cursor_start: start,
            cursor_end: end,
            metadata,
            status: ReplyStatus::Ok,
            error: None,
        }
    }

    fn inspect(&self, request: &InspectRequest) -> InspectReply {
        let position = text::byte_offset(&request.code, request.cursor_pos);
        let shown = magic::help::at(&request.code, position).or_else(|| {
            let word = text::word_at(&request.code, position)?;
            self.engine
                .describe(word, PATIENCE)
                .map(crate::front::Shown::text)
        });
        InspectReply {
            found: shown.is_some(),
            data: shown.map(|shown| media(&shown)).unwrap_or_default(),
            metadata: Map::new(),
            status: ReplyStatus::Ok,
            error: None,
        }
    }
}

fn no_matches(position: usize) -> CompleteReply {
    CompleteReply {
        matches: Vec::new(),
        cursor_start: position,
        cursor_end: position,
        metadata: Map::new(),
        status: ReplyStatus::Ok,
        error: None,
    }
}

fn is_complete(code: &str) -> IsCompleteReply {
    match magic::completeness(code) {
        text::Completeness::Complete => IsCompleteReply::complete(),
        text::Completeness::Incomplete => IsCompleteReply::incomplete("    ".to_owned()),
        text::Completeness::Invalid => IsCompleteReply::invalid(),
    }
}
