//! Algorithm 1 by itself, and in simulated runs of random costs: every batch is begun once and in order,
//! bounds hold, and nothing waits for ever. Cannot catch: what threads do between two decisions.

use super::*;
use proptest::prelude::*;

fn settings() -> CoarseSettings {
    CoarseSettings {
        sigma: 10.0,
        poll: Duration::from_millis(5),
        bounds: Bounds {
            dags: 8,
            bytes: None,
        },
        threads: 1,
        cores: 1.0,
        scored: true,
    }
}

fn measures(flight: Flight, gap_ns: u64, utilisation: f64) -> Measures {
    Measures {
        flight,
        gap_ns: Some(gap_ns),
        utilisation,
    }
}

/// Sampling and training take 100 ms each; `ready` batches wait and one is on its way.
fn busy(ready: u64) -> Flight {
    Flight {
        begun: 11 + ready,
        finished: 10 + ready,
        taken: 10,
        ready,
        bytes: 100 * ready,
        largest: 100,
        sample_ns: Some(100_000_000),
        train_ns: Some(100_000_000),
    }
}

#[test]
fn the_curve_is_the_papers() {
    assert!((f(0.0) - 100.0).abs() < 1e-9 && f(100.0).abs() < 1e-9);
    assert!((f(50.0) - (101.0 - 101f64.sqrt())).abs() < 1e-9);
    let curve: Vec<f64> = (0..=100).map(|c| f(f64::from(c))).collect();
    assert!(curve.windows(2).all(|w| w[0] > w[1]));
    assert!(f(-5.0) == f(0.0) && f(250.0) == f(100.0));
}

/// T_gap of 0.11 T_train is enough at half of the cores with one batch in the queue, 0.27 at nine tenths.
#[test]
fn the_score_is_the_papers_product() {
    let at = |gap, c, ready| measures(busy(ready), gap, c).score().expect("times");
    let by_hand = 0.5 * (101.0 - 101f64.powf(0.5)) / 2.0;
    assert!((at(50_000_000, 50.0, 2) - by_hand).abs() < 1e-9);
    for (c, share) in [(50.0, 0.11), (90.0, 0.28)] {
        let ns = |share: f64| (share * 1e8) as u64;
        let decided = |share| measures(busy(1), ns(share), c).decide(&settings());
        assert_eq!(decided(share), Decision::Score);
        assert_eq!(decided(share - 0.02), Decision::Wait);
    }
}

#[test]
fn nothing_is_divided_by_zero() {
    let empty = busy(0);
    for flight in [
        empty,
        Flight {
            train_ns: Some(0),
            ..empty
        },
        Flight {
            sample_ns: Some(0),
            train_ns: Some(0),
            ..empty
        },
    ] {
        for gap in [0, 1, u64::MAX] {
            for c in [0.0, 100.0] {
                let score = measures(flight, gap, c).score().expect("times");
                assert!(score.is_finite() && score >= 0.0, "{score}");
            }
        }
    }
    // Launched a moment ago: whatever the queue, no storm.
    assert_eq!(
        measures(busy(1), 0, 0.0).decide(&settings()),
        Decision::Wait
    );
}

#[test]
fn a_rank_that_is_always_busy_holds_as_many_as_there_are_threads_and_one() {
    let none = Flight {
        begun: 10,
        finished: 10,
        ..busy(0)
    };
    for few in [none, busy(0)] {
        assert_eq!(measures(few, 0, 100.0).decide(&settings()), Decision::Idle);
    }
    let gap = 10_000_000_000;
    assert_eq!(
        measures(busy(1), gap, 100.0).decide(&settings()),
        Decision::Wait
    );
}

#[test]
fn a_start_begins_as_many_as_there_are_threads_and_one() {
    let mut flight = Flight::default();
    let settings = CoarseSettings {
        threads: 3,
        ..settings()
    };
    let mut reasons = Vec::new();
    loop {
        let decision = measures(flight, 0, 0.0).decide(&settings);
        if decision == Decision::Wait {
            break;
        }
        reasons.push(decision);
        flight.begun += 1;
    }
    use Decision::{Cold, Idle};
    assert_eq!(reasons, [Idle, Cold, Cold, Cold]);
}

