//! Messages on their way in: verified, and read leniently.
//!
//! Clients leave out what the protocol calls optional and send `null` where a number is meant.
//! A request that cannot be read at all is kept as an unknown one, so that it is answered.

use anyhow::{Context, Result, bail};
use jupyter_protocol::messaging::{Header, JupyterMessage, JupyterMessageContent, UnknownMessage};
use jupyter_zmq_client::{RawMessage, RouterRecvConnection};
use serde_json::{Value, json};
use zeromq::SocketRecv;

/// The next message, or `None` for one that is forged or makes no sense.
pub async fn read(connection: &mut RouterRecvConnection) -> Option<JupyterMessage> {
    let message = match connection.socket.recv().await {
        Ok(frames) => match RawMessage::from_multipart(frames, &connection.mac) {
            Ok(raw) => message_of(raw),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    };
    match message {
        Ok(message) => Some(message),
        Err(error) => {
            eprintln!("halobook-kernel: a message was refused: {error:#}");
            // A socket that fails at once must not turn this into a busy loop.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            None
        }
    }
}

fn message_of(raw: RawMessage) -> Result<JupyterMessage> {
    let [header, parent, metadata, content, ..] = raw.jparts.as_slice() else {
        bail!("it has too few parts");
    };
    let header: Header = serde_json::from_slice(header).context("its header makes no sense")?;
    let content: Value = serde_json::from_slice(content).context("its content is no JSON")?;
    Ok(JupyterMessage {
        parent_header: serde_json::from_slice(parent).ok(),
        metadata: serde_json::from_slice(metadata).unwrap_or_else(|_| json!({})),
        content: content_of(&header.msg_type, content),
        header,
        buffers: Vec::new(),
        zmq_identities: raw.zmq_identities,
        channel: None,
    })
}

/// The values that a request has when it does not name them.
fn defaults(msg_type: &str) -> Value {
    match msg_type {
        "history_request" => json!({
            "hist_access_type": "tail", "output": false, "raw": true, "n": 10, "session": 0,
            "start": 0, "stop": 0, "pattern": "*", "unique": false,
        }),
        "execute_request" => json!({
            "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": false, "stop_on_error": true,
        }),
        "inspect_request" => json!({ "detail_level": 0 }),
        "shutdown_request" => json!({ "restart": false }),
        _ => json!({}),
    }
}

fn content_of(msg_type: &str, mut content: Value) -> JupyterMessageContent {
    if let (Some(given), Value::Object(defaults)) = (content.as_object_mut(), defaults(msg_type)) {
        for (key, value) in defaults {
            let entry = given.entry(key).or_insert(Value::Null);
            if entry.is_null() {
                *entry = value;
            }
        }
    }
    JupyterMessageContent::from_type_and_content(msg_type, content.clone()).unwrap_or_else(|_| {
        JupyterMessageContent::UnknownMessage(UnknownMessage {
            msg_type: msg_type.to_owned(),
            content,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jupyter_protocol::messaging::HistoryRequest;

    #[test]
    fn what_is_left_out_has_its_default() {
        let search = json!({ "hist_access_type": "search", "pattern": "a*", "stop": null });
        let JupyterMessageContent::HistoryRequest(HistoryRequest::Search { unique, .. }) =
            content_of("history_request", search)
        else {
            panic!("a search")
        };
        assert!(!unique);
        let run = content_of("execute_request", json!({ "code": "1" }));
        assert!(matches!(run, JupyterMessageContent::ExecuteRequest(run) if run.store_history));
    }

    #[test]
    fn what_makes_no_sense_is_unknown_not_lost() {
        let content = content_of("complete_request", json!({ "code": 5 }));
        assert!(matches!(content, JupyterMessageContent::UnknownMessage(_)));
    }
}
