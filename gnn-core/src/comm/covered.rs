//! Spans of time, each counted once.

use std::ops::Range;

/// How much of a span the ranges cover together.
pub(super) fn covered(mut ranges: Vec<Range<u64>>, span: Range<u64>) -> u64 {
    ranges.sort_unstable_by_key(|r| r.start);
    let (mut sum, mut from) = (0, span.start);
    for range in ranges {
        let (start, end) = (range.start.max(from), range.end.min(span.end));
        sum += end.saturating_sub(start);
        from = from.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::covered;

    #[test]
    fn what_overlaps_is_counted_once() {
        let ranges = vec![5..15, 0..3, 12..20, 13..14, 30..u64::MAX];
        assert_eq!(covered(ranges.clone(), 1..40), 2 + 15 + 10);
        assert_eq!(covered(ranges, 16..18), 2);
        assert_eq!(covered(Vec::new(), 0..9), 0);
    }
}
