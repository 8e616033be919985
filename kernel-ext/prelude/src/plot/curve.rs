//! `curve`: loss and accuracy (or what stands in for it) while a run trains.

use super::curve_panel::{Panels, What};
use super::facets::facets;
use super::ink::Ink;
use super::setting::{labels, stamp};
use super::sheet::{Head, Key, SIDE, legend_row, part, sheet};
use super::text::{spark, table};
use super::{Case, Plot, PlotError, Setting, blank, read, twin, units};

/// What a curve runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Epochs.
    Epoch,
    /// Seconds of training; evaluation is not part of an epoch's time.
    Seconds,
}

/// What the line and the band of several seeds are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Band {
    /// The median, from the smallest to the largest value.
    #[default]
    Range,
    /// The mean, a standard deviation (of a sample) up and down.
    Std,
}

impl Band {
    /// Names and what they mean.
    pub const NAMES: [(&str, Band); 2] = [("range", Band::Range), ("std", Band::Std)];

    fn words(self) -> &'static str {
        match self {
            Band::Range => "median, and the smallest to the largest value, over seeds",
            Band::Std => "mean and standard deviation over seeds",
        }
    }
}

/// What a run's evaluations are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    /// Columns `val_…` and `test_…` end so.
    column: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its name at an axis.
    pub axis: &'static str,
}

const SCORES: [Score; 3] = [
    Score {
        column: "acc",
        name: "accuracy",
        axis: "accuracy (share correct)",
    },
    Score {
        column: "f1",
        name: "micro-F1",
        axis: "micro-averaged F1",
    },
    Score {
        column: "auc",
        name: "AUC",
        axis: "area under the ROC curve",
    },
];

/// One run's numbers, in the order of its epochs.
pub(super) struct Track {
    pub epoch: Vec<f64>,
    pub x: Vec<f64>,
    pub loss: Vec<f64>,
    pub score: Score,
    pub val: Vec<f64>,
    pub test: Vec<f64>,
}

impl Track {
    pub(super) fn read(case: &Case, axis: Axis) -> Result<Track, PlotError> {
        let frame = &case.frame;
        let epoch = read::need(frame, "epochs", "epoch")?;
        let unknown = || vec![f64::NAN; epoch.len()];
        let x = match axis {
            Axis::Epoch => epoch.clone(),
            Axis::Seconds => {
                let mut sum = 0.0;
                let walls = read::need(frame, "epochs", "wall_ms")?.into_iter();
                walls
                    .map(|ms| {
                        sum += if ms.is_finite() { ms / 1000.0 } else { 0.0 };
                        sum
                    })
                    .collect()
            }
        };
        let scores = |score: &Score| {
            let of = |set: &str| {
                let column = format!("{set}_{}", score.column);
                read::maybe(frame, &column).unwrap_or_else(unknown)
            };
            (of("val"), of("test"))
        };
        let known = |score: &&Score| {
            let (val, test) = scores(score);
            val.iter().chain(&test).any(|v| v.is_finite())
        };
        let score = *SCORES.iter().find(known).unwrap_or(&SCORES[0]);
        let (val, test) = scores(&score);
        Ok(Track {
            loss: read::need(frame, "epochs", "train_loss")?,
            score,
            val,
            test,
            epoch,
            x,
        })
    }

    /// Known values `y` along the track.
    pub(super) fn points<'a>(&'a self, y: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        let pairs = self.x.iter().copied().zip(y.iter().copied());
        pairs.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Index of the first epoch with the best validation score.
    pub(super) fn best(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (i, v) in self.val.iter().enumerate() {
            if v.is_finite() && best.is_none_or(|b| *v > self.val[b]) {
                best = Some(i);
            }
        }
        best
    }

    fn best_words(&self) -> Option<String> {
        let b = self.best()?;
        let test = match self.test[b] {
            t if t.is_finite() => format!(", test {}", units::score(t)),
            _ => String::new(),
        };
        let val = units::score(self.val[b]);
        Some(format!(
            "best val {val} at epoch {:.0}{test}",
            self.epoch[b]
        ))
    }
}

