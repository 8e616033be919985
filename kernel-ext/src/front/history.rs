//! What was executed, for clients that ask.

use std::collections::HashSet;
use std::sync::Mutex;

use jupyter_protocol::messaging::{HistoryEntry, HistoryReply, HistoryRequest};

/// The number that stands for this session in history replies.
const SESSION: usize = 1;

/// One executed cell.
struct Cell {
    number: usize,
    input: String,
    output: String,
}

/// Every cell that asked to be stored, in order.
#[derive(Default)]
pub struct History {
    cells: Mutex<Vec<Cell>>,
}

impl History {
    /// Remembers a cell; `output` is the text of its result, empty if it had none.
    pub fn push(&self, number: usize, input: &str, output: &str) {
        self.lock().push(Cell {
            number,
            input: input.to_owned(),
            output: output.to_owned(),
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Cell>> {
        self.cells
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Answers a history request.
    pub fn answer(&self, request: &HistoryRequest) -> HistoryReply {
        let cells = self.lock();
        let (chosen, output): (Vec<&Cell>, bool) = match request {
            HistoryRequest::Tail { n, output, .. } => {
                let n = usize::try_from(*n).unwrap_or(0);
                (
                    cells.iter().skip(cells.len().saturating_sub(n)).collect(),
                    *output,
                )
            }
            HistoryRequest::Range {
                start,
                stop,
                output,
                ..
            } => {
                let start = usize::try_from(*start).unwrap_or(0);
                // A stop of zero or less stands for "to the end".
                let stop = usize::try_from(*stop)
                    .ok()
                    .filter(|stop| *stop > 0)
                    .unwrap_or(usize::MAX);
                let inside = |cell: &&Cell| cell.number >= start && cell.number < stop;
                (cells.iter().filter(inside).collect(), *output)
            }
            HistoryRequest::Search {
                pattern,
                unique,
                n,
                output,
                ..
            } => {
                let mut found: Vec<&Cell> = cells
                    .iter()
                    .filter(|cell| glob(pattern, &cell.input))
                    .collect();
                if *unique {
                    let mut seen = HashSet::new();
                    found.reverse();
                    found.retain(|cell| seen.insert(cell.input.as_str()));
                    found.reverse();
                }
                let n = usize::try_from(*n).unwrap_or(0);
                if n > 0 && found.len() > n {
                    found.drain(..found.len() - n);
                }
                (found, *output)
            }
        };
        let entries = chosen
            .into_iter()
            .map(|cell| {
                if output {
                    HistoryEntry::InputOutput(
                        SESSION,
                        cell.number,
                        (cell.input.clone(), cell.output.clone()),
                    )
                } else {
                    HistoryEntry::Input(SESSION, cell.number, cell.input.clone())
                }
            })
            .collect();
        HistoryReply::new(entries)
    }
}

/// A piece of a pattern.
enum Piece {
    /// Any text.
    Star,
    /// One character of these ranges, or with `true` one of none of them.
    One(Vec<(char, char)>, bool),
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        match self {
            Piece::Star => false,
            Piece::One(ranges, not) => {
                ranges.iter().any(|&(from, to)| (from..=to).contains(&c)) != *not
            }
        }
    }
}

/// The pieces of a pattern: `*` any text, `?` one character, `[a-z]` one of these, `[!a-z]` one of the others.
fn pieces(pattern: &str) -> Vec<Piece> {
    let any = || Piece::One(vec![('\0', char::MAX)], false);
    let only = |c| Piece::One(vec![(c, c)], false);
    let (mut pieces, mut rest) = (Vec::new(), pattern);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let class = (c == '[').then(|| class(rest)).flatten();
        pieces.push(match (c, class) {
            ('*', _) => Piece::Star,
            ('?', _) => any(),
            (_, Some((piece, after))) => {
                rest = after;
                piece
            }
            (c, None) => only(c),
        });
    }
    pieces
}

/// The class whose opening bracket has been read, and what follows it; none without a closing one.
fn class(text: &str) -> Option<(Piece, &str)> {
    let not = text.starts_with(['!', '^']);
    let inside = &text[usize::from(not)..];
    // A bracket that comes first is one of the characters.
    let close = inside.char_indices().skip(1).find(|(_, c)| *c == ']')?.0;
    let chars: Vec<char> = inside[..close].chars().collect();
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let is_range = chars.get(at + 1) == Some(&'-') && at + 2 < chars.len();
        let last = if is_range { chars[at + 2] } else { chars[at] };
        ranges.push((chars[at], last));
        at += if is_range { 3 } else { 1 };
    }
    Some((Piece::One(ranges, not), &inside[close + 1..]))
}

/// Whether the whole of `text` matches `pattern` ([`pieces`]).
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pieces(pattern), text.chars().collect::<Vec<char>>());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(Piece::Star) => {
                star = Some((p, t));
                p += 1;
            }
            Some(piece) if piece.takes(text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..]
        .iter()
        .all(|piece| matches!(piece, Piece::Star))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(glob("*", ""));
        assert!(glob("1?2*", "1x2 and more"));
        assert!(!glob("1?2", "12"));
        assert!(glob("*let*", "a let b"));
        assert!(!glob("a*b", "acd"));
        assert!(glob("6 [*] *", "6 * 7") && !glob("6 [*] *", "6 x 7"));
        assert!(glob("[a-c]1[!0-9]", "b1x") && !glob("[a-c]1[!0-9]", "b12"));
        assert!(glob("[", "[") && glob("[]]", "]"));
    }

    #[test]
    fn search_is_unique_by_the_latest_and_limited() {
        let history = History::default();
        for (i, code) in ["a1", "a2", "a1", "b"].iter().enumerate() {
            history.push(i + 1, code, "");
        }
        let reply = history.answer(&HistoryRequest::Search {
            pattern: "a*".into(),
            unique: true,
            output: false,
            raw: true,
            n: 3,
        });
        let numbers: Vec<usize> = reply
            .history
            .iter()
            .map(|entry| match entry {
                HistoryEntry::Input(_, number, _) | HistoryEntry::InputOutput(_, number, _) => {
                    *number
                }
            })
            .collect();
        assert_eq!(numbers, [2, 3]);
    }
}
