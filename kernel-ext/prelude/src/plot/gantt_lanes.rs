//! What `gantt` draws of an epoch: lanes of pieces, messages, and the critical path.

use polars::prelude::DataFrame;

use super::gantt_chunks::{Turn, add};
use super::ink::Ink;
use super::{PlotError, read, units};

/// Kinds of pieces: those of `stack` that spans can be, in its order.
pub(super) const KINDS: [(&str, Ink); 4] = [
    ("compute", Ink::COMPUTE),
    ("copy", Ink::COPY),
    ("exposed transfer", Ink::TRANSFER),
    ("wait", Ink::WAIT),
];
const TRANSFER: usize = 2;
const WAIT: usize = 3;
/// Pieces of a lane before they are put into columns.
const MOST: usize = 500;
/// Columns then.
const COLUMNS: usize = 700;
/// The share of an epoch from which on a wait is followed to its cause.
const MATTERS: f64 = 0.005;

/// A time of a lane, ms from the epoch's beginning.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Index into [`KINDS`].
    pub kind: usize,
    pub from: f64,
    pub to: f64,
    /// The rank that is waited for.
    pub peer: Option<u32>,
}

impl Piece {
    /// Whether the rank could not go on without its peer: it waits, or a message of it moves (over MPI a
    /// large one moves as soon as it is announced).
    pub fn is_blocked(&self) -> bool {
        self.kind >= TRANSFER && self.peer.is_some()
    }
}

/// One rank's epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub rank: u32,
    /// On the rank's own thread.
    pub host: Vec<Piece>,
    /// On a device of its own.
    pub device: Vec<Piece>,
    /// On threads beside the one that trains, which make mini-batches; of several at once.
    pub beside: Vec<Piece>,
    /// Data that moved beside other work.
    pub hidden: Vec<(f64, f64)>,
    /// Chunks that the rank had in hand.
    pub turns: Vec<Turn>,
    pub from: f64,
    pub to: f64,
}

/// From whom, when, to whom, until when.
pub(super) type Message = ((u32, f64), (u32, f64));

/// One epoch.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub number: u32,
    /// Of how many.
    pub of: usize,
    pub lanes: Vec<Lane>,
    pub messages: Vec<Message>,
    /// By how much clocks may be apart, ms.
    pub skew: f64,
    /// Where the part that is left of it began, ms.
    pub zoomed: Option<f64>,
}

impl Epoch {
    /// Length, ms.
    pub fn length(&self) -> f64 {
        self.lanes.iter().map(|l| l.to).fold(0.0, f64::max)
    }
}

/// The epoch to show: the one of median length, the first left out where there are others.
pub(super) fn typical(epoch: &[f64], start: &[f64], end: &[f64]) -> Option<(u32, usize)> {
    let mut lengths: Vec<(u32, f64, f64)> = Vec::new();
    for ((&e, &from), &to) in epoch.iter().zip(start).zip(end) {
        let at = lengths.iter().rposition(|l| f64::from(l.0) == e);
        let at = at.unwrap_or_else(|| {
            lengths.push((e as u32, from, to));
            lengths.len() - 1
        });
        lengths[at] = (e as u32, lengths[at].1.min(from), lengths[at].2.max(to));
    }
    let of = lengths.len();
    let first = lengths.iter().map(|l| l.0).min()?;
    lengths.retain(|l| of == 1 || l.0 != first);
    lengths.sort_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)));
    Some((lengths[lengths.len() / 2].0, of))
}

