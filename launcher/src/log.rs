//! Reading what ranks printed.

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use std::collections::HashMap;
use std::path::Path;

/// Which lines of a run's logs are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// One rank's log; all ranks' when there is none.
    pub rank: Option<u32>,
    /// The last so many lines; all when there is none.
    pub tail: Option<usize>,
    /// Only lines that contain this.
    pub grep: Option<String>,
}

/// The lines that `query` asks for, one a line. With several ranks, a line that every rank printed
/// appears once with their count, every other line with its rank; lines that differ in a number
/// are different lines. What the starter itself printed comes last, when no rank is named.
///
/// # Errors
/// [`Error::Refused`] for a rank that the run has not got; [`Error::Io`] for an unreadable log.
pub fn log(run_dir: &Path, query: LogQuery) -> Result<String> {
    let manifest = Manifest::read(run_dir)?;
    if let Some(rank) = query.rank.filter(|&r| r >= manifest.ranks) {
        return Err(Error::refused(
            format!(
                "rank: run {} has ranks 0 to {}, not {rank}",
                manifest.run_id,
                manifest.ranks - 1
            ),
            "leave --rank out to see all of them",
        ));
    }
    let logs = run_dir.join("logs");
    let mut lines = match query.rank {
        Some(rank) => read(&logs.join(format!("rank-{rank}.log")))?,
        None => {
            let ranks: Vec<Vec<String>> = (0..manifest.ranks)
                .map(|rank| read(&logs.join(format!("rank-{rank}.log"))))
                .collect::<Result<_>>()?;
            let mut lines = merge(&ranks);
            lines.extend(
                read(&logs.join("launch.log"))?
                    .iter()
                    .map(|l| format!("[launch] {l}")),
            );
            lines
        }
    };
    if let Some(wanted) = &query.grep {
        lines.retain(|line| line.contains(wanted.as_str()));
    }
    let skip = query
        .tail
        .map_or(0, |count| lines.len().saturating_sub(count));
    Ok(lines[skip..].join("\n"))
}

fn read(path: &Path) -> Result<Vec<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes)
            .lines()
            .map(str::to_owned)
            .collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::io(path)(e)),
    }
}

/// Lines of all ranks, rank after rank; a line that all of them printed stands once, where the
/// first rank printed it.
fn merge(ranks: &[Vec<String>]) -> Vec<String> {
    if let [only] = ranks {
        return only.clone();
    }
    let mut counts: HashMap<&str, Vec<usize>> = HashMap::new();
    for (rank, lines) in ranks.iter().enumerate() {
        for line in lines {
            counts.entry(line).or_insert_with(|| vec![0; ranks.len()])[rank] += 1;
        }
    }
    // As many copies of a line are shared as the rank with the fewest has.
    let shared: HashMap<&str, usize> = counts
        .iter()
        .map(|(line, count)| (*line, *count.iter().min().unwrap_or(&0)))
        .collect();
    let mut out = Vec::new();
    for (rank, lines) in ranks.iter().enumerate() {
        let mut left = shared.clone();
        for line in lines {
            match left.get_mut(line.as_str()).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    if rank == 0 {
                        out.push(format!("[all {} ranks] {line}", ranks.len()));
                    }
                }
                None => out.push(format!("[rank {rank}] {line}")),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::sample;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|l| (*l).to_owned()).collect()
    }

    #[test]
    fn lines_of_all_ranks_stand_once_and_no_line_is_lost() {
        let zero = lines(&["start", "rows 10", "x", "x", "end"]);
        let one = lines(&["start", "rows 11", "x", "end"]);
        let merged = merge(&[zero, one]);
        let expected = [
            "[all 2 ranks] start",
            "[rank 0] rows 10",
            "[all 2 ranks] x",
            "[rank 0] x",
            "[all 2 ranks] end",
            "[rank 1] rows 11",
        ];
        assert_eq!(merged, expected);
    }

    #[test]
    fn a_query_chooses_rank_text_and_end() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("logs")).expect("folder");
        sample("20260102-030405-abcd")
            .write(dir.path())
            .expect("manifest");
        std::fs::write(
            dir.path().join("logs/rank-1.log"),
            "halo 1\nother\nhalo 2\n",
        )
        .expect("log");
        std::fs::write(dir.path().join("logs/launch.log"), "said\n").expect("log");
        let ask = |rank, tail, grep: Option<&str>| {
            log(
                dir.path(),
                LogQuery {
                    rank,
                    tail,
                    grep: grep.map(str::to_owned),
                },
            )
        };
        assert_eq!(
            ask(Some(1), None, Some("halo")).expect("reads"),
            "halo 1\nhalo 2"
        );
        assert_eq!(ask(Some(1), Some(1), None).expect("reads"), "halo 2");
        assert_eq!(
            ask(None, Some(2), None).expect("reads"),
            "[rank 1] halo 2\n[launch] said"
        );
        assert!(
            ask(Some(2), None, None)
                .unwrap_err()
                .to_string()
                .contains("ranks 0 to 1")
        );
    }
}
