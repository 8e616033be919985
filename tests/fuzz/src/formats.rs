//! The files that the unit tests make and damage.

#[path = "../../../gnn-core/data/src/dataset/tests/formats/made.rs"]
mod made;
#[path = "../../../gnn-core/data/src/dataset/tests/formats/py.rs"]
mod py;

/// Every format with its files.
pub fn all() -> Vec<(&'static str, made::Files)> {
    made::all()
}
