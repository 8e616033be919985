//! Damaged and arbitrary bytes: refused or read, never a panic.

use proptest::prelude::*;

use super::*;
use crate::dataset::npy;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damaged_archives_are_refused_or_read_but_never_panic(cut in 0.0f64..1.0, at in 0.0f64..1.0, bits in 0u8..=255, truncate: bool) {
        let mut zip = Arrays::valid().zip();
        if truncate {
            zip.truncate((zip.len() as f64 * cut) as usize);
        } else {
            let k = (zip.len() as f64 * at) as usize;
            zip[k] ^= bits;
        }
        let (_dir, path) = written(&[("graph.npz", &zip)]);
        let result = load_path(&path);
        prop_assert!(!truncate || result.is_err());
    }

    #[test]
    fn any_text_is_refused_or_read_but_never_panics(edges in "[-0-9a-z,. \n#;]{0,60}", labels in "[-0-9, \n]{0,30}") {
        let (_dir, path) = written(&[("edges.txt", edges.as_bytes()), ("labels.csv", labels.as_bytes())]);
        if let Ok(d) = load_path(&path) {
            d.check().expect("what was loaded is valid");
        }
    }

    #[test]
    fn any_bytes_as_an_array_never_panic(mut data in prop::collection::vec(any::<u8>(), 0..200), header: bool) {
        if header {
            let mut whole = array("<f4", &[3, 2], &[]);
            whole.append(&mut data);
            data = whole;
        }
        let read = npy::read(&data[..], "f", "a", &Limit::machine());
        if let Err(e) = read.and_then(|array| array.into_ints()) {
            let data = matches!(e, Error::Data { .. });
            prop_assert!(data);
        }
    }
}