/// Reads a `spans` frame: the epoch `wanted`, or the [`typical`] one.
pub(super) fn read_epoch(
    frame: &DataFrame,
    wanted: Option<u32>,
) -> Result<Option<Epoch>, PlotError> {
    let need = |column: &str| read::need(frame, "spans", column);
    let words = |column: &str| {
        read::words(frame, column).ok_or_else(|| PlotError::Column {
            frame: "spans".into(),
            column: column.into(),
        })
    };
    let (epoch, rank) = (need("epoch")?, need("rank")?);
    let (start, dur) = (need("start_us")?, need("dur_us")?);
    let (stream, phase) = (words("stream")?, words("phase")?);
    let peer = read::maybe(frame, "peer").unwrap_or_else(|| vec![f64::NAN; rank.len()]);
    let skew = read::maybe(frame, "skew_us").unwrap_or_default();
    let chunk = read::maybe(frame, "chunk").unwrap_or_default();
    let pass = read::words(frame, "pass").unwrap_or_default();
    let end: Vec<f64> = start.iter().zip(&dur).map(|(s, d)| s + d).collect();
    let Some((number, of)) = typical(&epoch, &start, &end) else {
        return Ok(None);
    };
    let number = wanted.unwrap_or(number);
    let mine: Vec<usize> = (0..rank.len())
        .filter(|&i| epoch[i] == f64::from(number))
        .collect();
    // What was made for it before it began is not in it.
    let within = mine.iter().filter(|&&i| stream[i] != "sampler");
    let zero = within.map(|&i| start[i]).fold(f64::INFINITY, f64::min);
    let at = |us: f64| (us - zero) / 1e3;
    let mut ids: Vec<u32> = mine.iter().map(|&i| rank[i] as u32).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut lanes: Vec<Lane> = ids
        .iter()
        .map(|&rank| Lane {
            rank,
            from: f64::INFINITY,
            ..Lane::default()
        })
        .collect();
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    for &i in &mine {
        let lane = ids.partition_point(|id| f64::from(*id) < rank[i]);
        let lane = &mut lanes[lane];
        let (from, to) = (at(start[i]), at(end[i]));
        let other = peer[i].is_finite().then_some(peer[i] as u32);
        let kind = match phase[i].as_str() {
            "hidden" => {
                lane.hidden.push((from, to));
                continue;
            }
            "send" => {
                sent.extend(other.map(|dst| (lane.rank, dst, from)));
                continue;
            }
            "receive" => {
                got.extend(other.map(|src| (src, lane.rank, to)));
                continue;
            }
            "copy" => 1,
            "transfer" => 2,
            "wait" => WAIT,
            _ => 0,
        };
        if stream[i] == "sampler" {
            lane.beside.push(Piece {
                kind,
                from,
                to,
                peer: None,
            });
            continue;
        }
        (lane.from, lane.to) = (lane.from.min(from), lane.to.max(to));
        let of = chunk
            .get(i)
            .filter(|chunk| chunk.is_finite() && kind < TRANSFER);
        lane.turns.extend(of.map(|&chunk| Turn {
            chunk: chunk as u32,
            backward: pass.get(i).is_some_and(|pass| pass == "backward"),
            from,
            to,
        }));
        let pieces = match stream[i].as_str() {
            "device" => &mut lane.device,
            _ => &mut lane.host,
        };
        pieces.push(Piece {
            kind,
            from,
            to,
            peer: other,
        });
    }
    lanes.retain(|lane| lane.from.is_finite());
    for lane in &mut lanes {
        let end = lane.to;
        lane.beside.retain_mut(|piece| {
            (piece.from, piece.to) = (piece.from.max(0.0), piece.to.min(end));
            piece.to > piece.from
        });
        lane.beside.sort_by(|a, b| a.from.total_cmp(&b.from));
        lane.host.sort_by(|a, b| a.from.total_cmp(&b.from));
        lane.device.sort_by(|a, b| a.from.total_cmp(&b.from));
        lane.turns.sort_by(|a, b| a.from.total_cmp(&b.from));
        let spans = std::mem::take(&mut lane.turns);
        spans
            .into_iter()
            .for_each(|turn| add(&mut lane.turns, turn));
    }
    let skew = mine.iter().filter_map(|&i| skew.get(i)).copied();
    Ok(Some(Epoch {
        number,
        of,
        lanes,
        messages: pair(sent, got),
        skew: skew.filter(|s| s.is_finite()).fold(0.0, f64::max) / 1e3,
        zoomed: None,
    }))
}

