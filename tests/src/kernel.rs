//! A Jupyter client: starts `halobook-kernel` on a connection file and talks to it over ZMQ.
//!
//! It speaks through the same protocol crate as the kernel, so it cannot catch a wire format that
//! both sides get wrong alike; the executed notebooks (nbclient over libzmq) can.

pub use crate::answer::Answer;
use crate::place::Place;
use crate::request::{execute, message};
use crate::{binaries, ports, processes};
use anyhow::{Context as _, bail, ensure};
use jupyter_protocol::{ConnectionInfo, JupyterMessage, Transport};
use jupyter_zmq_client as zmq;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A reply that needs no compiler must come within this.
const SOON: Duration = Duration::from_secs(20);

/// Names and values.
pub type Environment = Vec<(&'static str, PathBuf)>;

/// A running kernel and its client.
pub struct Kernel {
    linked: Linked,
    home: tempfile::TempDir,
    environment: Environment,
    /// Messages on iopub that belong to another request than the one asked about last.
    kept: VecDeque<Value>,
    /// From the start of the process to its first reply.
    pub ready_after: Duration,
    runtime: Runtime,
    _place: Place,
}

/// A kernel's process, and the sockets to it.
struct Linked {
    child: Child,
    info: ConnectionInfo,
    session: String,
    shell: Channel,
    control: Channel,
    iopub: UnboundedReceiver<JupyterMessage>,
}

struct Channel {
    send: zmq::DealerSendConnection,
    replies: UnboundedReceiver<JupyterMessage>,
}

impl Kernel {
    /// Starts a kernel with a run store of its own and waits until it answers.
    ///
    /// # Errors
    /// When it ends or is silent for a minute.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(|_| Vec::new())
    }

    /// The same with no other kernel of this program beside it, for a test that holds it to a time.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub fn start_alone() -> anyhow::Result<Self> {
        Self::start_at(Place::alone(), |_| Vec::new())
    }

    /// The same with more environment, which is made from the kernel's folder.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub fn start_with(more: impl Fn(&Path) -> Environment) -> anyhow::Result<Self> {
        Self::start_at(Place::beside(), more)
    }

    fn start_at(place: Place, more: impl Fn(&Path) -> Environment) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("halobook-kernel-")
            .tempdir()?;
        let runtime = Runtime::new()?;
        let started = Instant::now();
        std::fs::create_dir(home.path().join("tmp"))?;
        let environment = more(home.path());
        let linked = Linked::start(home.path(), &environment, &runtime)?;
        let mut kernel = Self {
            linked,
            home,
            environment,
            kept: VecDeque::new(),
            ready_after: Duration::ZERO,
            runtime,
            _place: place,
        };
        kernel.greet(started)?;
        Ok(kernel)
    }

    /// Kills the kernel as the system would, and starts another one with the same run store.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub fn kill_and_start_again(&mut self) -> anyhow::Result<()> {
        self.linked.child.kill()?;
        self.linked.child.wait()?;
        let started = Instant::now();
        self.linked = Linked::start(self.home.path(), &self.environment, &self.runtime)?;
        self.kept.clear();
        self.greet(started)
    }

    /// Asks until a reply and its iopub messages come: a subscription takes effect a moment after
    /// it is made, so the first request's messages may be missed.
    fn greet(&mut self, started: Instant) -> anyhow::Result<()> {
        while started.elapsed() < Duration::from_secs(60) {
            let id = self.send("kernel_info_request", json!({}))?;
            if let Ok(answer) = self.receive(&id, Duration::from_secs(2)) {
                ensure!(
                    answer.reply["content"]["status"] == "ok",
                    "{}",
                    answer.reply
                );
                self.ready_after = started.elapsed();
                return Ok(());
            }
        }
        bail!("no answer in a minute: {}", log_of(self.home.path()))
    }

    /// The folder that only this kernel uses; its run store lies here.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// How to reach it.
    pub fn info(&self) -> &ConnectionInfo {
        &self.linked.info
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.linked.child.id()
    }

    /// Whether the process is there.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn is_alive(&mut self) -> anyhow::Result<bool> {
        Ok(self.linked.child.try_wait()?.is_none())
    }

    /// Executes a cell, within three minutes.
    ///
    /// # Errors
    /// When no reply comes. A cell that fails is an [`Answer`] all the same.
    pub fn execute(&mut self, code: &str) -> anyhow::Result<Answer> {
        let id = self.begin(code)?;
        self.receive(&id, Duration::from_secs(180))
    }

    /// Sends a cell and does not wait.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn begin(&mut self, code: &str) -> anyhow::Result<String> {
        self.send("execute_request", execute(code))
    }

    /// Sends any request on the shell channel; returns its message id.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn send(&mut self, kind: &str, content: Value) -> anyhow::Result<String> {
        let message = message(kind, content)?;
        let id = message.header.msg_id.clone();
        self.runtime
            .block_on(self.linked.shell.send.send(message))?;
        Ok(id)
    }

    /// A request on the shell channel, answered soon.
    ///
    /// # Errors
    /// When no answer comes.
    pub fn ask(&mut self, kind: &str, content: Value) -> anyhow::Result<Answer> {
        let id = self.send(kind, content)?;
        self.receive(&id, SOON)
    }

    /// A request on the control channel; returns the reply's content.
    ///
    /// # Errors
    /// When no reply comes.
    pub fn command(&mut self, kind: &str, content: Value) -> anyhow::Result<Value> {
        let message = message(kind, content)?;
        let id = message.header.msg_id.clone();
        let control = &mut self.linked.control;
        let reply = self.runtime.block_on(async {
            control.send.send(message).await?;
            control.reply(&id, SOON).await
        })?;
        Ok(reply["content"].clone())
    }

    /// Waits for the reply to `id` and for its messages on iopub up to `idle`.
    ///
    /// # Errors
    /// When they are not there after `limit`.
    pub fn receive(&mut self, id: &str, limit: Duration) -> anyhow::Result<Answer> {
        let started = Instant::now();
        let mut iopub = Vec::new();
        while !iopub.iter().any(is_idle) {
            let left = limit.saturating_sub(started.elapsed());
            let next = self.next_iopub(id, left)?;
            iopub.push(next.with_context(|| {
                format!(
                    "no idle after {limit:?}; so far {iopub:?}; {}",
                    log_of(self.home.path())
                )
            })?);
        }
        let left = limit
            .saturating_sub(started.elapsed())
            .max(Duration::from_secs(5));
        let reply = self.runtime.block_on(self.linked.shell.reply(id, left))?;
        let (session, iopub) = iopub.into_iter().partition(Answer::is_of_session);
        Ok(Answer {
            reply,
            iopub,
            session,
            took: started.elapsed(),
        })
    }

    /// The next iopub message of request `id`, or `None` after `limit`.
    ///
    /// # Errors
    /// When the channel is closed.
    pub fn next_iopub(&mut self, id: &str, limit: Duration) -> anyhow::Result<Option<Value>> {
        let ours = |message: &Value| message["parent_header"]["msg_id"] == id;
        if let Some(at) = self.kept.iter().position(ours) {
            return Ok(self.kept.remove(at));
        }
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (iopub, runtime) = (&mut self.linked.iopub, &self.runtime);
            let next = runtime.block_on(async { tokio::time::timeout(left, iopub.recv()).await });
            let Ok(next) = next else { return Ok(None) };
            let message = serde_json::to_value(next.context("iopub is closed")?)?;
            if ours(&message) {
                return Ok(Some(message));
            }
            self.kept.push_back(message);
        }
    }

    /// Names that completion offers at the end of `code`.
    ///
    /// # Errors
    /// When no reply comes.
    pub fn complete(&mut self, code: &str) -> anyhow::Result<Vec<String>> {
        let cursor = code.chars().count();
        let answer = self.ask(
            "complete_request",
            json!({"code": code, "cursor_pos": cursor}),
        )?;
        let content = answer.content();
        ensure!(content["status"] == "ok", "{content}");
        let matches = content["matches"]
            .as_array()
            .context("no list of matches")?;
        Ok(matches
            .iter()
            .filter_map(|m| Some(m.as_str()?.to_string()))
            .collect())
    }

    /// `complete`, `incomplete` or `invalid`.
    ///
    /// # Errors
    /// When no reply comes.
    pub fn is_complete(&mut self, code: &str) -> anyhow::Result<String> {
        let answer = self.ask("is_complete_request", json!({ "code": code }))?;
        let status = answer.content()["status"].as_str().context("no status")?;
        Ok(status.to_string())
    }

    /// What inspection shows as plain text at the end of `code`, or `None` when nothing is found.
    ///
    /// # Errors
    /// When no reply comes.
    pub fn inspect(&mut self, code: &str) -> anyhow::Result<Option<String>> {
        let request = json!({"code": code, "cursor_pos": code.chars().count(), "detail_level": 0});
        let answer = self.ask("inspect_request", request)?;
        let content = answer.content();
        let text = content["data"]["text/plain"].as_str().unwrap_or_default();
        Ok((content["found"] == true).then(|| text.to_string()))
    }

    /// One heartbeat there and back.
    ///
    /// # Errors
    /// When none comes back in five seconds.
    pub fn heartbeat(&mut self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let info = &self.linked.info;
        self.runtime.block_on(async {
            let mut heart = zmq::create_client_heartbeat_connection(info).await?;
            let beat = heart.single_heartbeat();
            tokio::time::timeout(Duration::from_secs(5), beat)
                .await
                .context("no heartbeat in five seconds")??;
            anyhow::Ok(())
        })?;
        Ok(started.elapsed())
    }

    /// Whether a `kernel_info_request` signed with `key` is answered within `limit`.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn answers_to(&mut self, key: &str, limit: Duration) -> anyhow::Result<bool> {
        let info = ConnectionInfo {
            key: key.into(),
            ..self.linked.info.clone()
        };
        self.runtime.block_on(async {
            let session = uuid::Uuid::new_v4().to_string();
            let identity = zmq::peer_identity_for_session(&session)?;
            let mut shell =
                zmq::create_client_shell_connection_with_identity(&info, &session, identity)
                    .await?;
            shell
                .send(message("kernel_info_request", json!({}))?)
                .await?;
            // A reply that our own key cannot read is an answer too.
            Ok(tokio::time::timeout(limit, shell.read()).await.is_ok())
        })
    }

    /// Asks the kernel to end, and waits for it.
    ///
    /// # Errors
    /// When it does not reply or is still there after ten seconds.
    pub fn shutdown(&mut self) -> anyhow::Result<Value> {
        let reply = self.command("shutdown_request", json!({"restart": false}))?;
        let until = Instant::now() + Duration::from_secs(10);
        while self.is_alive()? {
            ensure!(
                Instant::now() < until,
                "still there ten seconds after its shutdown_reply"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(reply)
    }

    /// The session id under which this client speaks.
    pub fn session(&self) -> &str {
        &self.linked.session
    }
}

impl Linked {
    /// Starts a kernel whose run store is `home`, and waits until its sockets are open.
    fn start(home: &Path, more: &Environment, runtime: &Runtime) -> anyhow::Result<Self> {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ports = ports::free(local, 5)?;
        let info = ConnectionInfo {
            ip: local.to_string(),
            transport: Transport::TCP,
            shell_port: ports[0],
            iopub_port: ports[1],
            stdin_port: ports[2],
            control_port: ports[3],
            hb_port: ports[4],
            key: uuid::Uuid::new_v4().to_string(),
            signature_scheme: "hmac-sha256".into(),
            kernel_name: Some("halobook".into()),
        };
        let file = home.join("connection.json");
        std::fs::write(&file, serde_json::to_vec(&info)?)?;
        let log = File::create(home.join("kernel.log"))?;
        let started = Instant::now();
        let mut child = Command::new(binaries::find("halobook-kernel"))
            .arg("run")
            .arg(&file)
            .current_dir(home)
            .env("HALOBOOK_HOME", home)
            .envs(more.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        for port in &ports {
            while TcpStream::connect((local, *port)).is_err() {
                if let Some(status) = child.try_wait()? {
                    bail!("the kernel {status} at once: {}", log_of(home));
                }
                ensure!(
                    started.elapsed() < Duration::from_secs(60),
                    "port {port} never opened"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let session = uuid::Uuid::new_v4().to_string();
        let (shell, control, iopub) = runtime.block_on(async {
            let identity = zmq::peer_identity_for_session(&session)?;
            let shell =
                zmq::create_client_shell_connection_with_identity(&info, &session, identity)
                    .await?;
            let control = zmq::create_client_control_connection(&info, &session).await?;
            let mut iopub = zmq::create_client_iopub_connection(&info, "", &session).await?;
            let (heard, hear) = unbounded_channel();
            tokio::spawn(async move {
                while let Ok(message) = iopub.read().await {
                    if heard.send(message).is_err() {
                        break;
                    }
                }
            });
            anyhow::Ok((Channel::new(shell), Channel::new(control), hear))
        })?;
        Ok(Self {
            child,
            info,
            session,
            shell,
            control,
            iopub,
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if !matches!(self.is_alive(), Ok(false)) {
            let _ = self.linked.child.kill();
            let _ = self.linked.child.wait();
        }
        // Only what names this kernel's folder: evaluation children and runs of a failed test.
        for (pid, _) in processes::naming(self.home.path()) {
            processes::signal(pid, libc::SIGKILL);
        }
    }
}

impl Channel {
    fn new(connection: zmq::ClientShellConnection) -> Self {
        let (send, mut receive) = connection.split();
        let (heard, replies) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(message) = receive.read().await {
                if heard.send(message).is_err() {
                    break;
                }
            }
        });
        Self { send, replies }
    }

    async fn reply(&mut self, id: &str, limit: Duration) -> anyhow::Result<Value> {
        let wait = async {
            loop {
                let message = self.replies.recv().await.context("the channel is closed")?;
                if message
                    .parent_header
                    .as_ref()
                    .is_some_and(|parent| parent.msg_id == id)
                {
                    return Ok(serde_json::to_value(message)?);
                }
            }
        };
        let reply = tokio::time::timeout(limit, wait).await;
        reply.with_context(|| format!("no reply after {limit:?}"))?
    }
}

fn is_idle(message: &Value) -> bool {
    message["header"]["msg_type"] == "status" && message["content"]["execution_state"] == "idle"
}

fn log_of(home: &Path) -> String {
    std::fs::read_to_string(home.join("kernel.log")).unwrap_or_default()
}
