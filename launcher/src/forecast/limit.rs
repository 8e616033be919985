//! Refusing what cannot fit, with numbers.

use super::foresee::Foreseen;
use crate::error::Error;
use crate::resolve::{Resolved, Starter};
use gnn_core::memory::Memory;

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

fn refuse(what: String) -> Error {
    Error::PlanRefused {
        what,
        help: "use more ranks (-n), another strategy or a smaller model; see halobook plan; \
               --force starts it all the same"
            .into(),
    }
}

/// Refuses a run of which the weights of a rank, their gradients and the optimiser's moments exceed what a
/// process `may` have, before anything of that size is asked for. A rank may have only its share of the layers.
///
/// # Errors
/// [`Error::PlanRefused`].
pub fn check_parameters(resolved: &Resolved, parameters: u64, may: u64) -> Result<(), Error> {
    let ranks = match resolved.plan.in_process {
        true => 1,
        false => resolved.plan.spec.ranks as u64,
    };
    let least = parameters / ranks;
    match least > may {
        true => Err(refuse(format!(
            "a process would need at least {} of the {} that its limits leave it (ulimit -v, -d) for weights, their \
             gradients and the optimizer",
            size(least),
            size(may)
        ))),
        false => Ok(()),
    }
}

/// Refuses a run whose ranks exceed the request's limit, or clearly what there was of `memory` before anything
/// was read: together what this machine has free, and each process what it may have.
///
/// # Errors
/// [`Error::PlanRefused`] with the rank, its largest item, and what to do.
pub fn check(resolved: &Resolved, ranks: &[Foreseen], memory: Memory) -> Result<(), Error> {
    let limit = resolved.plan.spec.limit;
    if limit > 0 {
        return exceeds(ranks, limit).map_or(Ok(()), |what| Err(refuse(what)));
    }
    let here = resolved.starter != Starter::Slurm && resolved.plan.spec.backend == "cpu";
    let Some(largest) = worst(ranks).filter(|_| here) else {
        return Ok(());
    };
    let all: u64 = ranks.iter().filter_map(Foreseen::memory).sum();
    let (name, bytes) = (largest.item.0, size(largest.item.1));
    let (rank, need) = (largest.rank, size(largest.need));
    let most = format!("most of rank {rank}'s {need} is {name} {bytes}");
    let surely = |need: u64, has: u64| need as f64 > SURELY * has as f64;
    if let Some(free) = memory.machine_left.filter(|free| surely(all, *free)) {
        let (n, all, free) = (ranks.len(), size(all), size(free));
        return Err(refuse(format!(
            "{n} rank(s) would need {all} of the {free} that this machine has free; {most}"
        )));
    }
    // Ranks that are threads of one process share its limit.
    let one = if resolved.plan.in_process {
        all
    } else {
        largest.need
    };
    match memory.process.filter(|may| surely(one, *may)) {
        Some(may) => Err(refuse(format!(
            "a process would need {} of the {} that its limits leave it (ulimit -v, -d); {most}",
            size(one),
            size(may)
        ))),
        None => Ok(()),
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
