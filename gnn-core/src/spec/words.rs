//! Enums whose values are words, each word written once.

use super::{
    Decay, FeatureNorm, FeatureStorage, FirstAggregate, Launch, OptimiserKind, Scorer, TaskKind,
    VertexOrder,
};

/// Gives an enum its table of words: all values, their names, and the way back.
macro_rules! words {
    ($kind:ident { $($value:ident $word:literal),* $(,)? }) => {
        impl $kind {
            /// Every value.
            pub const ALL: &'static [$kind] = &[$($kind::$value),*];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($word),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$value => $word),*
                }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<$kind> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
pub(crate) use words;

words!(TaskKind { Node "node", Link "link" });
words!(Scorer { Dot "dot", Mlp "mlp" });
words!(OptimiserKind { Adam "adam", Adamw "adamw", Sgd "sgd" });
words!(Decay { All "all", First "first" });
words!(FeatureNorm { None "none", Row "row" });
words!(FeatureStorage { F32 "f32", Bf16 "bf16" });
words!(FirstAggregate { EveryEpoch "every-epoch", Once "once" });
words!(VertexOrder { Auto "auto", Given "given", Degree "degree" });
words!(Launch { Auto "auto", Threads "threads", Mpi "mpi", Slurm "slurm" });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelKind;

    /// Names in a plan on disk are those of a cell.
    #[test]
    fn plans_say_the_same_words() {
        fn same<T: serde::Serialize>(all: &[T], names: &[&str]) {
            for (value, name) in all.iter().zip(names) {
                assert_eq!(serde_json::to_value(value).expect("a word"), *name);
            }
        }
        same(TaskKind::ALL, TaskKind::NAMES);
        same(Scorer::ALL, Scorer::NAMES);
        same(OptimiserKind::ALL, OptimiserKind::NAMES);
        same(Decay::ALL, Decay::NAMES);
        same(FeatureNorm::ALL, FeatureNorm::NAMES);
        same(FeatureStorage::ALL, FeatureStorage::NAMES);
        same(FirstAggregate::ALL, FirstAggregate::NAMES);
        same(VertexOrder::ALL, VertexOrder::NAMES);
        same(Launch::ALL, Launch::NAMES);
        same(ModelKind::ALL, ModelKind::NAMES);
    }
}
