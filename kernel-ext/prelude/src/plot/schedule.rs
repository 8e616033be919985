//! `schedule`: when were batches begun, and why then?

use super::axes::top;
use super::ink::Ink;
use super::panels::{self, Panel};
use super::setting::stamp;
use super::sheet::{Head, Key, sheet};
use super::text::table;
use super::{Case, Plot, PlotError, blank, read, twin, units};

/// Ranks that are drawn: as many as there are styles of lines.
const RANKS: usize = Ink::LINES;
/// Scores are drawn up to so many times the threshold.
const MOST: f64 = 4.0;

/// One batch that was begun.
#[derive(Clone)]
struct Launch {
    rank: u32,
    at: f64,
    reason: String,
    /// Over the threshold.
    score: f64,
    queue: f64,
    flying: f64,
    bytes: f64,
    used: f64,
    gap: f64,
}

impl Launch {
    fn held(&self) -> f64 {
        self.queue + self.flying
    }
}

/// Batches begun and not trained on, the rank's use of its cores, and the score over its threshold, each at the
/// moment of a launch. `case` carries a `schedule` frame.
///
/// # Errors
/// A frame without the columns of launches.
pub fn schedule(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("When batches were begun, {}", case.setting.data_label());
    let launches = launches(case)?;
    if launches.is_empty() {
        let why = "No batch has been begun by a score yet.";
        return blank(&title, why, &[&case.setting]);
    }
    let mut ranks: Vec<u32> = launches.iter().map(|l| l.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let shown = &ranks[..ranks.len().min(RANKS)];
    let note = verdict(&launches, ranks.len());
    let foot = stamp(&[&case.setting]);
    let mut legend: Vec<(Key, String)> = shown
        .iter()
        .enumerate()
        .map(|(k, rank)| (Key::Line(Ink::line(k)), format!("rank {rank}")))
        .collect();
    legend.push((Key::Dashed(Ink::STOP), "the threshold".into()));
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: "Queue, use of the cores and launch score when each batch was begun".into(),
        legend,
        foot: foot.clone(),
    };
    let panel = |name, of: fn(&Launch) -> f64, most| Panel {
        name,
        lines: lines(&launches, shown, of),
        most,
        dots: false,
        rule: None,
    };
    let panels = [
        panel("batches held", Launch::held, None),
        panel("cores in use (%)", |l| l.used, Some(100.0)),
        // Scores of different launches are not on the way from one to the other.
        Panel {
            dots: true,
            rule: Some(1.0),
            ..panel("score / threshold", |l| l.score.min(MOST), Some(MOST))
        },
    ];
    let x = (
        "time since the first launch (ms)",
        top(launches.iter().map(|l| l.at)),
    );
    let svg = sheet(&head, panels::size(3), |area| {
        panels::draw(area, x, &panels)
    })?;
    let text = twin(&title, &[note], &numbers(&launches, &ranks), &foot);
    Ok(Plot { svg, text })
}

fn launches(case: &Case) -> Result<Vec<Launch>, PlotError> {
    let frame = &case.frame;
    if frame.height() == 0 {
        return Ok(Vec::new());
    }
    let need = |column: &str| read::need(frame, "schedule", column);
    let reason = read::words(frame, "reason").ok_or_else(|| PlotError::Column {
        frame: "schedule".into(),
        column: "reason".into(),
    })?;
    let (rank, at, gap) = (need("rank")?, need("at_ms")?, need("gap_ms")?);
    let (score, threshold) = (need("score")?, need("threshold")?);
    let (queue, flying) = (need("queue")?, need("flying")?);
    let (bytes, used) = (need("in_flight_bytes")?, need("utilisation_pct")?);
    let of = |i: usize| Launch {
        rank: rank[i] as u32,
        at: at[i],
        reason: reason[i].clone(),
        score: score[i] / threshold[i].max(f64::MIN_POSITIVE),
        queue: queue[i],
        flying: flying[i],
        bytes: bytes[i],
        used: used[i],
        gap: gap[i],
    };
    let mut all: Vec<Launch> = (0..frame.height()).map(of).collect();
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    Ok(all)
}

/// By rank, what `of` says over time.
fn lines(
    launches: &[Launch],
    ranks: &[u32],
    of: fn(&Launch) -> f64,
) -> Vec<(Ink, Vec<(f64, f64)>)> {
    let line = |(k, rank): (usize, &u32)| {
        let mine = launches.iter().filter(|l| l.rank == *rank);
        let points = mine.map(|l| (l.at, of(l))).filter(|p| p.1.is_finite());
        (Ink::line(k), points.collect())
    };
    ranks.iter().enumerate().map(line).collect()
}

fn verdict(launches: &[Launch], ranks: usize) -> String {
    let why = |reason: &str| launches.iter().filter(|l| l.reason == reason).count();
    let mean = launches.iter().map(|l| l.used).sum::<f64>() / launches.len() as f64;
    let most = launches.iter().map(|l| l.bytes).fold(0.0, f64::max);
    format!(
        "{} launches by {}: {} by the score, {} at the start, {} because few were left · cores in use {mean:.0} % · \
         at most {} held",
        launches.len(),
        units::plural(ranks, "rank"),
        why("score"),
        why("cold"),
        why("idle"),
        units::bytes(most),
    )
}

fn numbers(launches: &[Launch], ranks: &[u32]) -> String {
    let head = [
        "rank", "launches", "score", "cold", "idle", "held", "cores %", "gap ms",
    ];
    let row = |rank: &u32| {
        let mine: Vec<&Launch> = launches.iter().filter(|l| l.rank == *rank).collect();
        let why = |reason: &str| {
            mine.iter()
                .filter(|l| l.reason == reason)
                .count()
                .to_string()
        };
        let median = |of: fn(&Launch) -> f64| units::median(mine.iter().map(|l| of(l)));
        vec![
            rank.to_string(),
            mine.len().to_string(),
            why("score"),
            why("cold"),
            why("idle"),
            format!("{:.1}", median(Launch::held)),
            format!("{:.0}", median(|l| l.used)),
            format!("{:.2}", median(|l| l.gap)),
        ]
    };
    table(&head, &ranks.iter().map(row).collect::<Vec<_>>())
}
