//! How often a row crosses from the host to a device.

use crate::spec::{Knob, Knobs, Value};

/// The ladder of HongTu's Figure 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dedup {
    /// Each chunk loads all its neighbours, those of other devices from their hosts.
    None,
    /// Each batch loads them once; devices fetch what others have loaded.
    Peer,
    /// And what the batch before had stays where it is.
    Reuse,
}

const ALL: [(&str, Dedup); 3] = [
    ("none", Dedup::None),
    ("p2p", Dedup::Peer),
    ("p2p+ru", Dedup::Reuse),
];

/// The setting.
pub(super) const KNOB: Knob = Knob {
    name: "dedup",
    default: "p2p+ru",
    doc: "how rows that several chunks read are loaded: none (by each), p2p (once a batch), p2p+ru (and kept from the batch before)",
    check: |v| matches!(v, Value::Str(text) if ALL.iter().any(|(name, _)| name == text)),
};

impl Dedup {
    /// Of a request.
    pub(super) fn of(knobs: &Knobs) -> Dedup {
        let asked = knobs.word("dedup");
        let found = ALL.iter().find(|(name, _)| *name == asked);
        found.map_or(Dedup::Reuse, |(_, dedup)| *dedup)
    }
}
