//! Blocks against plain arrays, and what is read against the fewest reads there can be.

use super::block::Key;
use super::memory::{Disk, STAGING};
use super::order::{NEVER, Round, Use};
use super::pages::Pages;
use super::rows::PagedRows;
use crate::record::Meter;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::rc::Rc;

const BLOCKS: usize = 24;
const COLUMNS: usize = 3;
/// Rows of a block.
const ROWS: usize = 2;
const BYTES: u64 = (4 * COLUMNS * ROWS) as u64;

type Touches = Vec<(usize, Use)>;

fn touches() -> impl Strategy<Value = Touches> {
    let how = prop_oneof![Just(Use::Read), Just(Use::Write), Just(Use::Change)];
    prop::collection::vec((0..BLOCKS, how), 1..160)
}

/// An evaluation reads only what training reads first, too, or what it has written itself.
fn evaluation_of(training: &Touches, mut evaluation: Touches) -> Touches {
    let mut kept = [false; BLOCKS];
    let first = |block| training.iter().find(|t| t.0 == block);
    for touch in &mut evaluation {
        let read = first(touch.0).is_some_and(|t| t.1 != Use::Write);
        if !read && !kept[touch.0] {
            *touch = (touch.0, Use::Write);
        }
        kept[touch.0] = true;
    }
    evaluation
}

/// Goes through a round; what is found is compared with `model`, and changed there likewise.
fn go(rows: &PagedRows, touches: &Touches, model: &mut [f32], stamp: f32) {
    for &(block, how) in touches {
        let of = block * ROWS..(block + 1) * ROWS;
        rows.each_in(of, how, |x, _| {
            let x = x.as_slice_mut();
            if !rows.is_working() {
                return;
            }
            if how != Use::Write {
                assert!(x.iter().all(|&x| x == model[block]), "block {block}");
            }
            match how {
                Use::Read => {}
                Use::Write => x.fill(stamp),
                Use::Change => x.iter_mut().for_each(|x| *x += 1.0),
            }
        })
        .expect("a disk that works");
        match how {
            Use::Read => {}
            Use::Write => model[block] = stamp,
            Use::Change => model[block] += 1.0,
        }
    }
}

/// The reads of a cache of so many blocks that knows what comes, in the `epoch`-th of equal rounds.
fn fewest_reads(touches: &Touches, room: usize, epoch: usize) -> u64 {
    let all: Touches = (0..=epoch + 1).flat_map(|_| touches.clone()).collect();
    let wanted = |from: usize, block: usize| {
        let next = (from..all.len()).find(|&at| all[at].0 == block);
        next.filter(|&at| all[at].1 != Use::Write)
            .map_or(NEVER, |at| at as u64)
    };
    let (mut here, mut written): (BTreeMap<usize, u64>, [bool; BLOCKS]) =
        (BTreeMap::new(), [false; BLOCKS]);
    let mut reads = 0;
    for (at, &(block, how)) in all.iter().enumerate().take((epoch + 1) * touches.len()) {
        if here.remove(&block).is_none() {
            if here.len() == room {
                let (&last, _) = here.iter().max_by_key(|(_, when)| **when).expect("full");
                here.remove(&last);
                written[last] = true;
            }
            let counts = at >= epoch * touches.len();
            reads += u64::from(counts && how != Use::Write && written[block]);
        }
        here.insert(block, wanted(at + 1, block));
    }
    reads
}

/// Trains for some epochs, with evaluations or without; what the disk did in each, and the most in memory.
fn train(pages: &Rc<Pages>, rounds: [&Touches; 2], evaluates: bool) -> Vec<Disk> {
    let starts: Rc<[usize]> = (0..=BLOCKS).map(|k| k * ROWS).collect();
    let rows = PagedRows::new(pages, Key::Input(0), COLUMNS, &starts);
    let mut model = [0.0; BLOCKS];
    let epochs = (0..4).map(|epoch| {
        pages.begin(Round::Training).expect("a disk that works");
        go(&rows, rounds[0], &mut model, epoch as f32 * 1000.0);
        let disk = pages.disk();
        if evaluates {
            pages.begin(Round::Evaluation).expect("a disk that works");
            go(&rows, rounds[1], &mut model, epoch as f32 * 1000.0 + 500.0);
        }
        disk
    });
    epochs.collect()
}

fn bytes(all: &[Disk]) -> Vec<(u64, u64)> {
    all.iter().map(|disk| (disk.read, disk.written)).collect()
}

proptest! {
    #[test]
    fn blocks_are_plain_arrays_and_no_cache_reads_less(
        training in touches(),
        evaluation in touches(),
        room in 2usize..20,
        evaluates: bool,
    ) {
        let evaluation = evaluation_of(&training, evaluation);
        let rounds = [&training, &evaluation];
        let meter = Rc::new(Meter::new(None));
        let noted = Rc::new(Pages::noting(&meter));
        {
            let starts: Rc<[usize]> = (0..=BLOCKS).map(|k| k * ROWS).collect();
            let rows = PagedRows::new(&noted, Key::Input(0), COLUMNS, &starts);
            let mut model = [0.0; BLOCKS];
            noted.begin(Round::Training).expect("nothing is done");
            go(&rows, &training, &mut model, 0.0);
            noted.begin(Round::Evaluation).expect("nothing is done");
            go(&rows, &evaluation, &mut model, 0.0);
        }
        let budget = (room as u64 + STAGING) * BYTES;
        let folder = tempfile::tempdir().expect("a folder");
        let working = Rc::new(noted.known(budget, Some(folder.path())).expect("room"));
        let done = train(&working, rounds, evaluates);
        prop_assert!(working.most() <= budget);
        let counting = Rc::new(noted.known(budget, None).expect("room"));
        prop_assert_eq!(bytes(&train(&counting, rounds, evaluates)), bytes(&done));
        if !evaluates {
            let last = done.last().expect("epochs");
            // What is read ahead takes room from what is kept.
            let kept = room - (room / 4).clamp(1, 32);
            prop_assert!(last.read <= BYTES * fewest_reads(&training, kept, 3));
        }
        prop_assert!(noted.known((STAGING + 1) * BYTES, None).is_err());
    }
}
