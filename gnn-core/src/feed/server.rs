//! Answers other ranks: in-edges drawn of this rank's vertices, their feature rows, what layers have made of
//! them and what is learnt of them.
//!
//! The owner computes: what a rank draws for another is what it would draw for itself. One thread
//! answers letter by letter, in the order in which they come.

use super::hidden::Hidden;
use super::rows::RowData;
use super::shard::Shard;
use super::table::{Asked, Pushed, Table};
use crate::comm::{Label, Letter, Mailbox, Post, Words, unreadable};
use crate::error::{Error, Result};
use crate::record::Direction;
use crate::sample::{Hop, Without};
use kernels::Mat;
use kernels::par::Par;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The mailbox of a rank's server.
pub(crate) const SERVER: u32 = 0;

const DRAW: u32 = 0;
const ROWS: u32 = 1;
const LEARNT: u32 = 2;
const PUSH: u32 = 3;
const SETTLE: u32 = 4;
const HIDDEN: u32 = 5;
/// Words of a request before its data (edges that are left out, or gradients), the last of which is how
/// many words those are; rows follow.
const HEAD: usize = 9;

const WEIGHTED: u32 = 1;
const TYPED: u32 = 2;

/// What a rank asks another for; rows are the other's own.
pub(super) enum Request<'a> {
    /// What a layer draws in an epoch and step, of rows, without some edges: row and source each, by the
    /// data set's ids.
    Draw(usize, (u64, u64), &'a [u32], Vec<[u32; 2]>),
    /// Feature rows.
    Rows(&'a [u32]),
    /// What a layer reads of rows, which the layer before it has made.
    Hidden(usize, &'a [u32]),
    /// Learnt rows, as a step reads them.
    Learnt(u64, &'a [u32]),
    /// Gradients of learnt rows in a step. Nobody answers.
    Push(u64, &'a [u32], &'a [f32]),
    /// An answer, once what came before has been done.
    Settle,
}

impl Request<'_> {
    /// What the letters about it are part of.
    pub(super) fn label(&self) -> Label {
        let (layer, direction) = match self {
            Request::Draw(layer, ..) => (*layer, Direction::Sample),
            Request::Hidden(layer, _) => (*layer, Direction::Pull),
            Request::Rows(_) | Request::Learnt(..) | Request::Settle => (0, Direction::Pull),
            Request::Push(..) => (0, Direction::Push),
        };
        Label {
            layer: layer as u16,
            direction,
        }
    }

    /// The request as a message that counts for the epoch `counted`.
    pub(super) fn words(&self, counted: u64) -> Words {
        let (kind, layer, (epoch, step), rows, data): (_, _, _, &[u32], &[u32]) = match self {
            Request::Draw(layer, at, rows, without) => {
                (DRAW, *layer, *at, rows, without.as_flattened())
            }
            Request::Rows(rows) => (ROWS, 0, (0, 0), rows, &[]),
            Request::Hidden(layer, rows) => (HIDDEN, *layer, (0, 0), rows, &[]),
            Request::Learnt(step, rows) => (LEARNT, 0, (0, *step), rows, &[]),
            Request::Push(step, rows, grads) => {
                (PUSH, 0, (0, *step), rows, bytemuck::cast_slice(grads))
            }
            Request::Settle => (SETTLE, 0, (0, 0), &[], &[]),
        };
        let mut words = Words::with_capacity(HEAD + data.len() + rows.len());
        words.extend([kind, layer as u32]);
        words.extend(
            [epoch, step, counted]
                .map(|x| [x as u32, (x >> 32) as u32])
                .concat(),
        );
        words.push(data.len() as u32);
        words.extend_from_slice(data);
        words.extend_from_slice(rows);
        words
    }
}

/// A hop as a message: what it has, by row how many edges, sources, weights, types two a word.
fn pack(hop: &Hop) -> Words {
    let flag = |has: bool, bit| if has { bit } else { 0 };
    let flags = flag(hop.weights.is_some(), WEIGHTED) | flag(hop.types.is_some(), TYPED);
    let mut words = vec![flags];
    words.extend(hop.indptr.windows(2).map(|w| (w[1] - w[0]) as u32));
    words.extend_from_slice(&hop.sources);
    if let Some(weights) = &hop.weights {
        words.extend_from_slice(bytemuck::cast_slice(weights));
    }
    if let Some(types) = &hop.types {
        let pair = |p: &[u16]| u32::from(p[0]) | u32::from(*p.get(1).unwrap_or(&0)) << 16;
        words.extend(types.chunks(2).map(pair));
    }
    words
}

/// The hop of `rows` rows that a message from `from` holds.
pub(super) fn unpack(from: usize, rows: usize, words: &[u32]) -> Result<Hop> {
    let bad = || unreadable(from, "drawn edges");
    let (&flags, rest) = words.split_first().ok_or_else(bad)?;
    let counts = rest.get(..rows).ok_or_else(bad)?;
    let mut indptr = Vec::with_capacity(rows + 1);
    indptr.push(0u64);
    let mut edges = 0;
    indptr.extend(counts.iter().map(|&c| {
        edges += u64::from(c);
        edges
    }));
    let edges = edges as usize;
    let mut rest = &rest[rows..];
    let mut next = |len: usize| {
        let (part, others) = rest.split_at_checked(len).ok_or_else(bad)?;
        rest = others;
        Ok::<&[u32], Error>(part)
    };
    let sources = next(edges)?.to_vec();
    let weights = match flags & WEIGHTED {
        0 => None,
        _ => Some(bytemuck::cast_slice(next(edges)?).to_vec()),
    };
    let types = match flags & TYPED {
        0 => None,
        _ => {
            let words = next(edges.div_ceil(2))?.iter();
            let mut types: Vec<u16> = words.flat_map(|&w| [w as u16, (w >> 16) as u16]).collect();
            types.truncate(edges);
            Some(types)
        }
    };
    Ok(Hop {
        indptr,
        sources,
        weights,
        types,
    })
}

/// What a rank answers for.
pub(crate) struct Served {
    pub(crate) shard: Arc<Shard>,
    /// Feature rows of its vertices.
    pub(crate) rows: RowData,
    /// What layers have made of them.
    pub(crate) hidden: Arc<Hidden>,
    /// What is learnt of them.
    pub(crate) table: Option<Arc<Table>>,
}

impl Drop for Served {
    /// However its thread ends, nobody waits for a push that it would have taken.
    fn drop(&mut self) {
        if let Some(table) = &self.table {
            table.close();
        }
    }
}

/// The thread that answers.
pub(crate) struct Server {
    thread: Option<JoinHandle<()>>,
    post: Post,
}

impl Server {
    /// Begins to answer for `of`.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank is ending, [`Error::Io`] when there is no thread to be had.
    pub(crate) fn start(post: &Post, of: Served) -> Result<Server> {
        let mailbox = post.open(SERVER)?;
        let name = format!("rank-{}", mailbox.rank());
        let closes = post.clone();
        let serve = move || {
            let par = Par::new(1);
            // Ends when letters do; one that cannot be read ends the rank's waiting threads as well.
            while let Ok(letter) = mailbox.recv_idle() {
                if let Err(e) = of.answer(&mailbox, &par, letter) {
                    eprintln!("error: {e}");
                    closes.close();
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(serve);
        Ok(Server {
            thread: Some(thread.map_err(|e| Error::io("thread", e))?),
            post: post.clone(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.post.close();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Served {
    /// Answers a letter.
    fn answer(&self, mailbox: &Mailbox, par: &Par, letter: Letter) -> Result<()> {
        let (from, reply_to) = (letter.from, letter.reply_to);
        let bad = || unreadable(from, "a request");
        let (head, rest) = letter.words.split_at_checked(HEAD).ok_or_else(bad)?;
        let (data, rows) = rest.split_at_checked(head[8] as usize).ok_or_else(bad)?;
        let long = |k: usize| u64::from(head[k]) | u64::from(head[k + 1]) << 32;
        let (layer, at, epoch) = (head[1] as usize, (long(2), long(4)), long(6));
        let Served {
            shard,
            rows: features,
            table,
            ..
        } = self;
        let owned = shard.numbers.of(shard.rank).len() as u32;
        if rows.iter().any(|&r| r >= owned) {
            return Err(bad());
        }
        let learnt = || table.as_deref().ok_or_else(bad);
        let send = |request: Request<'_>, to, epoch, words| {
            mailbox.send((request.label(), epoch), to, words)
        };
        let asker = (from, reply_to);
        match head[0] {
            DRAW => {
                let edges: Vec<[u32; 2]> = data.chunks_exact(2).map(|e| [e[0], e[1]]).collect();
                let left_out = (!edges.is_empty()).then(|| Without::of_rows(edges));
                let hop = shard.draw(layer, at, rows, left_out.as_ref(), par);
                let request = Request::Draw(layer, at, rows, Vec::new());
                send(request, asker, epoch, pack(&hop))
            }
            ROWS => send(Request::Rows(rows), asker, epoch, features.pack(rows)),
            HIDDEN => {
                let made = self.hidden.get(layer).ok_or_else(bad)?;
                send(Request::Hidden(layer, rows), asker, epoch, made.pack(rows))
            }
            LEARNT => {
                let asked = Asked {
                    step: at.1,
                    rows: rows.to_vec(),
                    to: asker,
                    epoch,
                };
                match learnt()?.ask(asked) {
                    Some((_, words)) => send(Request::Learnt(at.1, rows), asker, epoch, words),
                    None => Ok(()),
                }
            }
            PUSH => {
                let table = learnt()?;
                let grads = bytemuck::cast_slice(data).to_vec();
                let grads = Mat::from_shape_vec((rows.len(), table.learning().width), grads);
                let pushed = Pushed {
                    rank: from,
                    step: at.1,
                    rows: rows.to_vec(),
                    grads: grads.map_err(|_| bad())?,
                };
                for (asked, words) in table.push(pushed, par) {
                    let Asked {
                        step, to, epoch, ..
                    } = asked;
                    send(Request::Learnt(step, &[]), to, epoch, words)?;
                }
                Ok(())
            }
            SETTLE => send(Request::Settle, asker, epoch, Words::new()),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_survive_their_journey() {
        let hop = |weights: bool, types: bool| Hop {
            indptr: vec![0, 2, 2, 5],
            sources: vec![7, 1, 4, 4, 9],
            weights: weights.then(|| vec![0.5, 1.0, -2.0, 0.25, 3.0]),
            types: types.then(|| vec![3, 0, 65535, 2, 1]),
        };
        for (weights, types) in [(false, false), (true, false), (false, true), (true, true)] {
            let (there, words) = (hop(weights, types), pack(&hop(weights, types)));
            let back = unpack(1, 3, &words).expect("whole");
            assert_eq!((back.indptr, back.sources), (there.indptr, there.sources));
            assert_eq!((back.weights, back.types), (there.weights, there.types));
            assert!(unpack(1, 3, &words[..words.len() - 1]).is_err());
        }
    }
}