/// The k-th message that a rank sent another is the k-th that it got.
fn pair(sent: Vec<(u32, u32, f64)>, mut got: Vec<(u32, u32, f64)>) -> Vec<Message> {
    got.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut pairs = Vec::new();
    for (src, dst, left) in sent {
        let of = got.iter().rposition(|g| (g.0, g.1) == (src, dst));
        if let Some(at) = of {
            pairs.push(((src, left), (dst, got.remove(at).2)));
        }
    }
    pairs
}

/// What is drawn of a lane: neighbours of one kind as one piece, and where there are too many, columns
/// that show what took most of them. Says whether it did that.
pub(super) fn drawn(pieces: &[Piece], length: f64) -> (Vec<Piece>, bool) {
    let joined = joined(pieces, length / 2000.0);
    if joined.len() <= MOST || length <= 0.0 {
        return (joined, false);
    }
    let width = length / COLUMNS as f64;
    let mut time = vec![[0.0; KINDS.len()]; COLUMNS];
    for piece in pieces {
        let (first, last) = (piece.from / width, piece.to / width);
        for (k, column) in (first as usize..COLUMNS.min(last as usize + 1)).map(|k| (k, k as f64)) {
            let inside = (piece.to / width).min(column + 1.0) - (piece.from / width).max(column);
            time[k][piece.kind] += inside.max(0.0);
        }
    }
    let columns = time.iter().enumerate().filter_map(|(k, of)| {
        let idle = 1.0 - of.iter().sum::<f64>();
        let kind = (0..KINDS.len()).max_by(|&a, &b| of[a].total_cmp(&of[b]))?;
        (of[kind] > idle).then(|| Piece {
            kind,
            from: k as f64 * width,
            to: (k + 1) as f64 * width,
            peer: None,
        })
    });
    let columns: Vec<Piece> = columns.collect();
    (self::joined(&columns, width / 100.0), true)
}

fn joined(pieces: &[Piece], gap: f64) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(last)
                if (last.kind, last.peer) == (piece.kind, piece.peer)
                    && piece.from - last.to <= gap =>
            {
                last.to = last.to.max(piece.to);
            }
            _ => out.push(piece.clone()),
        }
    }
    out
}

/// The critical path, first part first: from the rank that ends last back to the rank that each
/// wait was for, and so on to the beginning. Shortening anything else does not end the epoch sooner.
pub(super) fn critical(epoch: &Epoch) -> Vec<(u32, f64, f64)> {
    let matters = epoch.length() * MATTERS;
    let last = epoch.lanes.iter().max_by(|a, b| a.to.total_cmp(&b.to));
    let Some(mut lane) = last else {
        return Vec::new();
    };
    let (mut path, mut end) = (Vec::new(), lane.to);
    loop {
        let blocked = |p: &&Piece| p.is_blocked() && p.to - p.from >= matters && p.to <= end;
        let cause = lane.host.iter().rfind(blocked).and_then(|wait| {
            let of = |l: &&Lane| Some(l.rank) == wait.peer && l.from < wait.to;
            Some((epoch.lanes.iter().find(of)?, wait))
        });
        // A step back in time each, so that it ends.
        match cause.filter(|(_, wait)| wait.to < end) {
            Some((peer, wait)) => {
                path.push((lane.rank, wait.to, end));
                (lane, end) = (peer, wait.to);
            }
            None => {
                path.push((lane.rank, lane.from, end));
                break;
            }
        }
    }
    path.reverse();
    path
}

