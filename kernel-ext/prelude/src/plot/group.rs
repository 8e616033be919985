//! Runs that repeat one setting, and what several of them have in common.

use super::setting::labels;
use super::{Case, Setting};

/// Runs of one setting but for what `same` makes equal.
pub(crate) struct Group<'a> {
    /// What tells it from the others.
    pub label: String,
    pub cases: Vec<&'a Case>,
}

/// The cases by setting, in the order in which settings come first; `same` erases what does not count, such
/// as the number of ranks.
pub(crate) fn groups<'a>(cases: &'a [Case], same: impl Fn(&mut Setting)) -> Vec<Group<'a>> {
    let erased = |case: &Case| {
        let mut setting = case.setting.clone();
        same(&mut setting);
        setting
    };
    let mut keys: Vec<(String, Setting)> = Vec::new();
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    for case in cases {
        let setting = erased(case);
        let key = setting.group();
        match keys.iter().position(|(known, _)| *known == key) {
            Some(at) => groups[at].push(case),
            None => {
                keys.push((key, setting));
                groups.push(vec![case]);
            }
        }
    }
    if groups.iter().any(|group| group.len() > 1) {
        // A seed names a run, not its repeats.
        keys.iter_mut().for_each(|(_, setting)| setting.seed = None);
    }
    let settings: Vec<&Setting> = keys.iter().map(|(_, setting)| setting).collect();
    let labels = labels(&settings).into_iter();
    labels
        .zip(groups)
        .map(|(label, cases)| Group { label, cases })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::DataFrame;

    #[test]
    fn repeats_and_rank_counts_fall_together() {
        let case = |strategy: &str, ranks, seed| Case {
            setting: Setting {
                strategy: strategy.into(),
                ranks,
                seed: Some(seed),
                ..Setting::default()
            },
            frame: DataFrame::default(),
            cut: None,
        };
        let cases = [
            case("halo", 1, 0),
            case("broadcast", 1, 0),
            case("halo", 2, 0),
            case("halo", 2, 1),
        ];
        let found = groups(&cases, |setting| setting.ranks = 0);
        let sizes: Vec<usize> = found.iter().map(|group| group.cases.len()).collect();
        assert_eq!(sizes, [3, 1]);
        assert_eq!(groups(&cases, |_| {}).len(), 3);
        assert!(found[0].label.contains("halo"), "{}", found[0].label);
    }
}
