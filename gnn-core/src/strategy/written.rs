//! What the entry of a strategy written in a cell is made of: its struct's fields are its settings.

#[cfg(doc)]
use super::full_graph::exchange;
use super::full_graph::{StaleRow, block_rows};
use super::{Entry, Knob, Setup};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::model::{Aggregate, ModelKind};
use crate::record::frame::{FrameDef, FrameRow};
use crate::sample::Neighbourhood;
use crate::spec::{Knobs, Value};
use crate::strategy::Built;
use std::sync::Arc;

/// A type of field that is a setting.
pub trait Setting: Sized {
    /// Whether a written value is one.
    fn check(value: &Value) -> bool;
    /// The setting `name`.
    fn read(knobs: &Knobs, name: &str) -> Self;
    /// As it is written.
    fn written(&self) -> String;
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn check(value: &Value) -> bool {
                matches!(value, Value::Int(i) if <$type>::try_from(*i).is_ok())
            }
            fn read(knobs: &Knobs, name: &str) -> $type {
                match knobs.get(name) {
                    Some(Value::Int(i)) => <$type>::try_from(*i).unwrap_or_default(),
                    _ => 0,
                }
            }
            fn written(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
whole_numbers!(usize u64 u32 i64 i32);

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn check(value: &Value) -> bool {
                value.as_f64().is_some()
            }
            fn read(knobs: &Knobs, name: &str) -> $type {
                knobs.number(name) as $type
            }
            fn written(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
numbers!(f64 f32);

impl Setting for bool {
    fn check(value: &Value) -> bool {
        matches!(value, Value::Bool(_))
    }
    fn read(knobs: &Knobs, name: &str) -> bool {
        knobs.flag(name)
    }
    fn written(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn check(value: &Value) -> bool {
        matches!(value, Value::Str(text) if !text.is_empty())
    }
    fn read(knobs: &Knobs, name: &str) -> String {
        knobs.word(name).to_owned()
    }
    fn written(&self) -> String {
        self.clone()
    }
}

/// A setting of a struct, by its field's type; `default` is none where a cell has to give it.
pub fn knob<T: Setting>(name: &'static str, doc: &'static str, default: Option<T>) -> Knob {
    let default = default.map_or(String::new(), |value| value.written());
    Knob {
        name,
        default: default.leak(),
        doc,
        check: T::check,
    }
}

/// What a cell says of its strategy beside code.
pub struct About {
    /// Name in other cells.
    pub name: &'static str,
    /// Of its source, so that runs of another one are told apart.
    pub source: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its settings.
    pub knobs: Vec<Knob>,
    /// The frames it adds.
    pub frames: Vec<FrameDef>,
}

impl About {
    /// The entry of a strategy that decides when halo rows travel ([`exchange::build`]), which the frame
    /// `stale` tells of.
    pub fn exchange(mut self, build: fn(Setup, &mut Ctx) -> Result<Built>) -> Entry {
        self.frames.insert(0, StaleRow::FRAME);
        self.entry(ModelKind::ALL, build)
    }

    /// The entry of a strategy that aggregates over block rows ([`on_block_rows`]).
    pub fn block_rows(self, build: fn(Setup, &mut Ctx) -> Result<Built>) -> Entry {
        self.entry(super::broadcast::FIXED_WEIGHTS, build)
    }

    /// The entry of a strategy that trains on mini-batches as `bytegnn` does, with neighbours drawn by a rule of its
    /// own ([`on_neighbourhoods`]): bytegnn's settings and frames beside those of the rule.
    pub fn neighbourhood(mut self, build: fn(Setup, &mut Ctx) -> Result<Built>) -> Entry {
        let base = super::bytegnn::ENTRY;
        self.knobs.splice(0..0, base.knobs.iter().copied());
        self.frames.splice(0..0, base.frames.iter().copied());
        Entry {
            exact: base.exact,
            partition: base.partition,
            determinism: base.determinism,
            background: base.background,
            resumes: base.resumes,
            refuse: base.refuse,
            ..self.entry(base.models, build)
        }
    }

    /// The entry of a strategy that runs these models and is built so.
    pub fn entry(
        self,
        models: &'static [ModelKind],
        build: fn(Setup, &mut Ctx) -> Result<Built>,
    ) -> Entry {
        Entry {
            name: self.name,
            paper: format!("cell {}", self.source).leak(),
            summary: self.summary,
            models,
            knobs: self.knobs.leak(),
            frames: self.frames.leak(),
            build,
            ..Entry::BASE
        }
    }
}

/// Builds training on mini-batches whose neighbours are drawn by what `make` makes of the settings, at their owners.
/// Collective.
///
/// # Errors
/// As for `bytegnn`; [`crate::Error::Unsupported`] for a rule that draws what it may not.
pub fn on_neighbourhoods<N: Neighbourhood + 'static>(
    setup: Setup,
    cx: &mut Ctx,
    make: fn(&Knobs) -> N,
) -> Result<Built> {
    let rule = make(&cx.plan.spec.knobs);
    super::bytegnn::build_by(setup, cx, Some(Arc::new(rule)))
}

/// Builds training on block rows, aggregated by what `make` makes of this rank's blocks and the settings.
/// Collective.
///
/// # Errors
/// As for `broadcast`.
pub fn on_block_rows<A: Aggregate + 'static>(
    setup: Setup,
    cx: &mut Ctx,
    make: fn(block_rows::BlockRows, &Knobs) -> A,
) -> Result<Built> {
    block_rows::build(setup, cx, |cx, parts| {
        (make(parts.blocks, &cx.plan.spec.knobs), Vec::new())
    })
}
