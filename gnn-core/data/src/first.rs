//! The first element of a long list that is wrong, when most likely none is.
//!
//! Whoever looks at every element by itself, and asks after each whether another thread has found
//! something, takes ten times as long as reading them: the loop does not vectorise. Here a piece is
//! looked at whole, and only one that is wrong is searched.

use rayon::prelude::*;

/// Elements of a piece.
const PIECE: usize = 1 << 16;

/// Where the first element is of which `wrong` is true.
pub(crate) fn position<T: Sync>(
    list: &[T],
    wrong: impl Fn(&T) -> bool + Sync + Send,
) -> Option<usize> {
    let pieces = list.par_chunks(PIECE).enumerate();
    pieces.find_map_first(|(k, piece)| {
        let any = piece.iter().fold(false, |any, x| any | wrong(x));
        any.then(|| Some(k * PIECE + piece.iter().position(&wrong)?))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_is_found_wherever_it_lies() {
        let mut list = vec![1.0f32; 3 * PIECE + 5];
        let wrong = |x: &f32| !x.is_finite();
        assert_eq!(position(&list, wrong), None);
        for at in [3 * PIECE + 4, 2 * PIECE, PIECE - 1, 0] {
            list[at] = f32::NAN;
            assert_eq!(position(&list, wrong), Some(at));
        }
        assert_eq!(position(&[], wrong), None);
    }
}
