//! The sockets: who reads, who writes, and the order of both.

use std::sync::Arc;

use anyhow::{Context, Result};
use jupyter_protocol::ConnectionInfo;
use jupyter_protocol::messaging::{
    InterruptReply, IoPubWelcome, JupyterMessage, JupyterMessageContent, ShutdownReply, Status,
};
use jupyter_zmq_client::{
    KernelIoPubXPubConnection, RouterSendConnection, SubscriptionEvent,
    create_kernel_control_connection, create_kernel_heartbeat_connection,
    create_kernel_iopub_xpub_connection, create_kernel_shell_connection,
    create_kernel_stdin_connection,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::answer::Answerer;
use super::executor::Executor;
use super::printed::Printed;
use super::read::read;
use super::wire::{Channel, Wire};
use crate::cell::engine::Engine;
use crate::cell::scratch::Scratch;

/// Serves clients until one of them asks for a shutdown.
///
/// # Errors
/// When a socket cannot be bound.
pub async fn serve(connection: &ConnectionInfo, scratch: &Scratch) -> Result<()> {
    let session = uuid::Uuid::new_v4().to_string();
    let mut heartbeat = create_kernel_heartbeat_connection(connection)
        .await
        .context("cannot bind the heartbeat socket")?;
    let (shell_out, mut shell_in) = create_kernel_shell_connection(connection, &session)
        .await
        .context("cannot bind the shell socket")?
        .split();
    let (control_out, mut control_in) = create_kernel_control_connection(connection, &session)
        .await
        .context("cannot bind the control socket")?
        .split();
    let (stdin_out, mut stdin_in) = create_kernel_stdin_connection(connection, &session)
        .await
        .context("cannot bind the stdin socket")?
        .split();
    let iopub = create_kernel_iopub_xpub_connection(connection, &session)
        .await
        .context("cannot bind the iopub socket")?;

    let (iopub_queue, iopub_inbox) = unbounded_channel();
    let (shell_queue, shell_inbox) = unbounded_channel();
    let (control_queue, control_inbox) = unbounded_channel();
    let (stdin_queue, stdin_inbox) = unbounded_channel();
    let wire = Wire {
        iopub: iopub_queue,
        shell: shell_queue,
        control: control_queue,
        stdin: stdin_queue,
        printed: Arc::default(),
    };
    tokio::spawn(async move { while heartbeat.single_heartbeat().await.is_ok() {} });
    let iopub_writer = tokio::spawn(broadcast(iopub, iopub_inbox, Arc::clone(&wire.printed)));
    let shell_writer = tokio::spawn(write(shell_out, shell_inbox));
    let control_writer = tokio::spawn(write(control_out, control_inbox));
    tokio::spawn(write(stdin_out, stdin_inbox));

    let _ = wire
        .iopub
        .send(JupyterMessage::new(Status::starting(), None));
    let engine = Engine::start(scratch);
    let (typed_queue, typed_inbox) = crossbeam_channel::unbounded();
    let executor = Executor::start(wire.clone(), engine.clone(), typed_inbox);
    let answerer = Arc::new(Answerer::new(
        wire.clone(),
        engine.clone(),
        &executor,
        scratch,
    ));

    tokio::spawn(async move {
        loop {
            if let Some(message) = read(&mut stdin_in).await
                && let JupyterMessageContent::InputReply(reply) = message.content
            {
                let _ = typed_queue.send(reply.value);
            }
        }
    });
    let closing = Arc::new(tokio::sync::Notify::new());
    tokio::spawn({
        let (answerer, executor) = (Arc::clone(&answerer), executor.clone());
        let closing = Arc::clone(&closing);
        let wire = wire.clone();
        async move {
            loop {
                let Some(message) = read(&mut shell_in).await else {
                    continue;
                };
                let parent = Arc::new(message);
                match &parent.content {
                    JupyterMessageContent::ExecuteRequest(_) => executor.submit(parent),
                    JupyterMessageContent::ShutdownRequest(request) => {
                        // Old clients ask on this socket.
                        wire.reply(Channel::Shell, &parent, shutdown_reply(request.restart));
                        closing.notify_one();
                    }
                    _ => answerer.answer(Channel::Shell, parent),
                }
            }
        }
    });

    // The control socket is read here, so that a shutdown ends this function.
    loop {
        let message = tokio::select! {
            message = read(&mut control_in) => message,
            () = closing.notified() => break,
        };
        let Some(message) = message else { continue };
        let parent = Arc::new(message);
        match &parent.content {
            JupyterMessageContent::InterruptRequest(_) => {
                wire.busy(&parent);
                executor.interrupt();
                wire.reply(Channel::Control, &parent, InterruptReply::new());
                wire.idle(&parent);
            }
            JupyterMessageContent::ShutdownRequest(request) => {
                wire.busy(&parent);
                wire.reply(Channel::Control, &parent, shutdown_reply(request.restart));
                wire.idle(&parent);
                break;
            }
            _ => answerer.answer(Channel::Control, parent),
        }
    }
    executor.close();
    engine.kill();
    drop((wire, executor, answerer));
    // The queues still hold the replies; give their writers a moment.
    let rest = async {
        let _ = control_writer.await;
        let _ = shell_writer.await;
        let _ = iopub_writer.await;
    };
    let _ = tokio::time::timeout(std::time::Duration::from_millis(150), rest).await;
    Ok(())
}

fn shutdown_reply(restart: bool) -> ShutdownReply {
    ShutdownReply {
        restart,
        ..ShutdownReply::default()
    }
}

async fn write(mut socket: RouterSendConnection, mut inbox: UnboundedReceiver<JupyterMessage>) {
    while let Some(message) = inbox.recv().await {
        if let Err(error) = socket.send(message).await {
            eprintln!("halobook-kernel: a reply was lost: {error}");
        }
    }
}

/// Broadcasts what is queued, and welcomes every subscriber so that it knows it misses nothing.
async fn broadcast(
    mut socket: KernelIoPubXPubConnection,
    mut inbox: UnboundedReceiver<JupyterMessage>,
    printed: Arc<Printed>,
) {
    loop {
        tokio::select! {
            biased;
            message = inbox.recv() => {
                let Some(message) = message else { return };
                if let JupyterMessageContent::StreamContent(stream) = &message.content {
                    let request = message.parent_header.as_ref().map(|header| &*header.msg_id);
                    if !printed.leaves(request, stream.text.len()) {
                        continue;
                    }
                }
                if let Err(error) = socket.send(message).await {
                    eprintln!("halobook-kernel: an output was lost: {error}");
                }
            }
            event = socket.recv_subscription() => {
                if let Ok(SubscriptionEvent::Subscribe(topic)) = event {
                    let welcome = JupyterMessage::new(IoPubWelcome::new(topic), None);
                    let _ = socket.send(welcome).await;
                }
            }
        }
    }
}