#[test]
fn utilisation_is_over_the_time_of_its_cores() {
    let mut used = Utilisation::default();
    let ms = |x: u64| x * 1_000_000;
    assert_eq!(used.percent((ms(1), ms(7)), 2.0), 0.0);
    assert_eq!(used.percent((ms(11), ms(17)), 2.0), 50.0);
    // Two cores' worth from here on; the window forgets what was before.
    for k in 2..20 {
        used.percent((ms(1 + 10 * k), ms(17 + 20 * (k - 1))), 2.0);
    }
    assert_eq!(used.percent((ms(201), ms(397)), 2.0), 100.0);
    assert_eq!(used.percent((ms(201), ms(397)), 1.0), 100.0);
}

/// A run in simulated time: how long each batch takes to sample and to train, and its bytes.
struct Run {
    flight: Flight,
    /// By batch in flight, when it will be finished.
    flying: Vec<(u64, u64)>,
    made: Vec<u64>,
    order: Vec<u64>,
    most: (u64, u64),
}

/// Runs all of `costs` to the end; none if nothing moves any more.
fn run(settings: &CoarseSettings, costs: &[(u64, u64, u64)], busy: f64) -> Option<Run> {
    let mut run = Run {
        flight: Flight::default(),
        flying: Vec::new(),
        made: Vec::new(),
        order: Vec::new(),
        most: (0, 0),
    };
    let (mut last, mut trained) = (None, None::<u64>);
    let step = 1_000_000;
    for now in (0..400_000 * step).step_by(step as usize) {
        for k in (0..run.flying.len()).rev() {
            if run.flying[k].1 <= now {
                let (number, _) = run.flying.remove(k);
                let (sample, _, bytes) = costs[number as usize];
                run.made.push(number);
                run.flight.finished += 1;
                run.flight.bytes += bytes;
                run.flight.largest = run.flight.largest.max(bytes);
                run.flight.sample_ns = Some(sample);
            }
        }
        if trained.is_none_or(|end| end <= now) {
            if trained.take().is_some() {
                let before = &costs[run.flight.taken as usize - 1];
                run.flight.train_ns = Some(before.1);
            }
            if run.flight.taken == costs.len() as u64 {
                return Some(run);
            }
            let next = run.flight.taken;
            if let Some(k) = run.made.iter().position(|&n| n == next) {
                run.made.remove(k);
                run.flight.bytes -= costs[next as usize].2;
                run.flight.taken += 1;
                trained = Some(now + costs[next as usize].1);
            }
        }
        let (made, taken) = (&run.made, run.flight.taken);
        run.flight.ready = (taken..).take_while(|n| made.contains(n)).count() as u64;
        while run.flight.begun < costs.len() as u64 {
            let of = Measures {
                flight: run.flight,
                gap_ns: last.map(|last| now - last),
                utilisation: busy,
            };
            if of.decide(settings) == Decision::Wait {
                break;
            }
            let number = run.flight.begun;
            run.order.push(number);
            run.flying.push((number, now + costs[number as usize].0));
            run.flight.begun += 1;
            last = Some(now);
            let held = run.flight.begun - run.flight.taken;
            let bytes: u64 = (taken..run.flight.begun).map(|n| costs[n as usize].2).sum();
            run.most = (run.most.0.max(held), run.most.1.max(bytes));
        }
    }
    None
}

proptest! {
    #[test]
    fn runs_end_within_their_bounds(
        costs in prop::collection::vec((0u64..80, 0u64..80, 1u64..100), 1..40), dags in 1u64..6,
        threads in 1u64..4, bound in prop::option::of(1u64..600), busy in 0f64..=100.0, scored: bool,
    ) {
        let ms = 1_000_000;
        let costs: Vec<_> = costs.into_iter().map(|(s, t, b)| (s * ms, t * ms, b)).collect();
        let settings = CoarseSettings {
            bounds: Bounds { dags, bytes: bound },
            threads,
            scored,
            ..settings()
        };
        let run = run(&settings, &costs, busy);
        let run = run.expect("nothing waits for ever");
        prop_assert_eq!(&run.order, &(0..costs.len() as u64).collect::<Vec<_>>());
        prop_assert!(run.most.0 <= dags);
        // A batch may be larger than any before it, and one may be begun whatever its size.
        let sizes = costs.iter().map(|c| c.2);
        if let Some(bound) = bound.filter(|_| sizes.clone().min() == sizes.max()) {
            prop_assert!(run.most.1 <= bound.max(costs[0].2), "{} of {bound}", run.most.1);
        }
    }
}
