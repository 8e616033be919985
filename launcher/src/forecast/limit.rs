//! Refusing what cannot fit, with numbers.

use super::foresee::Foreseen;
use crate::error::Error;
use crate::resolve::{Resolved, Starter};

/// Without a limit, a run is refused when it would need so many times what this machine has free.
const SURELY: f64 = 1.25;

/// A size as people read it.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} kB", b / 1e3),
    }
}

/// The rank that needs most.
struct Worst {
    rank: u32,
    need: u64,
    /// Its largest item, and the bytes of that.
    item: (&'static str, u64),
}

fn worst(ranks: &[Foreseen]) -> Option<Worst> {
    let known = ranks.iter().filter_map(|rank| {
        Some(Worst {
            rank: rank.rank,
            need: rank.memory()?,
            item: rank.largest()?,
        })
    });
    known.max_by_key(|worst| worst.need)
}

/// The rank that exceeds `limit` bytes by most, in words; none where all fit, as far as is known.
pub fn exceeds(ranks: &[Foreseen], limit: u64) -> Option<String> {
    let Worst { rank, need, item } = worst(ranks)?;
    let (name, bytes) = (item.0, size(item.1));
    let (need, limit, over) = (size(need), size(limit), need > limit);
    over.then(|| format!("rank {rank} would need {need} of {limit}: {name} {bytes}"))
}

/// Refuses a run whose ranks exceed the request's limit, or together what was `free` of this machine's
/// memory before anything was read, clearly.
///
/// # Errors
/// [`Error::PlanRefused`] with the rank, its largest item, and what to do.
pub fn check(resolved: &Resolved, ranks: &[Foreseen], free: Option<u64>) -> Result<(), Error> {
    let refuse = |what: String| Error::PlanRefused {
        what,
        help: "use more ranks (-n), another strategy or a smaller model; see halobook plan; \
               --force starts it all the same"
            .into(),
    };
    let limit = resolved.plan.spec.limit;
    if limit > 0 {
        return exceeds(ranks, limit).map_or(Ok(()), |what| Err(refuse(what)));
    }
    let here = resolved.starter != Starter::Slurm && resolved.plan.spec.backend == "cpu";
    let all: u64 = ranks.iter().filter_map(Foreseen::memory).sum();
    match free {
        Some(free) if here && all as f64 > SURELY * free as f64 => {
            let largest = worst(ranks).map_or(String::new(), |w| {
                let (name, bytes) = (w.item.0, size(w.item.1));
                format!(
                    "; most of rank {}'s {} is {name} {bytes}",
                    w.rank,
                    size(w.need)
                )
            });
            Err(refuse(format!(
                "{} rank(s) would need {} of the {} that this machine has free{largest}",
                ranks.len(),
                size(all),
                size(free)
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::record::Holds;

    fn rank(rank: u32, halo: usize, setup: u64) -> Foreseen {
        Foreseen {
            rank,
            holds: Some(Holds {
                graph: 1_000_000_000,
                halo,
                ..Holds::default()
            }),
            setup,
            program: Some(20_000_000),
            ..Foreseen::default()
        }
    }

    #[test]
    fn the_largest_rank_and_item_are_named() {
        let ranks = [rank(0, 2_000_000, 0), rank(1, 4_200_000_000, 9)];
        assert_eq!(
            exceeds(&ranks, 6_000_000_000).expect("does not fit"),
            "rank 1 would need 6.3 GB of 6.0 GB: halo buffer 4.2 GB"
        );
        assert_eq!(exceeds(&ranks, 7_000_000_000), None);
        let reads = [rank(0, 0, 3_000_000_000)];
        let said = exceeds(&reads, 1_000_000).expect("does not fit");
        assert!(said.ends_with("set-up 3.0 GB"), "{said}");
    }

    #[test]
    fn what_is_not_known_is_not_refused() {
        let unknown = Foreseen::default();
        assert_eq!(unknown.memory(), None);
        assert_eq!(exceeds(&[unknown], 1), None);
    }
}
