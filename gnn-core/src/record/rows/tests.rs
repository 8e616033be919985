//! Columns and scores of rows.

use super::*;

#[test]
fn columns_match_what_serde_writes() {
    let row = MetricsRow {
        epoch: 1,
        is_warmup: false,
        train_loss: 0.5,
        val_loss: Some(0.75),
        train_acc: None,
        val_acc: Some(0.25),
        test_acc: None,
        train_f1: None,
        val_f1: None,
        test_f1: None,
        val_auc: None,
        test_auc: None,
        test_ap: None,
        test_mrr: None,
        eval_ms: 0.125,
    };
    let score = row.score().expect("evaluated");
    assert_eq!((score.metric, score.val), (Metric::Acc, Some(0.25)));
    let value = serde_json::to_value(&row).expect("plain data");
    let keys: Vec<_> = value
        .as_object()
        .expect("a struct")
        .keys()
        .cloned()
        .collect();
    let columns = MetricsRow::FRAME.columns.iter();
    let names: Vec<_> = columns.map(|column| column.name.to_owned()).collect();
    assert_eq!(keys, names);
    let back: MetricsRow = serde_json::from_value(value).expect("round trip");
    assert_eq!(back, row);
}

#[test]
fn a_row_has_the_score_of_its_task() {
    let links = MetricsRow {
        epoch: 0,
        is_warmup: false,
        train_loss: 0.5,
        val_loss: None,
        train_acc: None,
        val_acc: None,
        test_acc: None,
        train_f1: None,
        val_f1: None,
        test_f1: None,
        val_auc: Some(0.75),
        test_auc: Some(0.5),
        test_ap: None,
        test_mrr: None,
        eval_ms: 0.0,
    };
    let score = links.score().expect("evaluated");
    assert_eq!((score.metric, score.test), (Metric::Auc, Some(0.5)));
    let labels = MetricsRow {
        val_auc: None,
        test_auc: None,
        train_f1: Some(0.25),
        ..links.clone()
    };
    let score = labels.score().expect("evaluated");
    assert_eq!((score.metric, score.train), (Metric::F1, Some(0.25)));
    let nothing = MetricsRow {
        train_f1: None,
        ..labels
    };
    assert_eq!(nothing.score(), None);
}
