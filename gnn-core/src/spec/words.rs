//! The words of a request's enums, each written once.

use super::{
    AggregateWidth, Decay, FirstAggregate, Launch, ModelKind, OptimiserKind, Scorer, SumOrder,
    TransportKind, VertexOrder,
};
use gnn_data::words;

words!(Scorer { Dot "dot", Mlp "mlp" });
words!(OptimiserKind { Adam "adam", Adamw "adamw", Sgd "sgd" });
words!(Decay { All "all", First "first" });
words!(FirstAggregate { EveryEpoch "every-epoch", Once "once" });
words!(AggregateWidth { Narrower "narrower", Hidden "hidden" });
words!(VertexOrder { Auto "auto", Given "given", Community "community", Degree "degree" });
words!(ModelKind {
    Gcn "gcn",
    Sage "sage",
    Gin "gin",
    Gat "gat",
    Rgcn "rgcn",
    Gcnii "gcnii",
    Resgcn "resgcn",
});
words!(TransportKind { Auto "auto", Host "host", Nccl "nccl" });
words!(SumOrder { Auto "auto", Ordered "ordered", Any "any" });
words!(Launch { Auto "auto", Threads "threads", Mpi "mpi", Slurm "slurm" });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{FeatureNorm, FeatureStorage, TaskKind};

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
        same(AggregateWidth::ALL, AggregateWidth::NAMES);
        same(VertexOrder::ALL, VertexOrder::NAMES);
        same(Launch::ALL, Launch::NAMES);
        same(TransportKind::ALL, TransportKind::NAMES);
        same(SumOrder::ALL, SumOrder::NAMES);
        same(ModelKind::ALL, ModelKind::NAMES);
    }
}
