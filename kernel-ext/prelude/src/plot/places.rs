//! Places for the names of dots, where they cover neither one another nor a dot.

/// Half the side of what a dot takes, px.
const DOT: i32 = 6;
/// Rows above and below a dot that are tried, in turn.
const ROWS: [i32; 8] = [-13, 13, -27, 27, -41, 41, -55, 55];

/// A rectangle: left, top, right, bottom, px.
type Rect = [i32; 4];

fn overlap(a: Rect, b: Rect) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Left end and middle line of a name for each of `dots`, whose names are so many px `wide` and `high`, within an
/// area of `room` px; none where there is no free place near the dot.
pub(super) fn places(
    dots: &[(i32, i32)],
    wide: &[i32],
    high: i32,
    room: (i32, i32),
) -> Vec<Option<(i32, i32)>> {
    let mut taken: Vec<Rect> = dots
        .iter()
        .map(|(x, y)| [x - DOT, y - DOT, x + DOT, y + DOT])
        .collect();
    let place = |(&(x, y), &wide): (&(i32, i32), &i32)| {
        let free = |(left, middle): (i32, i32)| -> Option<Rect> {
            let rect = [left, middle - high / 2, left + wide, middle + high / 2];
            let inside = rect[0] >= 0 && rect[1] >= 0 && rect[2] <= room.0 && rect[3] <= room.1;
            (inside && !taken.iter().any(|other| overlap(*other, rect))).then_some(rect)
        };
        let beside = ROWS.iter().flat_map(|dy| {
            [
                (x + 6, y + dy),
                (x - 6 - wide, y + dy),
                (x - wide / 2, y + dy),
            ]
        });
        let level = [(x + 10, y), (x - 10 - wide, y)].into_iter();
        let rect = level.chain(beside).find_map(free)?;
        taken.push(rect);
        Some((rect[0], rect[1] + high / 2))
    };
    dots.iter().zip(wide).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_nothing() {
        let dots: Vec<(i32, i32)> = (0..12)
            .map(|k| (300 + 9 * (k % 4), 150 + 7 * (k / 4)))
            .collect();
        let wide = vec![90; dots.len()];
        let found = places(&dots, &wide, 14, (700, 380));
        let rects: Vec<Rect> = found
            .iter()
            .flatten()
            .map(|(x, y)| [*x, y - 7, x + 90, y + 7])
            .collect();
        assert!(rects.len() >= 8, "{found:?}");
        for (k, a) in rects.iter().enumerate() {
            assert!(rects[k + 1..].iter().all(|b| !overlap(*a, *b)), "{rects:?}");
            assert!(
                dots.iter()
                    .all(|(x, y)| !overlap(*a, [*x, *y, x + 1, y + 1]))
            );
        }
    }
}
