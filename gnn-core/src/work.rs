//! The only loop over epochs.

use crate::checkpoint::{Checkpoints, Snapshot, digest};
use crate::comm::{Post, ThreadTransport, Transport, behind_link, same_clock, with_hub};
use crate::ctx::Ctx;
use crate::dataset::{Dataset, load_for};
use crate::error::{Error, Result};
use crate::evaluation::{Evaluation, evaluate};
use crate::partition::Nested;
use crate::patience::Patience;
use crate::plan::Plan;
use crate::record::state::StatePage;
use crate::record::{
    Closed, Meter, Pass, Phase, Recorder, give_back, rows::EndedRow, rows::MetricsRow,
};
use crate::strategy::{Built, Entry, Rows, Setup, Strategy, find_in};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Where ranks run: data, not a second code path.
pub enum World {
    /// All ranks as threads of this process.
    Threads(usize),
    /// This process is one rank of a world that a transport reaches.
    Transport(Box<dyn Transport>),
}

/// How a run ended on this process's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Epochs finished.
    pub epochs_done: usize,
    /// Whether a stop request ended it early.
    pub interrupted: bool,
    /// Whether it ended early because the validation score no longer improved.
    pub stopped_early: bool,
}

/// The files of a run folder that a rank touches.
struct Folder(PathBuf);

impl Folder {
    fn stop(&self) -> PathBuf {
        self.0.join("stop")
    }

    fn of_rank(&self, kind: &str, rank: usize, ending: &str) -> Result<PathBuf> {
        let folder = self.0.join(kind);
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        Ok(folder.join(format!("rank-{rank}{ending}")))
    }
}

/// Trains what `plan` says, as the rank or ranks of `world`; rows go to `folder`.
///
/// # Errors
/// Whatever a rank meets. A failing rank ends its in-process peers; ending other processes is the
/// caller's part ([`Transport::abort`]).
pub fn work(
    plan: &Plan,
    folder: &Path,
    world: World,
    entries: &'static [Entry],
) -> Result<Outcome> {
    let plan = Arc::new(plan.clone());
    match world {
        World::Transport(transport) => {
            let setup = read_setup(&plan, folder, entries)?;
            run_rank(&plan, folder, setup, transport, entries)
        }
        World::Threads(ranks) => {
            let setup = read_setup(&plan, folder, entries)?;
            std::thread::scope(|scope| {
                let threads: Vec<_> = ThreadTransport::world(ranks)
                    .into_iter()
                    .enumerate()
                    // The last rank gets the set-up itself: nobody keeps the data set afterwards.
                    .zip(std::iter::repeat_n(setup, ranks))
                    .map(|((rank, transport), setup)| {
                        let plan = Arc::clone(&plan);
                        std::thread::Builder::new()
                            .name(format!("rank-{rank}"))
                            .spawn_scoped(scope, move || {
                                run_rank(&plan, folder, setup, Box::new(transport), entries)
                            })
                            .map_err(|e| Error::io("thread", e))
                    })
                    .collect();
                // Every thread is joined before the first error is returned: the first cause is
                // the one that is not about a lost peer.
                let results: Vec<Result<Outcome>> = threads
                    .into_iter()
                    .map(|t| match t?.join() {
                        Ok(result) => result,
                        Err(panic) => std::panic::resume_unwind(panic),
                    })
                    .collect();
                let (mut lost_peer, mut outcome) = (None, None);
                for result in results {
                    match result {
                        Ok(o) => outcome = Some(o),
                        Err(e @ Error::Comm { .. }) => lost_peer = lost_peer.or(Some(e)),
                        Err(e) => return Err(e),
                    }
                }
                match (lost_peer, outcome) {
                    (Some(e), _) => Err(e),
                    (None, Some(o)) => Ok(o),
                    (None, None) => Ok(Outcome {
                        epochs_done: 0,
                        interrupted: false,
                        stopped_early: false,
                    }),
                }
            })
        }
    }
}

/// The data set of a request, features scaled as it asks.
///
/// # Errors
/// What [`load_for`] refuses.
pub(crate) fn read_data(plan: &Plan) -> Result<Dataset> {
    load_for(plan.spec.data_spec(), &plan.verdicts)
}

/// The file of a run folder with the part of each vertex, and that with its part within the part, where
/// parts are cut again: four bytes a vertex, little-endian.
pub const PART_FILES: [&str; 2] = ["part.bin", "nested.bin"];

fn read_setup(plan: &Plan, folder: &Path, entries: &[Entry]) -> Result<Setup> {
    let parts = find_in(entries, &plan.spec.strategy)?.cut_into(&plan.spec);
    let data = Arc::new(read_data(plan)?);
    let read = |level: usize, count: usize| {
        read_parts(&folder.join(PART_FILES[level]), data.graph.n(), count).map(Arc::new)
    };
    let owner = parts.map(|p| read(0, p.count)).transpose()?;
    let nested = parts.filter(|p| p.nested != Nested::No);
    let nested = nested.map(|p| read(1, p.nested.count())).transpose()?;
    Ok(Setup {
        data,
        owner,
        nested,
    })
}

