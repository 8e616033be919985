//! A modelled link that makes epochs longer than anybody waits.

use super::Resolved;

/// What is said of a run whose modelled link alone takes longer than its timeout, or a day.
pub(super) fn note(resolved: &Resolved) -> Option<String> {
    const DAY: f64 = 86_400.0;
    let spec = &resolved.plan.spec;
    let bytes = resolved.foreseen.iter().map(|rank| rank.bytes).max()?;
    let epoch = spec.link?.ms(bytes) / 1e3;
    let all = epoch * spec.epochs as f64;
    let patience = match spec.timeout > 0.0 {
        true => spec.timeout,
        false => DAY,
    };
    (all > patience).then(|| {
        format!(
            "link: an epoch takes at least {} by it, all {} of them {}",
            words(epoch),
            spec.epochs,
            words(all)
        )
    })
}

/// Seconds in the largest unit of which there are two.
fn words(seconds: f64) -> String {
    let units = [("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)];
    let unit = units
        .into_iter()
        .find(|(_, length)| seconds >= 2.0 * length);
    let (name, length) = unit.unwrap_or(("s", 1.0));
    format!("{:.1} {name}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn times_are_in_the_largest_unit_of_which_there_are_two() {
        let said = [0.5, 119.0, 120.0, 7_200.0, 432_000.0].map(words);
        assert_eq!(
            said,
            ["0.5 s", "119.0 s", "2.0 minutes", "2.0 hours", "5.0 days"]
        );
    }
}
