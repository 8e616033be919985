//! What ranks of a pool print, given on to the cell in the layout that it asks for.

use super::grouped::grouped;
use super::pool::Pool;
use crate::front::CellOutput;
use crate::magic::Group;

/// What ranks print, given on once.
pub struct Printer {
    group: Group,
    /// Ranks, and how many bytes of theirs have been given on.
    out: Vec<(u32, u64)>,
    /// The same of standard error, where that is kept apart.
    err: Vec<(u32, u64)>,
}

impl Printer {
    /// Of these ranks.
    pub fn new(ranks: impl Iterator<Item = u32>, group: Group) -> Printer {
        let out: Vec<(u32, u64)> = ranks.map(|rank| (rank, 0)).collect();
        Printer {
            group,
            err: match group {
                Group::Type => out.clone(),
                _ => Vec::new(),
            },
            out,
        }
    }

    /// Gives on whole lines that are new; in the end also a line that is not whole.
    pub fn go_on(&mut self, pool: &Pool, in_the_end: bool, to: &CellOutput) {
        if self.group == Group::Rank && !in_the_end {
            return;
        }
        let out = news(&mut self.out, in_the_end, |rank, from| {
            pool.printed(rank, "out", from)
        });
        to.stdout(&laid_out(self.group, &out));
        let err = news(&mut self.err, in_the_end, |rank, from| {
            pool.printed(rank, "err", from)
        });
        to.stderr(&laid_out(self.group, &err));
    }
}

/// What is new by rank, and counted as given on.
fn news(
    ranks: &mut [(u32, u64)],
    in_the_end: bool,
    printed: impl Fn(usize, u64) -> Vec<u8>,
) -> Vec<(u32, String)> {
    let news = ranks.iter_mut().map(|(rank, given)| {
        let mut bytes = printed(*rank as usize, *given);
        if !in_the_end {
            let lines = bytes.iter().rposition(|b| *b == b'\n');
            bytes.truncate(lines.map_or(0, |at| at + 1));
        }
        *given += bytes.len() as u64;
        (*rank, String::from_utf8_lossy(&bytes).into_owned())
    });
    news.collect()
}

/// New lines by rank as one text.
fn laid_out(group: Group, news: &[(u32, String)]) -> String {
    match group {
        Group::Same | Group::Type => grouped(news),
        Group::Rank | Group::Order => {
            let of = |(rank, text): &(u32, String)| {
                let line = |line: &str| format!("[rank {rank}] {line}\n");
                text.lines().map(line).collect::<String>()
            };
            news.iter().map(of).collect()
        }
        Group::None => {
            let whole = |text: &str| match text.is_empty() || text.ends_with('\n') {
                true => text.to_owned(),
                // The next rank's line is one of its own.
                false => format!("{text}\n"),
            };
            news.iter().map(|(_, text)| whole(text)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_all_lines() {
        let news = [(0, "same\nzero\n".to_owned()), (2, "same\ntwo".to_owned())];
        let of = |group| laid_out(group, &news);
        assert_eq!(
            of(Group::Same),
            "[2 ranks] same\n[rank 0] zero\n[rank 2] two\n"
        );
        assert_eq!(of(Group::Type), of(Group::Same));
        assert_eq!(
            of(Group::Rank),
            "[rank 0] same\n[rank 0] zero\n[rank 2] same\n[rank 2] two\n"
        );
        assert_eq!(of(Group::Order), of(Group::Rank));
        assert_eq!(of(Group::None), "same\nzero\nsame\ntwo\n");
        assert_eq!(laid_out(Group::None, &[(0, String::new())]), "");
    }

    #[test]
    fn lines_are_given_on_whole_and_once() {
        let text = b"one\ntw".to_vec();
        let printed = |_: usize, from: u64| text[from as usize..].to_vec();
        let mut ranks = [(1, 0)];
        assert_eq!(news(&mut ranks, false, printed), [(1, "one\n".to_owned())]);
        assert_eq!(news(&mut ranks, false, printed), [(1, String::new())]);
        assert_eq!(news(&mut ranks, true, printed), [(1, "tw".to_owned())]);
    }
}