fn read_parts(path: &Path, n: usize, parts: usize) -> Result<Vec<u32>> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    let bad = |place: String, reason: String| Error::Data {
        file: path.display().to_string(),
        place,
        reason,
        help: "start the run again; the launcher writes this file".into(),
    };
    if bytes.len() != 4 * n {
        return Err(bad(
            "length".into(),
            format!("expected {} bytes, got {}", 4 * n, bytes.len()),
        ));
    }
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("chunks of four bytes"));
    let owner: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
    match owner.iter().position(|&r| r as usize >= parts) {
        Some(v) => Err(bad(
            format!("vertex {v}"),
            format!("owner {} of {parts} ranks", owner[v]),
        )),
        None => Ok(owner),
    }
}

fn run_rank(
    plan: &Arc<Plan>,
    folder: &Path,
    setup: Setup,
    mut transport: Box<dyn Transport>,
    entries: &'static [Entry],
) -> Result<Outcome> {
    if plan.spec.link.is_some()
        && let Err(e) = same_clock(transport.as_mut())
    {
        transport.abort(1);
        return Err(e);
    }
    let transport = behind_link(plan.spec.link, transport);
    if !find_in(entries, &plan.spec.strategy)?.background {
        return run_on(plan, folder, setup, transport, None, entries);
    }
    let name = format!("rank-{}", transport.rank());
    with_hub(transport, name, |port, post| {
        run_on(plan, folder, setup, Box::new(port), Some(post), entries)
    })
}

/// [`run_rank`] on the thread that trains.
fn run_on(
    plan: &Arc<Plan>,
    folder: &Path,
    setup: Setup,
    mut transport: Box<dyn Transport>,
    post: Option<Post>,
    entries: &'static [Entry],
) -> Result<Outcome> {
    let folder = Folder(folder.to_owned());
    let rank = transport.rank();
    let open = || -> Result<_> {
        let page = StatePage::create(&folder.of_rank("state", rank, "")?)?;
        let meter = Meter::new(Some(page));
        let meter = match plan.spec.slow.filter(|slow| slow.rank as usize == rank) {
            Some(slow) => meter.slowed(slow.factor),
            None => meter,
        };
        let meter = Rc::new(if plan.spec.trace {
            meter.tracing()
        } else {
            meter
        });
        let recorder = Recorder::new(
            Rc::clone(&meter),
            Some(&folder.of_rank("rows", rank, ".jsonl")?),
            plan.start > 0,
        )?;
        let backend = crate::backend::open(plan, rank, Rc::clone(&meter))?;
        Ok((meter, recorder, backend))
    };
    let opened = open();
    let (meter, mut recorder, backend) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            transport.abort(1);
            return Err(e);
        }
    };
    let mut cx = Ctx::new(Arc::clone(plan), transport, backend, meter);
    cx.post = post;
    let result = train(&mut cx, &mut recorder, setup, &folder, entries);
    if result.is_err() {
        cx.comm.abort(1);
    }
    result
}

fn train(
    cx: &mut Ctx,
    recorder: &mut Recorder,
    setup: Setup,
    folder: &Folder,
    entries: &'static [Entry],
) -> Result<Outcome> {
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    cx.enter(Phase::Setup);
    cx.pass(Pass::Setup);
    let checkpoints = Checkpoints::of(&folder.0, digest(spec, &setup.data));
    let Built {
        mut strategy,
        rows,
        facts,
        predicted,
        part,
    } = (find_in(entries, &spec.strategy)?.build)(setup, cx)?;
    let shares_process = plan.in_process && cx.size() > 1;
    recorder.set_facts(crate::record::RankFacts {
        device: cx.backend.device().to_owned(),
        shares_process,
        ..facts
    });
    recorder.predict(predicted);
    if let Some(part) = &part {
        recorder.write(part)?;
    }
    recorder.flush()?;
    let mut patience = Patience::new(spec.patience);
    if plan.start > 0 {
        let mut snapshot = checkpoints.read(cx.rank(), plan.start as u64)?;
        patience.restore(&snapshot.shared)?;
        strategy.restore(cx, &mut snapshot)?;
    }
    // What loading and cutting needed lies in pieces between what stays.
    give_back();
    cx.comm.agree(&[0.0])?;
    cx.align_trace()?;
    let (mut done, mut interrupted, mut stopped_early) = (plan.start, false, false);
    for epoch in plan.start..spec.epochs {
        cx.epoch = epoch as u64;
        cx.enter(Phase::Other);
        let begun = recorder.begin(epoch as u32);
        let loss = strategy.epoch(cx)?;
        cx.backend.settle();
        let closed = recorder.end(begun);
        let said = close(
            cx,
            recorder,
            strategy.as_mut(),
            &rows,
            folder,
            loss,
            &closed,
        )?;
        done = epoch + 1;
        if let Some(score) = said.score.filter(|_| done.is_multiple_of(spec.eval_every)) {
            patience.take(score);
        }
        stopped_early = patience.is_over() && done < spec.epochs;
        interrupted = said.stop && done < spec.epochs && !stopped_early;
        if stopped_early && cx.rank() == 0 {
            let by = "patience".into();
            recorder.write(&EndedRow {
                epoch: epoch as u32,
                by,
            })?;
            recorder.flush()?;
        }
        let ends = stopped_early || interrupted || done == spec.epochs;
        let every = spec.checkpoint_every;
        if every > 0 && (ends || done.is_multiple_of(every)) {
            cx.enter(Phase::Checkpoint);
            let mut snapshot = Snapshot::default();
            patience.save(&mut snapshot.shared);
            strategy.save(cx, &mut snapshot)?;
            recorder.sync()?;
            checkpoints.write(cx, done as u64, snapshot)?;
        }
        if ends {
            break;
        }
    }
    cx.comm.drain()?;
    cx.enter(Phase::Done);
    Ok(Outcome {
        epochs_done: done,
        interrupted,
        stopped_early,
    })
}

