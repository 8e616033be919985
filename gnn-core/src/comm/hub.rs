//! One thread a rank that owns its transport, so that several threads of the rank may send and receive.
//!
//! A transport is called from one thread (MPI is initialised with `MPI_THREAD_FUNNELED`). A rank with
//! work in the background gives that thread to a hub, and trains in another one: its collectives go
//! through a [`Port`], a transport like any other; background threads exchange letters through
//! [`Mailbox`]es. The hub moves words and does nothing else, so that it is never busy for long.

#[cfg(doc)]
use super::mail::Mailbox;
use super::mail::{Letter, Post};
use super::outgoing::{BODY_TAG, HEAD_TAG, Outgoing, head, pieces};
use super::port::{Board, Command, Port, Slot};
use super::transport::{Handle, Progress, Transport, Words};
use crate::error::{Error, Result};
use crate::record::now_ns;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Words that announce a letter.
const HEAD_WORDS: usize = 5;
/// In the place of a mailbox: nothing more will come.
const BYE: u32 = u32::MAX;

/// A rank that asked less long ago is waiting.
const ASKED_NS: u64 = 400_000;

/// Gives `transport` to a hub on this thread, and runs `f` on another one of the name `name`.
///
/// # Errors
/// What `f` meets, or the hub while it takes leave of the others.
pub(crate) fn with_hub<R: Send>(
    transport: Box<dyn Transport>,
    name: String,
    f: impl FnOnce(Port, Post) -> Result<R> + Send,
) -> Result<R> {
    let (out, commands) = channel();
    let board = Arc::new(Board::default());
    let (rank, size) = (transport.rank(), transport.size());
    let port = Port::new([rank, size], out.clone(), Arc::clone(&board));
    let post = Post::new([rank, size], out, Arc::clone(&board));
    let mut hub = Hub::new(transport, commands, board);
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name(name)
            .spawn_scoped(scope, move || f(port, post))
            .map_err(|e| Error::io("thread", e))?;
        hub.serve(|| worker.is_finished());
        let result = match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        if result.is_ok() {
            hub.leave()?;
        }
        result
    })
}

/// A letter that has been announced, and whose words are coming.
struct Coming {
    to: u32,
    letter: Letter,
    pieces: VecDeque<Handle>,
}

struct Hub {
    transport: Box<dyn Transport>,
    commands: Receiver<Command>,
    board: Arc<Board>,
    /// Receives of the port, and what they are to the transport.
    open: Vec<(Handle, Handle)>,
    boxes: HashMap<u32, Sender<Letter>>,
    /// Letters for mailboxes that nobody has opened yet.
    early: HashMap<u32, Vec<Letter>>,
    closed: bool,
    /// By peer, the receive of its next announcement; none after its last.
    heads: Vec<Option<Handle>>,
    coming: Vec<VecDeque<Coming>>,
    outgoing: Outgoing,
    failed: bool,
    /// Rounds in which nothing happened.
    idle: u32,
}

impl Hub {
    fn new(transport: Box<dyn Transport>, commands: Receiver<Command>, board: Arc<Board>) -> Hub {
        let size = transport.size();
        Hub {
            transport,
            commands,
            board,
            open: Vec::new(),
            boxes: HashMap::new(),
            early: HashMap::new(),
            closed: false,
            heads: vec![None; size],
            coming: (0..size).map(|_| VecDeque::new()).collect(),
            outgoing: Outgoing::default(),
            failed: false,
            idle: 0,
        }
    }

    /// Moves words until the worker is done. A failure is left on the board for it.
    fn serve(&mut self, done: impl Fn() -> bool) {
        let expected = self.expect_heads();
        self.note(expected);
        loop {
            let finished = done();
            let moved = self.round();
            let moved = self.note(moved);
            if finished && !moved {
                return;
            }
            self.idle = if moved {
                0
            } else {
                self.idle.saturating_add(1)
            };
            if !moved {
                self.rest();
            }
        }
    }

    /// Keeps the first failure; no letter comes after it.
    fn note<T: Default>(&mut self, result: Result<T>) -> T {
        let error = match result {
            Ok(value) => return value,
            Err(error) => error,
        };
        self.failed = true;
        self.boxes.clear();
        self.closed = true;
        let told = match error {
            Error::Comm { peer, reason, .. } => (peer, reason),
            other => (None, other.to_string()),
        };
        self.board.fail(told);
        T::default()
    }

    fn expect_heads(&mut self) -> Result<()> {
        let me = self.transport.rank();
        for peer in (0..self.heads.len()).filter(|&p| p != me) {
            self.heads[peer] = Some(self.transport.post_recv(peer, HEAD_TAG, HEAD_WORDS)?);
        }
        Ok(())
    }

    /// One look at everything. Whether anything happened.
    fn round(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Ok(command) = self.commands.try_recv() {
            moved = true;
            self.obey(command)?;
        }
        if self.failed {
            return Ok(moved);
        }
        moved |= self.poll_port()?;
        for peer in 0..self.heads.len() {
            moved |= self.poll_heads(peer)?;
            moved |= self.poll_letters(peer)?;
        }
        Ok(self.send_letters()? || moved)
    }

    /// Hands over what there is room for.
    fn send_letters(&mut self) -> Result<bool> {
        let mut moved = false;
        loop {
            let way = self.transport.way_out();
            let Some((to, tag, words)) = self.outgoing.next(way, now_ns()) else {
                return Ok(moved);
            };
            self.transport.post_send(to, tag, words)?;
            moved = true;
        }
    }

