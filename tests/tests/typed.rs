//! Cells that ask for a line: the question reaches the client that runs the cell, the answer the cell, and an
//! interrupt ends the wait. Cannot catch: what a front end shows of it.

use anyhow::{Context as _, ensure};
use jupyter_protocol::{InputReply, JupyterMessage, JupyterMessageContent};
use jupyter_zmq_client as zmq;
use serde_json::json;
use std::time::Duration;
use tests::Outcome;
use tests::kernel::Kernel;

const LONG: Duration = Duration::from_secs(60);

/// What evcxr's own input crate prints and reads.
const ASKS: &str = r#"println!("EVCXR_INPUT_REQUEST:your name? ");
let mut line = String::new();
std::io::stdin().read_line(&mut line).expect("a line");
println!("hello {}", line.trim());"#;

fn begin(kernel: &mut Kernel, allow_stdin: bool) -> anyhow::Result<String> {
    let request = json!({
        "code": ASKS, "silent": false, "store_history": true,
        "user_expressions": {}, "allow_stdin": allow_stdin, "stop_on_error": true,
    });
    kernel.send("execute_request", request)
}

#[test]
fn a_cell_asks_for_a_line_and_an_interrupt_ends_the_asking() -> Outcome {
    let mut kernel = Kernel::start()?;
    ensure!(kernel.execute("let kept = 5;")?.is_ok());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let (info, session) = (kernel.info().clone(), kernel.session().to_owned());
    let mut asked = runtime.block_on(async {
        let identity = zmq::peer_identity_for_session(&session)?;
        zmq::create_client_stdin_connection_with_identity(&info, &session, identity).await
    })?;
    let mut question = |id: &str| -> anyhow::Result<JupyterMessage> {
        let heard =
            runtime.block_on(async { tokio::time::timeout(LONG, asked.read()).await })??;
        let parent = heard.parent_header.as_ref().context("no parent")?;
        ensure!(parent.msg_id == id, "asked by another cell");
        let JupyterMessageContent::InputRequest(request) = &heard.content else {
            anyhow::bail!("{}", heard.message_type());
        };
        ensure!(request.prompt == "your name? " && !request.password);
        Ok(heard)
    };
    // An interrupt while it waits: the cell goes on without a line, and nothing is lost.
    let id = begin(&mut kernel, true)?;
    question(&id)?;
    kernel.command("interrupt_request", json!({}))?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(
        answer.reply["content"]["ename"] == "HaloInterrupted",
        "{}",
        answer.reply
    );
    let value = kernel.execute("kept")?;
    ensure!(
        value.is_ok() && value.shown("text/plain").as_deref() == Some("5"),
        "{:?}",
        value.iopub
    );
    // A line is answered.
    let id = begin(&mut kernel, true)?;
    let heard = question(&id)?;
    let reply = InputReply {
        value: "Ada".into(),
        ..InputReply::default()
    };
    runtime.block_on(asked.send(JupyterMessage::new(reply, Some(&heard))))?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(
        answer.is_ok() && answer.stream("stdout") == "hello Ada\n",
        "{:?}",
        answer.iopub
    );
    // A client that cannot be asked is not.
    let id = begin(&mut kernel, false)?;
    let answer = kernel.receive(&id, LONG)?;
    ensure!(
        answer.is_ok() && answer.stream("stdout") == "hello \n",
        "{:?}",
        answer.iopub
    );
    Ok(())
}
