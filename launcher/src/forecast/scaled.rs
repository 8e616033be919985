//! A first answer in seconds: small graphs of the same kind are rehearsed, and what they came to is extended to the
//! size that was asked for.
//!
//! Two parts of the data, one four times as large as the other, are made, cut and rehearsed. Each item of the
//! fullest rank is a line through the two: what grows with the graph, and what does not. What that line is off
//! by, beside plans of the whole: `notebooks/measured/plans.md`.

use super::{Done, Wanted, foresee, machine::Machine, rows, size};
use crate::error::{Error, Result};
use crate::resolve;
use crate::store;
use gnn_core::dataset::{self, Sizes};
use gnn_core::record::rows::PlanRow;
use gnn_core::spec::RunSpec;
use std::path::PathBuf;
use std::sync::Arc;

/// What a forecast's rows say of where they come from.
pub const SCALED: &str = "forecast";

/// Edges and features of the larger part.
const EDGES: f64 = 2e6;
const ELEMENTS: f64 = 2e7;

/// How many times as large it is.
const TIMES: f64 = 4.0;

/// Below this share, a forecast is much quicker than a plan.
const MUCH: f64 = 0.2;

/// One row an item and number of ranks, of the fullest rank, as a plan. Numbers of ranks that the request cannot
/// have are left out.
///
/// # Errors
/// [`Error::Refused`] for data that cannot be made smaller, or that is planned as quickly; otherwise as
/// [`super::plan`], of the smaller data.
pub fn scaled(wanted: &Wanted) -> Result<Done> {
    let (sizes, larger) = larger(&wanted.spec.data)?;
    let (small, large) = (
        part(wanted, &sizes, larger / TIMES)?,
        part(wanted, &sizes, larger)?,
    );
    let same = |a: &PlanRow, b: &PlanRow| a.ranks == b.ranks && a.item == b.item;
    let pairs = large.iter().filter_map(|row| {
        let less = small.iter().find(|less| same(less, row))?;
        Some(extended(less, row, larger))
    });
    let rows: Vec<PlanRow> = pairs.collect();
    let over = rows.iter().filter(|row| !row.fits).map(|row| {
        let limit = size(row.limit.unwrap_or_default() as u64);
        let need = size(row.value as u64);
        format!(
            "{} rank(s): the fullest would need {need} of {limit}",
            row.ranks
        )
    });
    Done {
        id: store::new_id(),
        dir: PathBuf::new(),
        refused: over.collect(),
        notes: Vec::new(),
        rows,
    }
    .keep()
}

/// The sizes of generated data, and the larger share of it that is rehearsed.
fn larger(data: &str) -> Result<(Sizes, f64)> {
    let refuse = |what: &str| {
        let help = "leave --forecast out: the data is read, and what it comes to is counted";
        Error::refused(format!("{data} {what}"), help)
    };
    let sizes = Sizes::of(data).ok_or_else(|| refuse("cannot be made smaller"))?;
    let share = (EDGES / sizes.edges).min(ELEMENTS / sizes.elements);
    // By halves, since some data (R-MAT) has no other sizes.
    let half = |share: f64| share.log2().ceil().exp2();
    let share = half(share / 2.0).max(half(TIMES * sizes.least));
    match share > MUCH {
        true => Err(refuse("is planned as quickly as it is forecast")),
        false => Ok((sizes, share)),
    }
}

/// The fullest rank's row of each item, for every number of ranks that can be.
fn part(wanted: &Wanted, sizes: &Sizes, share: f64) -> Result<Vec<PlanRow>> {
    let small = RunSpec {
        data: sizes.part(share),
        ..wanted.spec.clone()
    };
    let data = dataset::load_for(small.data_spec(), &store::verdicts());
    let data = Arc::new(data.map_err(crate::datasets::unreadable)?);
    let machine = Machine::rates();
    let mut all = Vec::new();
    for &ranks in &wanted.counts {
        let spec = RunSpec {
            ranks,
            ..small.clone()
        };
        let resolved = match resolve::resolve_on(wanted.strategies, spec, None, &data) {
            Ok(resolved) => resolved,
            Err(_) if wanted.counts.len() > 1 => continue,
            Err(error) => return Err(error),
        };
        let seen = foresee(
            &resolved,
            Arc::clone(&data),
            wanted.strategies,
            Some(&machine),
        )?;
        all.extend(fullest(rows(&resolved, &seen)));
    }
    Ok(all)
}