    fn obey(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Abort(code) => self.transport.abort(code),
            Command::Open(number, to) => {
                if self.closed {
                    return Ok(());
                }
                for letter in self.early.remove(&number).unwrap_or_default() {
                    // Whoever opened it may have gone already.
                    let _ = to.send(letter);
                }
                self.boxes.insert(number, to);
            }
            Command::Close => {
                self.closed = true;
                self.boxes.clear();
                self.early.clear();
            }
            _ if self.failed => {}
            Command::Send(to, tag, words) => self.transport.post_send(to, tag, words)?,
            Command::Recv(handle, from, tag, len) => {
                let inner = self.transport.post_recv(from, tag, len)?;
                self.open.push((handle, inner));
            }
            Command::Forget(handle) => {
                if let Some(k) = self.open.iter().position(|o| o.0 == handle) {
                    let (_, inner) = self.open.swap_remove(k);
                    self.transport.forget(inner);
                }
            }
            Command::Drain(done) => {
                self.transport.drain()?;
                let _ = done.send(());
            }
            Command::Letter(from, delivery) => self.outgoing.push(from, delivery),
        }
        Ok(())
    }

    fn poll_port(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut k = 0;
        while k < self.open.len() {
            let (handle, inner) = self.open[k];
            let progress = self.transport.poll(inner)?;
            if progress == Progress::Absent {
                k += 1;
                continue;
            }
            let travelled = self.transport.travelled(inner);
            let mut words = Words::new();
            if progress == Progress::Done {
                words = self.transport.take(inner)?;
                self.open.swap_remove(k);
                moved = true;
            } else {
                k += 1;
            }
            let slot = Slot {
                progress,
                travelled,
                words,
            };
            self.board.tell(handle, slot);
        }
        Ok(moved)
    }

    fn poll_heads(&mut self, peer: usize) -> Result<bool> {
        let mut moved = false;
        while let Some(handle) = self.heads[peer] {
            if self.transport.poll(handle)? != Progress::Done {
                break;
            }
            moved = true;
            let head = self.transport.take(handle)?;
            if head[0] == BYE {
                self.heads[peer] = None;
                break;
            }
            self.heads[peer] = Some(self.transport.post_recv(peer, HEAD_TAG, HEAD_WORDS)?);
            let len = (u64::from(head[3]) | u64::from(head[4]) << 32) as usize;
            let cut = pieces(len, self.transport.way_out());
            let post = |piece: Range<usize>| self.transport.post_recv(peer, BODY_TAG, piece.len());
            let pieces = cut.map(post).collect::<Result<_>>()?;
            self.coming[peer].push_back(Coming {
                to: head[0],
                letter: Letter {
                    from: peer,
                    reply_to: head[1],
                    request: head[2],
                    words: Words::new(),
                },
                pieces,
            });
        }
        Ok(moved)
    }

    /// Delivers the letters of a peer that are whole, in order.
    fn poll_letters(&mut self, peer: usize) -> Result<bool> {
        let mut moved = false;
        while let Some(first) = self.coming[peer].front_mut() {
            let words = &mut first.letter.words;
            while let Some(&piece) = first.pieces.front() {
                if self.transport.poll(piece)? != Progress::Done {
                    return Ok(moved);
                }
                let came = self.transport.take(piece)?;
                first.pieces.pop_front();
                moved = true;
                match (words.is_empty(), first.pieces.is_empty()) {
                    (true, true) => *words = came,
                    _ => words.extend(came),
                }
            }
            moved = true;
            let Some(Coming { to, letter, .. }) = self.coming[peer].pop_front() else {
                break;
            };
            match self.boxes.get(&to) {
                // Whoever opened it may have gone already.
                Some(inbox) => drop(inbox.send(letter)),
                None if self.closed => {}
                None => self.early.entry(to).or_default().push(letter),
            }
        }
        Ok(moved)
    }

    /// Waits for a command, or a little.
    fn rest(&mut self) {
        // It may be asked between the two readings.
        let asked = now_ns().saturating_sub(self.board.asked_ns.load(Ordering::Relaxed));
        let urgent = asked < ASKED_NS || self.board.waiting.load(Ordering::Relaxed) > 0;
        let pause = match (urgent, self.idle) {
            (true, idle) => (10 + 2 * u64::from(idle)).min(60),
            (false, 0..64) => 50,
            (false, _) => 200,
        };
        let pause = match self.outgoing.is_empty() {
            true => pause,
            // The port is not left without a letter.
            false => {
                let busy = Outgoing::pause_ns(self.transport.way_out(), now_ns());
                pause.min(busy.div_ceil(1000))
            }
        };
        match self.commands.recv_timeout(Duration::from_micros(pause)) {
            Ok(command) => {
                self.idle = 0;
                let obeyed = self.obey(command);
                self.note(obeyed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The worker is done, or about to be.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(Duration::from_micros(pause));
            }
        }
    }

    /// Says that nothing more will come, and takes what still comes until all others have said so: a
    /// letter that nobody takes would keep its sender.
    fn leave(&mut self) -> Result<()> {
        if self.failed {
            return Err(self.board.gone("hub"));
        }
        self.closed = true;
        self.boxes.clear();
        let me = self.transport.rank();
        let mut said = false;
        while !said
            || self.heads.iter().any(Option::is_some)
            || self.coming.iter().any(|c| !c.is_empty())
        {
            self.send_letters()?;
            if !said && self.outgoing.is_empty() {
                said = true;
                for peer in (0..self.heads.len()).filter(|&p| p != me) {
                    let bye = head([BYE; 3], 0);
                    self.transport.post_send(peer, HEAD_TAG, bye)?;
                }
            }
            for peer in 0..self.heads.len() {
                self.poll_heads(peer)?;
                self.poll_letters(peer)?;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        self.transport.drain()
    }
}
