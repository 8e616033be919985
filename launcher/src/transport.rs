//! How rows pass between ranks: decided before they start, and said.

use gnn_core::error::Error;
use gnn_core::spec::{RunSpec, SumOrder, TransportKind};
use gnn_core::strategy::Determinism;
use kernels::cuda::{gpus, nccl};

/// What a machine has for messages between devices.
pub struct Facts {
    /// GPUs.
    pub gpus: usize,
    /// NCCL's version as people write it, or what is wrong with it.
    pub nccl: Result<String, String>,
}

impl Facts {
    /// Those of this machine.
    pub fn of_this_machine() -> Facts {
        Facts {
            gpus: gpus().unwrap_or(0),
            nccl: nccl::version()
                .map(nccl::written)
                .map_err(|e| e.to_string()),
        }
    }
}

/// What was decided.
#[derive(Debug, PartialEq)]
pub struct Between {
    /// As asked for where rows are in the host's memory, else one of the other two.
    pub kind: TransportKind,
    /// What a person should know of it.
    pub note: Option<String>,
}

/// Decides for a request. `elsewhere`: its ranks start on other machines than this.
///
/// # Errors
/// [`Error::Spec`] where NCCL is asked for and cannot be had.
pub fn choose(
    spec: &RunSpec,
    elsewhere: bool,
    facts: &dyn Fn() -> Facts,
) -> Result<Between, Error> {
    let asked = spec.transport;
    let refused = |reason: String| Error::Spec {
        key: "transport".into(),
        reason: format!("nccl: {reason}"),
        help: "leave transport out: rows pass through the host then".into(),
    };
    let host = |reason: Option<String>| {
        Ok(Between {
            kind: TransportKind::Host,
            note: reason.map(|reason| format!("rows pass through the host: {reason}")),
        })
    };
    if spec.backend != "cuda" {
        return match asked {
            TransportKind::Nccl => {
                let reason = format!(
                    "rows are in the host's memory with backend = {}",
                    spec.backend
                );
                Err(refused(reason))
            }
            kind => Ok(Between { kind, note: None }),
        };
    }
    if asked == TransportKind::Host || spec.ranks == 1 {
        return host(None);
    }
    let nccl = |note| {
        Ok(Between {
            kind: TransportKind::Nccl,
            note,
        })
    };
    if elsewhere {
        return match asked {
            TransportKind::Nccl => nccl(None),
            _ => host(Some(
                "whether each rank will have a GPU of its own is not known here; if so, say transport = nccl"
                    .into(),
            )),
        };
    }
    let facts = facts();
    let missing = match (&facts.nccl, facts.gpus) {
        (_, gpus) if gpus < spec.ranks => {
            let s = if gpus == 1 { "" } else { "s" };
            Some(format!("{} ranks share {gpus} GPU{s}", spec.ranks))
        }
        (Err(why), _) => Some(why.clone()),
        (Ok(_), _) => None,
    };
    match (missing, &facts.nccl) {
        (Some(why), _) if asked == TransportKind::Nccl => Err(refused(why)),
        (Some(why), _) => host(Some(why)),
        (None, Ok(version)) => nccl(Some(format!("rows pass from GPU to GPU by NCCL {version}"))),
        (None, Err(_)) => host(None),
    }
}

/// In which order sums are added up by `kind`, for a run that promises so much where they are in the order of ranks.
pub fn sums(asked: SumOrder, kind: TransportKind, promised: Determinism) -> SumOrder {
    match (asked, kind) {
        (SumOrder::Auto, TransportKind::Nccl) if promised == Determinism::Statistical => {
            SumOrder::Any
        }
        (SumOrder::Auto, TransportKind::Nccl) => SumOrder::Ordered,
        _ => asked,
    }
}

/// Whether a run's sums promise no bits.
pub fn sums_in_any_order(spec: &RunSpec) -> bool {
    spec.sums == SumOrder::Any && spec.transport == TransportKind::Nccl && spec.ranks > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(
        asked: TransportKind,
        (backend, ranks): (&str, usize),
        elsewhere: bool,
        (gpus, nccl): (usize, Result<&str, &str>),
    ) -> Result<(TransportKind, String), String> {
        let spec = RunSpec {
            backend: backend.into(),
            ranks,
            transport: asked,
            ..RunSpec::default()
        };
        let facts = || Facts {
            gpus,
            nccl: nccl.map(str::to_owned).map_err(str::to_owned),
        };
        choose(&spec, elsewhere, &facts)
            .map(|b| (b.kind, b.note.unwrap_or_default()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn each_rank_with_a_gpu_of_its_own_has_nccl_and_everybody_else_is_told_why_not() {
        use TransportKind::{Auto, Host, Nccl};
        let two = (2, Ok("2.23.4"));
        let got = |kind, note: &str| Ok((kind, note.to_owned()));
        let by = got(Nccl, "rows pass from GPU to GPU by NCCL 2.23.4");
        for asked in [Auto, Nccl] {
            assert_eq!(decided(asked, ("cuda", 2), false, two), by);
        }
        assert_eq!(decided(Host, ("cuda", 2), false, two), got(Host, ""));
        assert_eq!(decided(Auto, ("cuda", 1), false, two), got(Host, ""));
        assert_eq!(decided(Auto, ("cpu", 2), false, two), got(Auto, ""));
        let shared = "rows pass through the host: 4 ranks share 2 GPUs";
        assert_eq!(decided(Auto, ("cuda", 4), false, two), got(Host, shared));
        let none = (2, Err("no NCCL found: install it"));
        let without = "rows pass through the host: no NCCL found: install it";
        assert_eq!(decided(Auto, ("cuda", 2), false, none), got(Host, without));
        assert_eq!(
            decided(Nccl, ("cuda", 2), true, (0, Err(""))),
            got(Nccl, "")
        );
        let elsewhere = decided(Auto, ("cuda", 2), true, two).expect("decided");
        assert_eq!(elsewhere.0, Host);
        assert!(elsewhere.1.contains("transport = nccl"), "{}", elsewhere.1);
        for (request, facts, why) in [
            (("cpu", 2), two, "backend = cpu"),
            (("cuda", 3), (1, Ok("2.23.4")), "3 ranks share 1 GPU"),
            (("cuda", 2), none, "no NCCL found"),
        ] {
            let refused = decided(Nccl, request, false, facts).expect_err("refused");
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn sums_are_nccls_own_only_where_no_bits_are_promised_or_it_is_asked_for() {
        use Determinism::{Bitwise, SameRanks, Statistical};
        use TransportKind::{Host, Nccl};
        for (asked, kind, promised, want) in [
            (SumOrder::Auto, Nccl, SameRanks, SumOrder::Ordered),
            (SumOrder::Auto, Nccl, Bitwise, SumOrder::Ordered),
            (SumOrder::Auto, Nccl, Statistical, SumOrder::Any),
            (SumOrder::Any, Nccl, SameRanks, SumOrder::Any),
            (SumOrder::Ordered, Nccl, Statistical, SumOrder::Ordered),
            (SumOrder::Auto, Host, Statistical, SumOrder::Auto),
        ] {
            assert_eq!(sums(asked, kind, promised), want, "{asked:?} {promised:?}");
        }
        let spec = |transport, ranks| RunSpec {
            sums: SumOrder::Any,
            transport,
            ranks,
            ..RunSpec::default()
        };
        assert!(sums_in_any_order(&spec(Nccl, 2)));
        assert!(!sums_in_any_order(&spec(Host, 2)) && !sums_in_any_order(&spec(Nccl, 1)));
    }
}
