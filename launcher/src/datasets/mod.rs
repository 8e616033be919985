//! The catalogue of data sets that people publish results on, and fetching them.
//!
//! Nothing is downloaded unless it is asked for, and never by this program itself: `curl` of the
//! system does it, where there is one. Without a network [`get`] says which files belong where.

mod fetch;
mod table;
mod unpack;

pub use fetch::{Fetched, get};
pub use table::{ALL, Accuracy, Entry, Payload, find};

use crate::error::Error;
use crate::store;
use gnn_core::error::Error as CoreError;
use std::path::PathBuf;

/// Why a data set could not be read; a name of the catalogue is told how to get it, or where it is.
pub fn unreadable(error: CoreError) -> Error {
    let entry = match &error {
        CoreError::UnknownName { kind, got, .. } if kind == "data set" => {
            ALL.iter().find(|e| e.name == got)
        }
        _ => None,
    };
    let Some(entry) = entry else {
        return error.into();
    };
    let (name, at) = (entry.name, folder(entry.name, None));
    let size = entry.bytes.div_ceil(1_000_000);
    match at.is_dir() {
        true => Error::refused(
            format!("data: {name} is in the catalogue, and data sets are named by their path"),
            format!("use its folder: data = \"{}\"", at.display()),
        ),
        false => Error::refused(
            format!("data: {name} is in the catalogue, and not on this machine"),
            format!(
                "download it ({size} MB): halobook datasets get {name}; it says then what to write"
            ),
        ),
    }
}

/// The folder of a data set's files, `$HALOBOOK_HOME/data/NAME` unless another is named.
pub fn folder(name: &str, within: Option<&str>) -> PathBuf {
    let within = within.map_or_else(|| store::home().join("data"), PathBuf::from);
    within.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_catalogue_leads_to_its_download() {
        let unknown = |got: &str| CoreError::unknown("data set", got, &["karate"]);
        let error = unreadable(unknown("cora"));
        assert!(
            error.to_string().contains("cora is in the catalogue"),
            "{error}"
        );
        assert!(error.help().contains("cora"), "{}", error.help());
        assert!(
            unreadable(unknown("coral"))
                .to_string()
                .starts_with("unknown data set")
        );
    }
}
