//! A variable of the notebook on its way to ranks: its type and its value, as text.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where `type_name` says where a type lies and not how it is written.
const WRITTEN: &[(&str, &str)] = &[
    ("alloc::vec::Vec", "std::vec::Vec"),
    ("alloc::string::String", "std::string::String"),
    ("alloc::collections::btree::map::", "std::collections::"),
    ("alloc::collections::btree::set::", "std::collections::"),
    ("alloc::collections::vec_deque::", "std::collections::"),
    ("std::collections::hash::map::", "std::collections::"),
    ("std::collections::hash::set::", "std::collections::"),
    ("std::hash::random::RandomState", "std::hash::RandomState"),
    ("&str", "std::string::String"),
];

/// The variable's type on the first line, its value in JSON below.
///
/// # Panics
/// When it cannot be serialised.
pub fn hand_over<T: Serialize>(value: &T) -> String {
    let mut kind = std::any::type_name::<T>().to_owned();
    for (lies, written) in WRITTEN {
        kind = kind.replace(lies, written);
    }
    match serde_json::to_string(value) {
        Ok(json) => format!("{kind}\n{json}"),
        Err(error) => panic!("a {kind} cannot be sent to ranks: {error}"),
    }
}

/// The variable again, on a rank.
///
/// # Panics
/// When it is not of that type.
pub fn handed<T: DeserializeOwned>(json: &str) -> T {
    match serde_json::from_str(json) {
        Ok(value) => value,
        Err(error) => panic!("the notebook's value has not arrived: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_rust_reads_them() {
        let value = std::collections::HashMap::from([("a".to_owned(), vec![1.5f64])]);
        let text = hand_over(&value);
        let (kind, json) = text.split_once('\n').expect("two lines");
        assert!(
            kind.starts_with("std::collections::HashMap<std::string::String"),
            "{kind}"
        );
        let back: std::collections::HashMap<String, Vec<f64>> = handed(json);
        assert_eq!(back, value);
    }
}