/// What all ranks know after an epoch.
struct Said {
    /// Whether somebody was asked to stop.
    stop: bool,
    /// The validation score, where there was an evaluation of one: rank 0's, so that all have the
    /// same bits.
    score: Option<f64>,
}

/// Everything after an epoch's timed part: rows, evaluation, agreement on whether to stop.
fn close(
    cx: &mut Ctx,
    recorder: &mut Recorder,
    strategy: &mut dyn Strategy,
    rows: &Rows,
    folder: &Folder,
    loss: f64,
    closed: &Closed,
) -> Result<Said> {
    cx.enter(Phase::Eval);
    cx.pass(Pass::Eval);
    let plan = Arc::clone(&cx.plan);
    let spec = &plan.spec;
    let epoch = cx.epoch as usize;
    let start = crate::record::now_ns();
    let mut counters = recorder.counters(cx.epoch as u32);
    let evaluates = (epoch + 1).is_multiple_of(spec.eval_every) || epoch + 1 == spec.epochs;
    let found = if evaluates {
        evaluate(cx, strategy, rows)?
    } else {
        Evaluation::default()
    };
    // One exchange: start, whether a stop was asked for, loss, counts, validation loss, AUC of the
    // validation links, bytes sent to each rank.
    let asked = f64::from(u8::from(folder.stop().exists()));
    let mut mine = vec![closed.start_ns() as f64, asked, loss];
    mine.extend(found.counts);
    mine.extend(found.val_loss);
    mine.push(found.rankings[0].map_or(f64::NAN, |r| r.auc));
    mine.extend(counters.sent_to(cx.size()).iter().map(|&b| b as f64));
    let all = cx.comm.agree(&mine)?;
    let first = all.iter().map(|r| r[0]).fold(f64::INFINITY, f64::min);
    let late = (closed.start_ns() as f64 - first).max(0.0) as u64;
    counters.rx = all.iter().map(|r| r[12 + cx.rank()] as u64).sum();
    recorder.close(epoch as u32, closed, late, counters)?;
    let sum = |k: usize| all.iter().map(|r| r[k]).sum::<f64>();
    let several = rows.multi_labels.is_some();
    let share = |of_several: bool, k: usize| {
        (several == of_several && sum(k + 1) > 0.0).then(|| sum(k) / sum(k + 1))
    };
    if cx.rank() == 0 {
        let [val, test] = found.rankings;
        recorder.write(&MetricsRow {
            epoch: epoch as u32,
            is_warmup: epoch < spec.warmup,
            train_loss: sum(2) / rows.train_total.max(1) as f64,
            val_loss: (sum(10) > 0.0).then(|| sum(9) / sum(10)),
            train_acc: share(false, 3),
            val_acc: share(false, 5),
            test_acc: share(false, 7),
            train_f1: share(true, 3),
            val_f1: share(true, 5),
            test_f1: share(true, 7),
            val_auc: val.map(|r| r.auc),
            test_auc: test.map(|r| r.auc),
            test_ap: test.map(|r| r.ap),
            test_mrr: test.map(|r| r.mrr),
            eval_ms: (crate::record::now_ns() - start) as f64 / 1e6,
        })?;
    }
    recorder.flush()?;
    let auc = Some(all[0][11]).filter(|auc| !auc.is_nan());
    Ok(Said {
        stop: all.iter().any(|r| r[1] > 0.0),
        score: auc.or_else(|| share(several, 5)),
    })
}
