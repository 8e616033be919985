//! Learnt rows at their owner: who waits for what, and that the order of arrival changes nothing.

use super::*;
use std::sync::Arc;

fn table(synchronous: bool, ranks: usize) -> Table {
    let learning = Learning {
        width: 2,
        alone: true,
        optimiser: RowOptimiser::Adagrad,
        lr: 0.5,
        synchronous,
    };
    Table::new(learning, &[4, 9, 2], ranks, 7)
}

fn pushed(rank: usize, step: u64, rows: &[u32], value: f32) -> Pushed {
    Pushed {
        rank,
        step,
        rows: rows.to_vec(),
        grads: Mat::from_elem((rows.len(), 2), value),
    }
}

fn asked(step: u64) -> AskedRows {
    AskedRows {
        step,
        rows: vec![1, 2],
        to: Address {
            rank: 1,
            mailbox: 5,
            request: 0,
        },
        epoch: 0,
    }
}

#[test]
fn rows_are_those_of_the_vertex_whoever_owns_it() {
    let all = Table::new(table(false, 1).learning, &[0, 1, 2, 3, 4], 1, 7).all();
    assert_eq!(table(false, 3).all().row(0), all.row(4));
    assert_eq!(table(false, 3).all().row(2), all.row(2));
}

#[test]
fn a_push_is_applied_at_once_unless_steps_are_synchronous() {
    let par = Par::new(1);
    let now = table(false, 2);
    let before = now.all();
    assert!(now.push(pushed(1, 0, &[2], 3.0), &par).is_empty());
    // AdaGrad's first step is the learning rate, whatever the gradient.
    assert!((before[[2, 0]] - now.all()[[2, 0]] - 0.5).abs() < 1e-6);
    assert_eq!(before.row(0), now.all().row(0));
    assert!(now.ask(asked(9)).is_some());
}

#[test]
fn a_synchronous_pull_waits_for_all_pushes_of_the_step_before() {
    let par = Par::new(1);
    let of = |order: [usize; 3]| {
        let table = table(true, 3);
        assert!(table.ask(asked(0)).is_some());
        assert!(table.ask(asked(1)).is_none());
        for (k, rank) in order.into_iter().enumerate() {
            // One of them is a step ahead.
            let early = table.push(pushed(rank, 1, &[0], 1.0), &par);
            assert!(early.is_empty());
            let part = pushed(rank, 0, &[2, 1][..rank.min(2)], 0.1 + rank as f32);
            let answers = table.push(part, &par);
            assert_eq!(answers.len(), usize::from(k == 2));
        }
        assert!(table.pull(2, &[0]).is_ok());
        table.close();
        assert!(table.pull(3, &[0]).is_err());
        table.all()
    };
    // The sum is in the order of the ranks, whoever comes first.
    assert_eq!(of([0, 1, 2]), of([2, 0, 1]));
}

#[test]
fn whoever_waits_for_a_push_learns_that_none_will_come() {
    let table = Arc::new(table(true, 2));
    let waits = {
        let table = Arc::clone(&table);
        std::thread::spawn(move || table.pull(1, &[0]).is_err())
    };
    table.close();
    assert!(waits.join().expect("no panic"));
}