/// The path in words.
pub(super) fn path_words(path: &[(u32, f64, f64)]) -> String {
    let mut ranks: Vec<(u32, f64)> = Vec::new();
    for (rank, from, to) in path {
        match ranks.iter_mut().find(|r| r.0 == *rank) {
            Some(known) => known.1 += to - from,
            None => ranks.push((*rank, to - from)),
        }
    }
    ranks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words = ranks.iter().take(4);
    let words = words.map(|(rank, ms)| format!("rank {rank} {}", units::ms(*ms)));
    format!("critical path: {}", words.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(kind: usize, from: f64, to: f64, peer: Option<u32>) -> Piece {
        Piece {
            kind,
            from,
            to,
            peer,
        }
    }

    fn lane(rank: u32, host: Vec<Piece>) -> Lane {
        let (from, to) = (host[0].from, host[host.len() - 1].to);
        Lane {
            rank,
            host,
            from,
            to,
            ..Lane::default()
        }
    }

    #[test]
    fn the_critical_path_goes_through_the_rank_that_others_wait_for() {
        let lanes = vec![
            lane(
                0,
                vec![
                    piece(0, 0.0, 2.0, None),
                    piece(WAIT, 2.0, 8.0, Some(1)),
                    piece(0, 8.0, 10.0, None),
                ],
            ),
            lane(1, vec![piece(0, 0.0, 8.0, None), piece(0, 8.0, 9.0, None)]),
        ];
        let epoch = Epoch {
            number: 1,
            of: 1,
            lanes,
            messages: Vec::new(),
            skew: 0.0,
            zoomed: None,
        };
        let path = critical(&epoch);
        assert_eq!(path, [(1, 0.0, 8.0), (0, 8.0, 10.0)]);
        assert_eq!(
            path_words(&path),
            "critical path: rank 1 8.00 ms, rank 0 2.00 ms"
        );
    }

    #[test]
    fn ranks_that_wait_for_each_other_at_once_end_the_path() {
        let both = |rank: u32| {
            let wait = piece(WAIT, 1.0, 2.0, Some(1 - rank));
            lane(
                rank,
                vec![piece(0, 0.0, 1.0, None), wait, piece(0, 2.0, 3.0, None)],
            )
        };
        let epoch = Epoch {
            number: 0,
            of: 1,
            lanes: vec![both(0), both(1)],
            messages: Vec::new(),
            skew: 0.0,
            zoomed: None,
        };
        assert_eq!(critical(&epoch).len(), 2);
    }

    #[test]
    fn too_many_pieces_become_columns_of_what_took_most() {
        let many: Vec<Piece> = (0..4000)
            .map(|k| {
                piece(
                    k % 2,
                    k as f64,
                    k as f64 + if k % 2 == 0 { 0.9 } else { 0.2 },
                    None,
                )
            })
            .collect();
        let (columns, binned) = drawn(&many, 4000.0);
        assert!(binned && columns.len() <= COLUMNS);
        assert!(columns.iter().all(|c| c.kind == 0), "compute takes most");
        let (few, binned) = drawn(&many[..4], 4.0);
        assert!(!binned && few.len() == 4);
    }

    #[test]
    fn the_epoch_of_median_length_is_shown_and_never_the_first_of_several() {
        let (epoch, start) = ([0.0, 1.0, 2.0, 3.0], [0.0, 100.0, 110.0, 130.0]);
        let end = [90.0, 105.0, 119.0, 132.0];
        assert_eq!(typical(&epoch, &start, &end), Some((1, 4)));
        assert_eq!(typical(&[7.0], &[1.0], &[2.0]), Some((7, 1)));
        assert_eq!(typical(&[], &[], &[]), None);
    }

    #[test]
    fn messages_pair_up_in_order() {
        let sent = vec![(0, 1, 1.0), (0, 1, 2.0), (1, 0, 2.0)];
        let got = vec![(0, 1, 5.0), (0, 1, 4.0)];
        assert_eq!(
            pair(sent, got),
            [((0, 1.0), (1, 4.0)), ((0, 2.0), (1, 5.0))]
        );
    }
}
