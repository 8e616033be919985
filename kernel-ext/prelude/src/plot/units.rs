//! Numbers as a person reads them; every one carries its unit.

/// Milliseconds with three significant digits: `5.23 ms`, `12.3 s`, `-` when unknown.
pub(crate) fn ms(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v.abs() >= 60_000.0 => format!("{:.1} min", v / 60_000.0),
        v if v.abs() >= 10_000.0 => format!("{:.1} s", v / 1000.0),
        v if v.abs() >= 100.0 => format!("{v:.0} ms"),
        v if v.abs() >= 10.0 => format!("{v:.1} ms"),
        v if v.abs() >= 0.01 || v == 0.0 => format!("{v:.2} ms"),
        v => format!("{:.1} µs", v * 1000.0),
    }
}

/// Bytes in binary units: `812 B`, `1.4 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 || unit == "TiB" {
            return match unit {
                "B" => format!("{value:.0} B"),
                _ if value < 10.0 => format!("{value:.2} {unit}"),
                _ if value < 100.0 => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// A count with thin groups: `12 345`; SI above a million.
pub(crate) fn count(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    if value.abs() >= 1e7 {
        return format!("{:.1} M", value / 1e6);
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// A ratio as percent: `61 %`, `0.4 %`.
pub(crate) fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        v if !v.is_finite() => "-".into(),
        v if v != 0.0 && v.abs() < 9.95 => format!("{v:.1} %"),
        v => format!("{v:.0} %"),
    }
}

/// A loss or an accuracy.
pub(crate) fn score(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".into(),
        v if v != 0.0 && v.abs() < 1e-3 => format!("{v:.2e}"),
        v if v.abs() >= 1000.0 => format!("{v:.3e}"),
        v => format!("{v:.4}"),
    }
}

/// A number at an axis whose numbers are about `step` apart: as few digits as tell it from its neighbours.
pub(crate) fn tick(value: f64, step: f64) -> String {
    let step = if step > 0.0 {
        step
    } else {
        value.abs().max(1.0)
    };
    if value.abs() < step * 1e-6 {
        return "0".into();
    }
    // One digit more than the step has: its own first digit may be a 2 or a 5.
    let places = |of: f64| (1.0 - of.log10()).ceil().clamp(0.0, 9.0) as usize;
    if value.abs() >= 1e6 || value.abs() < 1e-3 {
        let scale = 10_f64.powi(value.abs().log10().floor() as i32);
        let (mantissa, power) = (value / scale, scale.log10().round() as i32);
        return format!(
            "{}e{power}",
            short(format!("{mantissa:.*}", places(step / scale)))
        );
    }
    short(format!("{value:.*}", places(step)))
}

/// Without zeros that say nothing.
fn short(number: String) -> String {
    match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number,
    }
}

/// Three digits, or all of a whole number.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".into(),
        v if v >= 1e6 => format!("{value:.3e}"),
        v if value.fract() == 0.0 || v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 1e-3 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// `1 epoch`, `2 epochs`.
pub(crate) fn plural(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// The middle value; of the finite ones, NaN when there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loss that hardly falls, bytes by the million, and all between.
    #[test]
    fn numbers_of_an_axis_differ() {
        for (low, step) in [
            (0.7012, 0.0002),
            (0.0, 0.25),
            (1.2e6, 2e4),
            (3e-5, 5e-6),
            (95.0, 2.5),
        ] {
            let numbers: Vec<String> = (0..6)
                .map(|k| tick(low + step * f64::from(k), step))
                .collect();
            let mut distinct = numbers.clone();
            distinct.dedup();
            assert_eq!(distinct, numbers, "{low} by {step}");
        }
    }

    #[test]
    fn units_are_named_and_short() {
        assert_eq!(
            [ms(5.234), ms(0.004), ms(12_345.0), ms(f64::NAN)],
            ["5.23 ms", "4.0 µs", "12.3 s", "-"]
        );
        assert_eq!(
            [bytes(812.0), bytes(1.5 * 1024.0 * 1024.0), bytes(1024.0)],
            ["812 B", "1.50 MiB", "1.00 KiB"]
        );
        assert_eq!(count(12345.0), "12\u{202f}345");
        assert_eq!([percent(0.614), percent(0.004)], ["61 %", "0.4 %"]);
        assert_eq!(
            [
                tick(0.5, 0.1),
                tick(200.0, 50.0),
                tick(0.0, 1.0),
                tick(2.5e6, 5e5)
            ],
            ["0.5", "200", "0", "2.5e6"]
        );
        assert_eq!(median([3.0, f64::NAN, 1.0]), 2.0);
        assert!(median([]).is_nan());
    }
}
