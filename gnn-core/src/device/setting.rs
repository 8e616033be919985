//! The setting that says how much memory a device has.

use crate::spec::{self, Knob, Knobs, Value};

/// The name of the setting.
pub const NAME: &str = "device_mem";

/// The setting of a strategy that keeps a device apart from the host; `doc` says what has to fit.
pub const fn device_mem(doc: &'static str) -> Knob {
    memory(NAME, doc)
}

/// A setting that is a number of bytes, as in 512MB; 0 is no limit.
pub const fn memory(name: &'static str, doc: &'static str) -> Knob {
    Knob {
        name,
        default: "0",
        doc,
        check: |v| match v {
            Value::Int(n) => *n >= 0,
            Value::Str(text) => spec::bytes(text).is_some(),
            _ => false,
        },
    }
}

/// Bytes of a request's device; 0 is no limit.
pub fn budget(knobs: &Knobs) -> u64 {
    bytes(knobs, NAME)
}

/// Bytes of a setting; 0 is no limit.
pub fn bytes(knobs: &Knobs, name: &str) -> u64 {
    match knobs.get(name) {
        Some(Value::Str(text)) => spec::bytes(text).unwrap_or(0),
        Some(Value::Int(n)) => u64::try_from(*n).unwrap_or(0),
        _ => 0,
    }
}
