//! Spans of time, each counted once.

use std::ops::Range;

/// The parts of a span that the ranges cover together, apart and in order.
pub(super) fn covered(mut ranges: Vec<Range<u64>>, span: Range<u64>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|r| r.start);
    let (mut parts, mut from) = (Vec::new(), span.start);
    for range in ranges {
        let (start, end) = (range.start.max(from), range.end.min(span.end));
        if start < end {
            parts.push(start..end);
        }
        from = from.max(end);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::covered;

    #[test]
    fn what_overlaps_is_counted_once() {
        let ranges = vec![5..15, 0..3, 12..20, 13..14, 30..u64::MAX];
        assert_eq!(
            covered(ranges.clone(), 1..40),
            [1..3, 5..15, 15..20, 30..40]
        );
        assert_eq!(covered(ranges, 16..18).first(), Some(&(16..18)));
        assert!(covered(Vec::new(), 0..9).is_empty());
    }
}
