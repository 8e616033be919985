//! The three bounds: who is active in an epoch.

/// How stale kept rows may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// So many epochs, for all ranks alike.
    EpochFixed(u64),
    /// So many epochs, one rank after the other.
    EpochAdaptive(u64),
    /// So far from the present rows.
    Variation(f64),
}

impl Bound {
    /// Reads `epoch-fixed=1`, `epoch-adaptive=1` or `variation=0.01`.
    pub(super) fn parse(text: &str) -> Option<Bound> {
        let (kind, value) = text.split_once('=')?;
        match kind.trim() {
            "epoch-fixed" => value.trim().parse().ok().map(Bound::EpochFixed),
            "epoch-adaptive" => value.trim().parse().ok().map(Bound::EpochAdaptive),
            "variation" => {
                let most: f64 = value.trim().parse().ok()?;
                (most >= 0.0 && most.is_finite()).then_some(Bound::Variation(most))
            }
            _ => None,
        }
    }

    /// Whether only a rank itself knows that it is active.
    pub(super) fn needs_agreement(self) -> bool {
        matches!(self, Bound::Variation(_))
    }
}

fn is_old(version: Option<u64>, epoch: u64, most: u64) -> bool {
    version.is_none_or(|version| epoch - version > most)
}

/// Algorithm 4, out of the epoch of every rank's kept rows.
pub(super) fn epoch_fixed(versions: &[Option<u64>], epoch: u64, most: u64) -> Vec<bool> {
    let old = versions.iter().map(|&version| is_old(version, epoch, most));
    old.collect()
}

/// Algorithm 5: every rank makes one of the others active whose rows are too old, the oldest first
/// and of equals the lowest rank, and looks no further. Where nothing is kept yet, all are active.
///
/// The paper looks at the ranks in their order and takes the first that is too old. With more than
/// `2 · (most + 1)` ranks the first ones are too old again before the last were ever reached.
pub(super) fn epoch_adaptive(versions: &[Option<u64>], epoch: u64, most: u64) -> Vec<bool> {
    let mut active: Vec<bool> = versions.iter().map(Option::is_none).collect();
    for asks in 0..versions.len() {
        let others = (0..versions.len()).filter(|&j| j != asks && is_old(versions[j], epoch, most));
        if let Some(oldest) = others.min_by_key(|&j| (versions[j], j)) {
            active[oldest] = true;
        }
    }
    active
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epochs in which each of `ranks` is active, of the first `epochs`.
    fn schedule(
        ranks: usize,
        epochs: u64,
        rule: impl Fn(&[Option<u64>], u64) -> Vec<bool>,
    ) -> Vec<Vec<u64>> {
        let mut versions = vec![None; ranks];
        let mut active_in = vec![Vec::new(); ranks];
        for epoch in 0..epochs {
            for (rank, active) in rule(&versions, epoch).into_iter().enumerate() {
                if active {
                    versions[rank] = Some(epoch);
                    active_in[rank].push(epoch);
                }
            }
        }
        active_in
    }

    #[test]
    fn fixed_bounds_are_active_every_so_many_epochs() {
        let every = |most| schedule(3, 10, move |v, e| epoch_fixed(v, e, most));
        assert_eq!(every(0), vec![(0..10).collect::<Vec<_>>(); 3]);
        assert_eq!(every(1), vec![vec![0, 2, 4, 6, 8]; 3]);
        assert_eq!(every(3), vec![vec![0, 4, 8]; 3]);
    }

    /// As in Figure 14b: the first two that are too old, then the next two.
    #[test]
    fn adaptive_bounds_refresh_ranks_at_different_epochs() {
        let four = schedule(4, 8, |v, e| epoch_adaptive(v, e, 1));
        assert_eq!(four[0], [0, 2, 4, 6]);
        assert_eq!(four[1], four[0]);
        assert_eq!(four[2], [0, 3, 5, 7]);
        assert_eq!(four[3], four[2]);
        // Of five, nobody is left out.
        let five = schedule(5, 9, |v, e| epoch_adaptive(v, e, 1));
        let expected = [
            vec![0, 2, 4, 6, 8],
            vec![0, 2, 5, 7],
            vec![0, 3, 5, 8],
            vec![0, 3, 6],
            vec![0, 4, 7],
        ];
        assert_eq!(five, expected);
        for ranks in 2..20usize {
            let longest = 1 + ranks.div_ceil(2) as u64;
            for epochs in schedule(ranks, 60, |v, e| epoch_adaptive(v, e, 1)) {
                assert!(
                    epochs.windows(2).all(|e| e[1] - e[0] <= longest),
                    "{ranks}: {epochs:?}"
                );
            }
        }
    }

    #[test]
    fn a_rank_alone_asks_about_nobody() {
        assert_eq!(epoch_adaptive(&[Some(0)], 9, 0), [false]);
        assert_eq!(epoch_fixed(&[Some(0)], 9, 0), [true]);
    }

    #[test]
    fn bounds_are_read_or_refused() {
        assert_eq!(Bound::parse("epoch-fixed=3"), Some(Bound::EpochFixed(3)));
        assert_eq!(
            Bound::parse("epoch-adaptive = 0"),
            Some(Bound::EpochAdaptive(0))
        );
        assert_eq!(Bound::parse("variation=1e-2"), Some(Bound::Variation(0.01)));
        for text in [
            "",
            "3",
            "epoch-fixed",
            "epoch-fixed=-1",
            "epoch-fixed=1.5",
            "variation=nan",
            "variation=-1",
            "age=1",
        ] {
            assert_eq!(Bound::parse(text), None, "{text}");
        }
    }
}
