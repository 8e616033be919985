//! What ranks ask each other for, as messages.

use crate::comm::{Label, Words, unreadable};
use crate::error::{Error, Result};
use crate::record::Direction;
use crate::sample::Hop;

/// Words of a request before its data (edges that are left out, or gradients), the last of which is how
/// many words those are; rows follow.
const HEAD: usize = 9;

const WEIGHTED: u32 = 1;
const TYPED: u32 = 2;

/// What a rank asks another for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// What a layer draws of rows, without some edges: row and source each, by the data set's ids.
    Draw(usize),
    /// Feature rows.
    Rows,
    /// What a layer reads of rows, which the layer before it has made.
    Hidden(usize),
    /// Learnt rows, as a step reads them.
    Learnt,
    /// Gradients of learnt rows in a step. Nobody answers.
    Push,
    /// An answer, once what came before has been done.
    Settle,
}

/// What every request says first. Answers have no head: which request they answer is on their envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) what: What,
    /// The epoch and step that it is for; of learnt rows, the step is counted over the run.
    pub(super) at: (u64, u64),
    /// The epoch that its letter and the answer's count for.
    pub(super) counted: u64,
    /// Words that the asker expects of the answer.
    pub(super) cost: u32,
}

/// A request; rows are those of whoever is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query<'a> {
    pub(super) head: Head,
    /// Edges that are left out, or gradients.
    pub(super) data: &'a [u32],
    pub(super) rows: &'a [u32],
}

impl What {
    /// What the letters about it are part of.
    pub(super) fn label(self) -> Label {
        let (layer, direction) = match self {
            What::Draw(layer) => (layer, Direction::Sample),
            What::Hidden(layer) => (layer, Direction::Pull),
            What::Rows | What::Learnt | What::Settle => (0, Direction::Pull),
            What::Push => (0, Direction::Push),
        };
        Label {
            layer: layer as u16,
            direction,
        }
    }

    /// Whether an answer is the same whatever is answered before it.
    pub(super) fn in_any_order(self) -> bool {
        matches!(self, What::Draw(_) | What::Rows | What::Hidden(_))
    }

    /// In one word: the layer above a number for the rest.
    fn word(self) -> u32 {
        let (kind, layer) = match self {
            What::Draw(layer) => (0, layer),
            What::Rows => (1, 0),
            What::Learnt => (2, 0),
            What::Push => (3, 0),
            What::Settle => (4, 0),
            What::Hidden(layer) => (5, layer),
        };
        (layer as u32) << 8 | kind
    }

    fn of_word(word: u32) -> Option<What> {
        let layer = (word >> 8) as usize;
        Some(match word & 0xff {
            0 => What::Draw(layer),
            1 => What::Rows,
            2 => What::Learnt,
            3 => What::Push,
            4 => What::Settle,
            5 => What::Hidden(layer),
            _ => return None,
        })
    }
}

impl<'a> Query<'a> {
    /// The request as a message.
    pub(super) fn words(&self) -> Words {
        let Head {
            what,
            at: (epoch, step),
            counted,
            cost,
        } = self.head;
        let mut words = Words::with_capacity(HEAD + self.data.len() + self.rows.len());
        words.extend([what.word(), cost]);
        let long = |x: u64| [x as u32, (x >> 32) as u32];
        words.extend([epoch, step, counted].map(long).as_flattened());
        words.push(self.data.len() as u32);
        words.extend_from_slice(self.data);
        words.extend_from_slice(self.rows);
        words
    }

    /// The request that a message from `from` is.
    ///
    /// # Errors
    /// [`Error::Comm`] for a message that is none.
    pub(super) fn read(from: usize, words: &'a [u32]) -> Result<Query<'a>> {
        let bad = || unreadable(from, "a request");
        let (head, rest) = words.split_at_checked(HEAD).ok_or_else(bad)?;
        let (data, rows) = rest.split_at_checked(head[8] as usize).ok_or_else(bad)?;
        let long = |k: usize| u64::from(head[k]) | u64::from(head[k + 1]) << 32;
        Ok(Query {
            head: Head {
                what: What::of_word(head[0]).ok_or_else(bad)?,
                at: (long(2), long(4)),
                counted: long(6),
                cost: head[1],
            },
            data,
            rows,
        })
    }
}

/// A hop as a message: what it has, by row how many edges, sources, weights, types two a word.
pub(super) fn pack(hop: &Hop) -> Words {
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
///
/// # Errors
/// [`Error::Comm`] for a message that holds none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_their_journey_in_as_many_words_as_ever() {
        let kinds = [
            What::Draw(3),
            What::Rows,
            What::Hidden(70_000),
            What::Learnt,
            What::Push,
            What::Settle,
        ];
        for what in kinds {
            let head = Head {
                what,
                at: (7, u64::MAX - 3),
                counted: u64::MAX,
                cost: 12_345,
            };
            let query = Query {
                head,
                data: &[4, 5],
                rows: &[9, 8, 7],
            };
            let words = query.words();
            assert_eq!(words.len(), 9 + 2 + 3);
            assert_eq!(Query::read(1, &words).expect("whole"), query);
            assert!(Query::read(1, &words[..10]).is_err());
        }
        assert!(Query::read(1, &[77; 9]).is_err());
    }

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
