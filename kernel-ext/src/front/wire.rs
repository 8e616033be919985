//! Messages on their way out: one queue per socket, so that order is the order of sending.

use std::sync::Arc;

use jupyter_protocol::messaging::{JupyterMessage, JupyterMessageContent, Status};
use tokio::sync::mpsc::UnboundedSender;

use super::printed::Printed;

/// The request that caused what is being sent; its header becomes the parent header.
pub type Parent = Arc<JupyterMessage>;

/// Which socket a request came from, and its reply goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Cells, completion, inspection.
    Shell,
    /// Interrupt and shutdown.
    Control,
}

/// The sending ends of all sockets. Cheap to clone; sending never blocks.
#[derive(Clone)]
pub struct Wire {
    /// Broadcast to every client.
    pub iopub: UnboundedSender<JupyterMessage>,
    /// Replies on the shell socket.
    pub shell: UnboundedSender<JupyterMessage>,
    /// Replies on the control socket.
    pub control: UnboundedSender<JupyterMessage>,
    /// Input requests.
    pub stdin: UnboundedSender<JupyterMessage>,
    /// What of `iopub` is printed text.
    pub printed: Arc<Printed>,
}

impl Wire {
    /// Broadcasts `content` as caused by `parent`.
    pub fn publish(&self, parent: &Parent, content: impl Into<JupyterMessageContent>) {
        let content = content.into();
        let topic = format!("kernel.halobook.{}", content.message_type());
        let message = JupyterMessage::new(content, Some(parent))
            .with_zmq_identities(vec![topic.into_bytes().into()]);
        // A closed queue means the kernel is on its way out: there is no one left to tell.
        let _ = self.iopub.send(message);
    }

    /// Answers `parent` on the socket it came from.
    pub fn reply(
        &self,
        channel: Channel,
        parent: &Parent,
        content: impl Into<JupyterMessageContent>,
    ) {
        let message = JupyterMessage::new(content, Some(parent));
        let queue = match channel {
            Channel::Shell => &self.shell,
            Channel::Control => &self.control,
        };
        let _ = queue.send(message);
    }

    /// Says that work on `parent` begins.
    pub fn busy(&self, parent: &Parent) {
        self.publish(parent, Status::busy());
    }

    /// Says that all output of `parent` has been sent.
    pub fn idle(&self, parent: &Parent) {
        self.publish(parent, Status::idle());
    }
}
