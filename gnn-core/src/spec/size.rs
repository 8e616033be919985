//! Bytes as people write them.

/// Bytes of `2GB`, `512MiB`, `1.5g`, `4096`; none for anything else, and for nothing.
pub fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => f64::from(1 << 20),
        "gib" => f64::from(1 << 30),
        "tib" => 1024.0 * f64::from(1 << 30),
        _ => return None,
    };
    let number = number.trim().parse::<f64>().ok();
    let number = number.filter(|x| *x > 0.0 && x.is_finite());
    number.map(|x| (x * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_systems() {
        for (text, wanted) in [
            ("4096", 4096),
            ("2GB", 2_000_000_000),
            ("1.5g", 1_500_000_000),
            ("512 MiB", 512 << 20),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(bytes(text), Some(wanted), "{text}");
        }
        for text in ["", "much", "-1GB", "2 giga", "0"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