/// Runs that repeat one setting with other seeds.
pub(super) struct Group {
    pub label: String,
    pub members: Vec<usize>,
}

/// Loss and score of one or several runs; `cases` carry `epochs` frames.
///
/// The score is the accuracy, micro-averaged F1 or AUC, as the run's task has it. One run shows that
/// of validation and test; several runs that of validation only (of test where there is no
/// validation). Runs that differ in nothing but the seed become one line inside a `band`. More than six lines
/// are drawn on rows of panels with common axes, a strategy each where there are few enough of each.
///
/// # Errors
/// A frame without `epoch` or `train_loss` (or `wall_ms` for [`Axis::Seconds`]).
pub fn curve(cases: &[Case], axis: Axis, band: Band) -> Result<Plot, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|c| &c.setting).collect();
    let title = match cases {
        [one] => format!("Learning curve on {}", one.setting.data_label()),
        [first, rest @ ..] if rest.iter().all(|c| c.setting.data == first.setting.data) => {
            format!("Learning curves on {}", first.setting.data_label())
        }
        _ => "Learning curves".to_owned(),
    };
    if cases.iter().all(|c| c.frame.height() == 0) {
        return blank(&title, "No epoch has been recorded yet.", &settings);
    }
    let tracks: Vec<Track> = cases
        .iter()
        .map(|c| Track::read(c, axis))
        .collect::<Result<_, _>>()?;
    let groups = grouped(&settings);
    let notes = notes(&groups, &tracks, &settings, band);
    let rows = facets(&groups, &settings);
    let foot = stamp(&settings);
    let head = Head {
        title: title.clone(),
        subtitle: notes.first().cloned().unwrap_or_default(),
        desc: notes.join(". "),
        legend: match rows.len() {
            1 => legend(&groups, &tracks),
            _ => Vec::new(),
        },
        foot: foot.clone(),
    };
    let (high, key) = if rows.len() > 1 { (230, 22) } else { (300, 0) };
    let svg = sheet(&head, (880, (high + key) * rows.len() as i32), |area| {
        for (row, shown) in rows.iter().enumerate() {
            let top = (high + key) * row as i32;
            let panels = Panels {
                axis,
                band,
                shown,
                groups: &groups,
                tracks: &tracks,
                settings: &settings,
                high,
            };
            if key > 0 {
                let names = shown.iter().enumerate();
                let names: Vec<_> = names
                    .map(|(k, g)| (Key::Line(Ink::line(k)), groups[*g].label.clone()))
                    .collect();
                legend_row(area, &names, top + key / 2)?;
            }
            for (side, what) in [What::Loss, What::Score].into_iter().enumerate() {
                let at = (SIDE + side as i32 * 424, top + key);
                panels.draw(&part(area, at, (412, high)), what)?;
            }
        }
        Ok(())
    })?;
    let text = twin(&title, &notes, &numbers(&groups, &tracks, &settings), &foot);
    Ok(Plot { svg, text })
}

fn grouped(settings: &[&Setting]) -> Vec<Group> {
    let mut keys: Vec<String> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for (i, setting) in settings.iter().enumerate() {
        let key = setting.group();
        // Only another seed makes a repeat; the same seed twice is shown as two lines.
        let at = keys.iter().position(|k| *k == key).filter(|g| {
            let seeds = groups[*g].members.iter().map(|m| settings[*m].seed);
            setting.seed.is_some() && !seeds.into_iter().any(|s| s == setting.seed)
        });
        match at {
            Some(g) => groups[g].members.push(i),
            None => {
                keys.push(key);
                groups.push(Group {
                    label: String::new(),
                    members: vec![i],
                });
            }
        }
    }
    let sizes: Vec<usize> = groups.iter().map(|g| g.members.len()).collect();
    let several = sizes.iter().any(|n| *n > 1);
    let firsts = groups.iter().map(|g| settings[g.members[0]].clone());
    let firsts: Vec<Setting> = firsts
        .map(|first| Setting {
            // A seed names a run, not its repeats.
            seed: first.seed.filter(|_| !several),
            ..first
        })
        .collect();
    let firsts: Vec<&Setting> = firsts.iter().collect();
    let alike = sizes.iter().all(|n| *n == sizes[0]);
    for (group, label) in groups.iter_mut().zip(labels(&firsts)) {
        group.label = match group.members.len() {
            n if several && !alike => format!("{label} ({})", units::plural(n, "seed")),
            _ => label,
        };
    }
    groups
}

