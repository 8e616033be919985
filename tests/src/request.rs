//! What a client sends.

use jupyter_protocol::{JupyterMessage, JupyterMessageContent};
use serde_json::{Value, json};

/// An `execute_request` of a cell that is kept in the history.
pub(crate) fn execute(code: &str) -> Value {
    json!({
        "code": code, "silent": false, "store_history": true,
        "user_expressions": {}, "allow_stdin": false, "stop_on_error": true,
    })
}

/// A message of a kind.
///
/// # Errors
/// When the content is not of that kind.
pub(crate) fn message(kind: &str, content: Value) -> anyhow::Result<JupyterMessage> {
    let content = JupyterMessageContent::from_type_and_content(kind, content)?;
    Ok(JupyterMessage::new(content, None))
}
