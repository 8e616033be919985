//! What a request asks for.

use super::dedup::{self, Dedup};
use super::remember::{self, Remember};
use crate::device;
use crate::partition::Throughputs;
use crate::spec::{Knob, RunSpec, Value};

/// Chunks of a device for which nobody chose a number or a budget.
const CHUNKS: usize = 4;

/// The setting that says how much memory the host has.
const HOST_MEM: &str = "host_mem";

/// The setting that says how fast rows move.
const THROUGHPUTS: &str = "throughputs";

/// Of the paper's machine, GB/s: PCIe 4, NVLink, and a GPU's memory.
const OF_PAPER: Throughputs = Throughputs {
    host: 12.0,
    peer: 50.0,
    reuse: 600.0,
};

/// Three positive numbers; none for other words.
fn throughputs(text: &str) -> Option<Throughputs> {
    let numbers: Vec<f64> = text
        .split(',')
        .map(|word| {
            word.trim()
                .parse()
                .ok()
                .filter(|&x: &f64| x > 0.0 && x < 1e9)
        })
        .collect::<Option<_>>()?;
    let [host, peer, reuse] = numbers[..] else {
        return None;
    };
    Some(Throughputs { host, peer, reuse })
}

/// Fills in what was measured on this machine, in bytes a second, where a request leaves it open and the device
/// is a part of the host.
pub(super) fn measured(spec: &mut RunSpec, of: &Throughputs) {
    if spec.knobs.word(THROUGHPUTS) == "auto" && spec.backend == "cpu" {
        let [host, peer, reuse] = [of.host, of.peer, of.reuse].map(|rate| rate / 1e9);
        let text = format!("{host:.1},{peer:.1},{reuse:.1}");
        spec.knobs.set(THROUGHPUTS, Value::Str(text));
    }
}

/// How a request is trained.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Chunks of each device; none for as few as fit.
    pub(super) chunks: Option<usize>,
    pub(super) dedup: Dedup,
    /// What is kept of a layer that aggregates with fixed weights, of which backward reads the aggregate and
    /// own rows, or more; and of others.
    pub(super) remembers: [Remember; 3],
    /// Whether more is kept of each layer as far as that fits.
    pub(super) chooses: bool,
    /// How fast rows move, where chunks go in the order that costs least by that.
    pub(super) reorganise: Option<Throughputs>,
    /// Whether layers whose product is narrower than their input multiply first.
    pub(super) narrower: bool,
    /// Whether rows of the next batch are copied to the device beside what is computed of this one.
    pub(super) overlap: bool,
    /// Bytes of the device; 0 is no limit.
    pub(super) budget: u64,
    /// Bytes of the host, with a disk behind it; 0 is no limit, and no disk.
    pub(super) host: u64,
}

impl How {
    /// `hongtu`.
    pub(super) fn of(spec: &RunSpec) -> How {
        let knobs = &spec.knobs;
        let budget = device::budget(knobs);
        let chooses = knobs.word("memory") == "auto";
        How {
            chunks: match knobs.word("chunks") {
                "auto" if budget > 0 || chooses => None,
                "auto" => Some(CHUNKS),
                _ => Some(knobs.count("chunks")),
            },
            dedup: Dedup::of(knobs),
            remembers: Remember::of(knobs),
            chooses,
            reorganise: knobs
                .flag("reorganise")
                .then(|| throughputs(knobs.word(THROUGHPUTS)).unwrap_or(OF_PAPER)),
            narrower: knobs.flag(NARROWER.name),
            overlap: knobs.flag(OVERLAP.name),
            budget,
            host: device::bytes(knobs, HOST_MEM),
        }
    }

    /// Whether everything may stay on the device, if it fits there.
    pub(super) fn keeps_all(&self) -> bool {
        let one = self.chunks.is_none_or(|chunks| chunks == 1);
        self.chooses && self.narrower && one && self.host == 0
    }
}

const NARROWER: Knob = Knob {
    name: "narrower",
    default: "true",
    doc: "layers of GCN and SAGE whose product is narrower than their input multiply before they aggregate, instead of behind it, as in the paper",
    check: |v| matches!(v, Value::Bool(_)),
};

const OVERLAP: Knob = Knob {
    name: "overlap",
    default: "false",
    doc: "rows that the next batch reads are copied to the device beside what is computed of this one, by a thread of the host, and to a GPU on a stream of their own; the room they wait in is a part of device_mem. Rows with a disk behind them (host_mem) are read ahead from that instead",
    check: |v| matches!(v, Value::Bool(_)),
};

/// The settings of `hongtu`.
pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "chunks",
        default: "auto",
        doc: "chunks of each rank's vertices, which its device computes one after the other: a number, or auto for as few as fit into device_mem, and 4 without it",
        check: |v| match v {
            Value::Str(word) => word == "auto",
            Value::Int(n) => (1..=0xffff).contains(n),
            _ => false,
        },
    },
    device::device_mem(
        "bytes of the device that hold a chunk's rows, edges and all that a layer makes of them, as in 512MB; 0 is no limit",
    ),
    device::memory(
        HOST_MEM,
        "bytes of each rank's host for rows and gradients of all layers, edges and lists of what moves, as in 1GB; what does not fit lies in a file of the run's folder; 0 is no limit",
    ),
    dedup::KNOB,
    remember::KNOB,
    Knob {
        name: "reorganise",
        default: "true",
        doc: "chunks go in an order in which those that follow each other read most in common, instead of that of their vertices",
        check: |v| matches!(v, Value::Bool(_)),
    },
    Knob {
        name: THROUGHPUTS,
        default: "auto",
        doc: "GB/s from host to device, from device to device and within a device, by which orders of chunks are compared, as in 12,50,600; auto as measured on this machine, and 12,50,600 for a GPU",
        check: |v| match v {
            Value::Str(text) => text == "auto" || throughputs(text).is_some(),
            _ => false,
        },
    },
    NARROWER,
    OVERLAP,
];

/// The settings of `hongtu-im`.
pub(super) const IN_MEMORY: &[Knob] = &[device::device_mem(
    "bytes of the device that hold everything, as in 512MB; 0 is no limit",
)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelKind;
    use crate::strategy::hongtu::ENTRY;

    #[test]
    fn throughputs_are_three_positive_numbers_and_kept_as_they_were_measured() {
        assert_eq!(throughputs(" 12, 50,600"), Some(OF_PAPER));
        for wrong in [
            "auto", "1,2", "1,2,3,4", "1,0,3", "1,-2,3", "1,x,3", "1,2,inf",
        ] {
            assert_eq!(throughputs(wrong), None, "{wrong}");
        }
        let mut spec = crate::strategy::tests::spec(&ENTRY, ModelKind::Gcn, 2, 4);
        assert_eq!(How::of(&spec).reorganise, Some(OF_PAPER));
        let rates = Throughputs {
            host: 9.06e9,
            peer: 4.5e9,
            reuse: 21e9,
        };
        measured(&mut spec, &rates);
        assert_eq!(spec.knobs.word(THROUGHPUTS), "9.1,4.5,21.0");
        // What a request says stays, also when it is decided again.
        measured(&mut spec, &OF_PAPER);
        assert_eq!(How::of(&spec).reorganise.map(|t| t.host), Some(9.1));
    }
}
