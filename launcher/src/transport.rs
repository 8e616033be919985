//! How rows pass between ranks: decided before they start, and said.

use gnn_core::error::Error;
use gnn_core::spec::{RunSpec, TransportKind};
use gnn_core::strategy::Entry;
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

/// Whether a run's sums are added up in an order that promises no bits.
pub fn sums_in_any_order(entry: &Entry, spec: &RunSpec) -> bool {
    let between_devices = spec.transport == TransportKind::Nccl && spec.ranks > 1;
    between_devices && !entry.sums_in_order(spec)
}

/// What a person should know of that.
pub fn note_of_sums(entry: &Entry, spec: &RunSpec) -> Option<String> {
    let note =
        "sums over ranks are in NCCL's own order: last bits may differ when the run is done again";
    sums_in_any_order(entry, spec).then(|| note.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::spec::SumOrder;
    use gnn_core::strategy::Determinism;

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
        use TransportKind::{Auto, Host, Nccl};
        let promises = |determinism| Entry {
            determinism,
            ..Entry::BASE
        };
        let some = promises(|_| Determinism::SameRanks);
        let none = promises(|_| Determinism::Statistical);
        for (sums, [by_some, by_none]) in [
            (SumOrder::Auto, [false, true]),
            (SumOrder::Ordered, [false, false]),
            (SumOrder::Any, [true, true]),
        ] {
            let spec = |transport, ranks| RunSpec {
                sums,
                transport,
                ranks,
                ..RunSpec::default()
            };
            let two = spec(Nccl, 2);
            assert_eq!(sums_in_any_order(&some, &two), by_some, "{sums:?}");
            assert_eq!(sums_in_any_order(&none, &two), by_none, "{sums:?}");
            for ordered in [spec(Host, 2), spec(Auto, 2), spec(Nccl, 1)] {
                assert!(!sums_in_any_order(&none, &ordered), "{sums:?}");
            }
        }
    }
}