/// Of each item the largest.
fn fullest(rows: Vec<PlanRow>) -> Vec<PlanRow> {
    let mut kept: Vec<PlanRow> = Vec::new();
    for row in rows {
        match kept.iter_mut().find(|other| other.item == row.item) {
            Some(other) if other.value >= row.value => {}
            Some(other) => *other = row,
            None => kept.push(row),
        }
    }
    kept
}

/// The line through a quarter and the whole of `share`, at 1.
fn extended(less: &PlanRow, row: &PlanRow, share: f64) -> PlanRow {
    let (low, high) = (share / TIMES, share);
    let slope = (row.value - less.value) / (high - low);
    let value = match row.unit.as_str() {
        "share" => row.value,
        _ => (row.value + slope.max(0.0) * (1.0 - high)).max(row.value),
    };
    let fits = row.item != "memory" || row.limit.is_none_or(|limit| value <= limit);
    PlanRow {
        // Another rank may be the fullest in another item.
        rank: 0,
        value,
        fits,
        basis: SCALED.into(),
        ..row.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::strategy::STRATEGIES;

    fn row(item: &str, value: f64, limit: Option<f64>) -> PlanRow {
        PlanRow {
            ranks: 2,
            rank: 0,
            item: item.into(),
            value,
            unit: "bytes".into(),
            basis: "exact".into(),
            limit,
            fits: true,
        }
    }

    #[test]
    fn what_does_not_grow_stays_and_what_grows_is_held_against_the_limit() {
        let same = extended(
            &row("optimizer", 7.0, None),
            &row("optimizer", 7.0, None),
            0.1,
        );
        assert_eq!((same.value, same.basis.as_str()), (7.0, SCALED));
        let (less, more) = (
            row("memory", 30.0, Some(150.0)),
            row("memory", 60.0, Some(150.0)),
        );
        let grown = extended(&less, &more, 0.4);
        assert!((grown.value - 120.0).abs() < 1e-9 && grown.fits);
        let over = extended(&less, &more, 0.2);
        assert!((over.value - 220.0).abs() < 1e-9 && !over.fits);
    }

    #[test]
    fn a_forecast_is_near_the_plan_of_the_whole() {
        let pairs = [
            ("data", "sbm:nodes=300000,classes=4,feat=16,degree=40"),
            ("strategy", "halo"),
            ("partition", "hash"),
            ("ranks", "2"),
        ];
        let spec =
            RunSpec::from_pairs(pairs.map(|(k, v)| (k, gnn_core::spec::Value::from_word(v))));
        let wanted = Wanted {
            strategies: STRATEGIES,
            counts: vec![2],
            spec: spec.expect("a request"),
            worker: "halobook".into(),
        };
        let share_of = |data| larger(data).expect("large enough").1;
        assert_eq!(share_of("rmat:scale=24").log2().fract(), 0.0);
        assert!(larger("karate").is_err() && larger("sbm:nodes=1000").is_err());
        let (sizes, share) = larger(&wanted.spec.data).expect("large enough");
        let (small, large) = (
            part(&wanted, &sizes, share / TIMES),
            part(&wanted, &sizes, share),
        );
        let pairs = small
            .expect("rehearsed")
            .into_iter()
            .zip(large.expect("rehearsed"));
        let said: Vec<PlanRow> = pairs
            .map(|(less, row)| extended(&less, &row, share))
            .collect();
        let data = Arc::new(
            dataset::load_for(wanted.spec.data_spec(), &store::verdicts()).expect("loads"),
        );
        let resolved = resolve::resolve_on(STRATEGIES, wanted.spec.clone(), None, &data);
        let resolved = resolved.expect("resolves");
        let seen = foresee(&resolved, data, STRATEGIES, None).expect("rehearsed");
        for whole in fullest(rows(&resolved, &seen)) {
            let found = said.iter().find(|row| row.item == whole.item);
            let ratio = found.expect("an item of the plan").value / whole.value;
            assert!((0.8..1.25).contains(&ratio), "{}: {ratio}", whole.item);
        }
    }
}
