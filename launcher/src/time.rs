//! Calendar time in UTC without a calendar crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utc {
    /// Milliseconds since 1970.
    pub ms: i64,
}

impl Utc {
    /// Now.
    pub fn now() -> Utc {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Utc {
            ms: since.as_millis() as i64,
        }
    }

    /// Year, month, day, hour, minute, second.
    fn parts(self) -> [i64; 6] {
        let seconds = self.ms.div_euclid(1000);
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days to a civil date: counting from 1 March makes the leap day the last of a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        [year, month, day, rest / 3600, rest / 60 % 60, rest % 60]
    }

    /// `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    pub fn rfc3339(self) -> String {
        let [y, mo, d, h, mi, s] = self.parts();
        let ms = self.ms.rem_euclid(1000);
        format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{ms:03}Z")
    }

    /// `YYYYMMDD-HHMMSS`.
    pub fn compact(self) -> String {
        let [y, mo, d, h, mi, s] = self.parts();
        format!("{y:04}{mo:02}{d:02}-{h:02}{mi:02}{s:02}")
    }

    /// Reads what [`Utc::rfc3339`] wrote.
    pub fn parse(text: &str) -> Option<Utc> {
        let digits = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
        let (y, mo, d) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let (h, mi, s) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
        let ms = digits(20, 23).unwrap_or(0);
        if !(1..=12).contains(&mo) || !(1..=31).contains(&d) {
            return None;
        }
        let year = if mo <= 2 { y - 1 } else { y };
        let (era, month) = (year.div_euclid(400), if mo > 2 { mo - 3 } else { mo + 9 });
        let year_of_era = year.rem_euclid(400);
        let day_of_era =
            year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + d - 1;
        let days = era * 146_097 + day_of_era - 719_468;
        Some(Utc {
            ms: (((days * 24 + h) * 60 + mi) * 60 + s) * 1000 + ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_the_edges() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Utc { ms }.rfc3339(), text);
            assert_eq!(Utc::parse(text), Some(Utc { ms }));
        }
        assert_eq!(
            Utc {
                ms: 951_782_400_000
            }
            .compact(),
            "20000229-000000"
        );
        assert_eq!(Utc::parse("yesterday"), None);
    }
}
