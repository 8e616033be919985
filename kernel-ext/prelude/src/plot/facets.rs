//! Lines that would overlap, dealt to rows of panels.

use super::Setting;
use super::curve::Group;
use super::ink::Ink;

/// The groups of each row, by number: all in one where a panel has styles enough, else a row for every strategy
/// that differs, else as many as there are styles.
pub(super) fn facets(groups: &[Group], settings: &[&Setting]) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..groups.len()).collect();
    if groups.len() <= Ink::LINES {
        return vec![all];
    }
    let strategy = |g: usize| settings[groups[g].members[0]].strategy.as_str();
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for g in all {
        match rows.iter_mut().find(|row| strategy(row[0]) == strategy(g)) {
            Some(row) => row.push(g),
            None => rows.push(vec![g]),
        }
    }
    let rows = rows.iter().flat_map(|row| row.chunks(Ink::LINES));
    rows.map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(strategies: &[&str]) -> Vec<Vec<usize>> {
        let settings: Vec<Setting> = strategies
            .iter()
            .map(|strategy| Setting {
                strategy: (*strategy).to_owned(),
                ..Setting::default()
            })
            .collect();
        let groups: Vec<Group> = (0..settings.len())
            .map(|m| Group {
                label: String::new(),
                members: vec![m],
            })
            .collect();
        facets(&groups, &settings.iter().collect::<Vec<_>>())
    }

    #[test]
    fn rows_are_of_a_strategy_and_of_six_at_most() {
        assert_eq!(dealt(&["a", "b", "a"]), [vec![0, 1, 2]]);
        let two = dealt(&["a", "b", "a", "b", "a", "b", "a", "b"]);
        assert_eq!(two, [vec![0, 2, 4, 6], vec![1, 3, 5, 7]]);
        assert_eq!(dealt(&["a"; 8]), [vec![0, 1, 2, 3, 4, 5], vec![6, 7]]);
    }
}
