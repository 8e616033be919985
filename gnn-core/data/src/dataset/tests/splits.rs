//! Splits by number and name.

use super::*;

/// A path of four vertices with two numbered splits and one named `few`.
fn several() -> Arrays {
    let flat = |values: [u8; 8]| array("|u1", &[2, 4], &values);
    Arrays::valid()
        .with("train_masks", flat([1, 0, 0, 0, 0, 1, 0, 0]))
        .with("val_masks", flat([0, 1, 0, 0, 0, 0, 0, 1]))
        .with("test_masks", flat([0, 0, 0, 1, 1, 0, 0, 0]))
        .with("train_mask_few", bytes(&[1, 0, 0, 1]))
        .with("test_mask_few", bytes(&[0, 1, 0, 0]))
}

fn read(arrays: &Arrays, split: &str) -> Result<[Vec<bool>; 3]> {
    let (_dir, path) = written(&[("graph.npz", &arrays.zip())]);
    let d = load_split(path.to_str().expect("UTF-8"), split, 0)?;
    Ok([d.train, d.val, d.test])
}

fn ids(masks: [Vec<bool>; 3]) -> [Vec<usize>; 3] {
    masks.map(|m| (0..m.len()).filter(|&v| m[v]).collect())
}

#[test]
fn a_number_is_a_row_and_a_name_an_array() {
    let all = several();
    let of = |split: &str| ids(read(&all, split).expect("there"));
    assert_eq!(of(STANDARD), [vec![0, 1], vec![3], vec![]]);
    assert_eq!(of("0"), [vec![0], vec![1], vec![3]]);
    assert_eq!(of("1"), [vec![1], vec![3], vec![0]]);
    // The standard validation vertex is trained on here, so nothing validates.
    assert_eq!(of("few"), [vec![0, 3], vec![], vec![1]]);
}

#[test]
fn a_split_that_is_not_there_is_refused_with_what_is() {
    let says = |arrays: &Arrays, split: &str, want: &str| {
        let e = read(arrays, split).expect_err("no such split");
        let text = format!("{e}; {}", e.help());
        assert!(text.contains(want), "{text}");
    };
    says(
        &several(),
        "2",
        "there is no split 2: the data set has 2 splits",
    );
    says(&several(), "fewer", "did you mean 'few'?");
    says(&several(), "else", "few, standard");
    says(&Arrays::valid(), "0", "the data set has no numbered splits");
    let e = load_split("karate", "1", 0).expect_err("one split only");
    assert!(e.to_string().contains("karate has no split '1'"), "{e}");
}
