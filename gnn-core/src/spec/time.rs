//! Times as people write them.

/// Seconds of `30`, `30s`, `1.5 min`, `200ms`, `2h`; none for anything else.
pub fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E');
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number = number.trim().parse::<f64>().ok();
    number
        .map(|x| x * factor)
        .filter(|x| *x >= 0.0 && x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        for (text, wanted) in [
            ("30", 30.0),
            ("30s", 30.0),
            ("1.5 min", 90.0),
            ("2h", 7200.0),
            ("1e2", 100.0),
            ("250ms", 0.25),
        ] {
            assert_eq!(seconds(text), Some(wanted), "{text}");
        }
        for text in ["", "s", "-1s", "2 days", "soon", "inf"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