fn legend(groups: &[Group], tracks: &[Track]) -> Vec<(Key, String)> {
    let mut legend: Vec<(Key, String)> = if tracks.len() == 1 {
        let (score, val, test) = (tracks[0].score.name, &tracks[0].val, &tracks[0].test);
        let known = [("validation", val), ("test", test)]
            .into_iter()
            .enumerate();
        known
            .filter(|(_, (_, y))| y.iter().any(|v| v.is_finite()))
            .map(|(k, (name, _))| (Key::Line(Ink::line(k)), format!("{name} {score}")))
            .collect()
    } else {
        let each = groups.iter().enumerate();
        each.map(|(k, g)| (Key::Line(Ink::line(k)), g.label.clone()))
            .collect()
    };
    if groups.len() == tracks.len() && tracks.iter().any(|t| t.best().is_some()) {
        legend.push((Key::Ring(Ink::TEXT), "best validation epoch".into()));
    }
    legend
}

/// Facts in words, the first for the subtitle.
fn notes(groups: &[Group], tracks: &[Track], settings: &[&Setting], band: Band) -> Vec<String> {
    let mut notes = Vec::new();
    if let [track] = tracks {
        let epochs = units::plural(track.epoch.len(), "epoch");
        let best = track.best_words().map(|w| format!(" · {w}"));
        notes.push(epochs + &best.unwrap_or_default());
    } else {
        let runs = units::plural(tracks.len(), "run");
        let lines = units::plural(groups.len(), "line");
        let bands = match groups.len() < tracks.len() {
            true => format!(": {}", band.words()),
            false => String::new(),
        };
        notes.push(format!("{runs}, {lines}{bands}"));
    }
    for (track, setting) in tracks.iter().zip(settings) {
        if let Some(label) = setting.stop_label() {
            let last = track.epoch.last().copied().unwrap_or(f64::NAN);
            notes.push(format!(
                "run {}: {label}, last finished epoch {last:.0}",
                setting.run_id
            ));
        }
    }
    notes
}

fn numbers(groups: &[Group], tracks: &[Track], settings: &[&Setting]) -> String {
    let mut rows = Vec::new();
    for group in groups {
        for m in &group.members {
            let track = &tracks[*m];
            let finite = || track.loss.iter().copied().filter(|v| v.is_finite());
            let best = track.best();
            let at = |v: &[f64]| best.map_or("-".to_owned(), |b| units::score(v[b]));
            let label = match (group.members.len(), settings[*m].seed) {
                (1, _) => group.label.clone(),
                (_, seed) => format!("{} seed {}", group.label, seed.unwrap_or_default()),
            };
            rows.push(vec![
                label,
                track.epoch.len().to_string(),
                units::score(finite().next().unwrap_or(f64::NAN)),
                units::score(finite().next_back().unwrap_or(f64::NAN)),
                spark(&track.loss, 16),
                at(&track.val),
                at(&track.test),
                best.map_or("-".into(), |b| format!("{:.0}", track.epoch[b])),
                spark(&track.val, 16),
            ]);
        }
    }
    let head = [
        "run",
        "epochs",
        "first loss",
        "last loss",
        "loss",
        "best val",
        "test there",
        "at epoch",
        "val",
    ];
    table(&head, &rows)
}
