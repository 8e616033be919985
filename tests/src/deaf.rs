//! A client of a kernel that never reads.

use jupyter_protocol::ConnectionInfo;
use jupyter_zmq_client as zmq;
use tokio::runtime::{Builder, Runtime};

/// A client that has subscribed to everything and reads nothing until it is dropped: nobody drives its runtime.
pub struct Deaf {
    _socket: zmq::ClientIoPubConnection,
    _runtime: Runtime,
}

impl Deaf {
    /// Of the kernel that is reached like that.
    ///
    /// # Errors
    /// When it cannot connect.
    pub fn client(info: &ConnectionInfo) -> anyhow::Result<Deaf> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let session = uuid::Uuid::new_v4().to_string();
        let connect = zmq::create_client_iopub_connection(info, "", &session);
        let socket = runtime.block_on(connect)?;
        Ok(Deaf {
            _socket: socket,
            _runtime: runtime,
        })
    }
}
