//! What a figure must carry with it: the setting of each run it shows.

use std::collections::BTreeMap;

use launcher::partition::Report;
use polars::prelude::DataFrame;

/// How many words tell runs apart.
const WORDS: usize = 10;
/// Which of them names the data.
const DATA: usize = 4;
/// How many run ids a figure's foot has room for.
const MOST_IDS: usize = 3;

/// The setting of one run, stamped on every plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// Id in the run store.
    pub run_id: String,
    /// The name the user gave, or empty.
    pub name: String,
    /// Data set as it was asked for.
    pub data: String,
    /// Model.
    pub model: String,
    /// Strategy.
    pub strategy: String,
    /// Where the kernels ran: `cpu` or `cuda`.
    pub backend: String,
    /// How ranks were started: `threads`, `mpi`, `slurm`.
    pub launch: String,
    /// `ok`, `running`, `interrupted`, `failed` or `stalled`.
    pub status: String,
    /// Class of machine, as the run recorded it.
    pub host_class: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Compute threads of each rank, 0 where it is not known.
    pub threads: u32,
    /// Seed, if known.
    pub seed: Option<u64>,
    /// More ranks than cores: read shapes, not speed-ups.
    pub oversubscribed: bool,
    /// The modelled link that messages travelled by, as `1gbit,50us`; empty where there was none.
    pub link: String,
    /// The rank that was slowed down on purpose, as `2:3x`; empty where there was none.
    pub slow: String,
    /// The bound of a strategy that reuses old rows, as `epoch-fixed=1`; empty for others.
    pub bound: String,
    /// The validation score that was asked for as `target`; none where it was not.
    pub target: Option<f64>,
    /// Whether the run says that its data was generated.
    pub generated: bool,
    /// What else decides what an epoch computes, by key: runs that differ in it repeat nothing.
    pub knobs: BTreeMap<String, String>,
}

/// One run in a plot: its setting and the frame that the plot reads.
#[derive(Clone, Debug)]
pub struct Case {
    /// Stamped on the figure and used to label the run.
    pub setting: Setting,
    /// The frame of the kind's [`frame`](super::Kind::frame).
    pub frame: DataFrame,
    /// The run's cut as a whole, where it has one; only [`partition`](super::partition()) reads it.
    pub cut: Option<Report>,
}

impl Setting {
    /// True when the graph was generated, not measured.
    pub fn synthetic(&self) -> bool {
        let by_name = ["sbm", "rmat", "like"]
            .iter()
            .any(|kind| self.data == *kind || self.data.starts_with(&format!("{kind}:")));
        self.generated || by_name
    }

    /// The data set's name with its mark: `sbm:nodes=400 (synthetic)`.
    pub fn data_label(&self) -> String {
        let data = if self.data.is_empty() {
            "unnamed data"
        } else {
            &self.data
        };
        let mark = if self.synthetic() { " (synthetic)" } else { "" };
        format!("{data}{mark}")
    }

    /// Everything but the run's own id and seed, as one key: runs that repeat one setting.
    pub(crate) fn group(&self) -> String {
        let Setting {
            name,
            data,
            model,
            strategy,
            backend,
            launch,
            ranks,
            threads,
            link,
            slow,
            bound,
            knobs,
            ..
        } = self;
        format!(
            "{name}|{data}|{model}|{strategy}|{backend}|{launch}|{ranks}|{threads}|{link}|{slow}|{bound}|{knobs:?}"
        )
    }

    /// The words a reader may tell runs apart by, the most telling first.
    fn words(&self) -> [String; WORDS] {
        [
            self.strategy.clone(),
            match self.ranks {
                0 => String::new(),
                ranks => super::units::plural(ranks as usize, "rank"),
            },
            self.threads_label(),
            self.model.clone(),
            self.data_label(),
            self.backend.clone(),
            self.link_label(),
            self.slow_label(),
            self.bound.clone(),
            self.seed.map(|s| format!("seed {s}")).unwrap_or_default(),
        ]
    }

    /// `2 threads each`, or nothing where it is not known.
    pub(crate) fn threads_label(&self) -> String {
        let each = if self.ranks == 1 { "" } else { " each" };
        match self.threads {
            0 => String::new(),
            threads => format!("{}{each}", super::units::plural(threads as usize, "thread")),
        }
    }

    /// Compute threads of all ranks; every rank has one at least.
    pub(crate) fn cores(&self) -> u32 {
        self.ranks.max(1) * self.threads.max(1)
    }

    /// `link 1gbit,50us (modelled)`, or nothing.
    fn link_label(&self) -> String {
        match self.link.as_str() {
            "" => String::new(),
            link => format!("link {link} (modelled)"),
        }
    }

    /// `rank 2 slowed 3x on purpose`, or nothing.
    fn slow_label(&self) -> String {
        match self.slow.split_once(':') {
            Some((rank, factor)) => format!("rank {rank} slowed {factor} on purpose"),
            None => String::new(),
        }
    }

    fn early(&self) -> bool {
        matches!(self.status.as_str(), "interrupted" | "failed" | "stalled")
    }

    /// Why the run has fewer epochs than it should, for a mark in the plot.
    pub(crate) fn stop_label(&self) -> Option<String> {
        match self.status.as_str() {
            "running" => Some("still running".into()),
            status if self.early() => Some(status.to_owned()),
            _ => None,
        }
    }
}

/// The shortest labels that tell `settings` apart, in their order.
pub(crate) fn labels(settings: &[&Setting]) -> Vec<String> {
    let words: Vec<[String; WORDS]> = settings.iter().map(|s| s.words()).collect();
    let varies = |i: usize| words.iter().any(|w| w[i] != words[0][i]);
    let mut keep: Vec<usize> = (0..WORDS).filter(|i| *i < 2 || varies(*i)).collect();
    let knobs = telling_knobs(settings);
    if settings.len() > 1 && (!knobs.is_empty() || keep.iter().any(|i| varies(*i))) {
        keep.retain(|i| varies(*i) || *i == 0);
    }
    let label = |(words, setting): (&[String; WORDS], &&Setting)| {
        let kept = keep.iter().map(|i| words[*i].clone());
        let own = knobs.iter().filter_map(|key| {
            let value = setting.knobs.get(*key)?;
            Some(format!("{key} {value}"))
        });
        let said: Vec<String> = kept.chain(own).filter(|w| !w.is_empty()).collect();
        said.join(" · ")
    };
    let mut labels: Vec<String> = words.iter().zip(settings).map(label).collect();
    for (label, setting) in labels.iter_mut().zip(settings) {
        if !setting.name.is_empty() {
            *label = setting.name.clone();
        }
    }
    let twice: Vec<bool> = labels
        .iter()
        .map(|l| labels.iter().filter(|m| *m == l).count() > 1)
        .collect();
    for ((label, setting), twice) in labels.iter_mut().zip(settings).zip(twice) {
        if twice {
            *label = format!("{label} · {}", setting.run_id);
        }
    }
    labels
}

/// Keys whose values differ between those that have them, in the order of the alphabet.
fn telling_knobs<'a>(settings: &[&'a Setting]) -> Vec<&'a str> {
    let mut first: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
    for (key, value) in settings.iter().flat_map(|s| &s.knobs) {
        let known = first.entry(key).or_insert((value, false));
        known.1 |= known.0 != value;
    }
    let telling = first.into_iter().filter(|(_, (_, differ))| *differ);
    telling.map(|(key, _)| key).collect()
}

/// Two lines for the foot of a figure: the setting, then run ids and the machine.
pub(crate) fn stamp(settings: &[&Setting]) -> Vec<String> {
    let Some(first) = settings.first() else {
        return Vec::new();
    };
    let words: Vec<[String; WORDS]> = settings.iter().map(|s| s.words()).collect();
    let common: Vec<&str> = (0..WORDS)
        .filter(|i| words.iter().all(|w| w[*i] == words[0][*i]))
        .map(|i| words[0][i].as_str())
        .filter(|w| !w.is_empty())
        .collect();
    // What varies is in the labels; the data set's mark is said even then.
    let mut line = vec![common.join(" · ")];
    if words.iter().any(|w| w[DATA] != words[0][DATA]) {
        let mut data: Vec<String> = Vec::new();
        for label in settings.iter().map(|s| s.data_label()) {
            if !data.contains(&label) {
                data.push(label);
            }
        }
        line.push(data.join(", "));
    }
    for said in [Setting::link_label, Setting::slow_label] {
        let mut words: Vec<String> = settings.iter().map(|s| said(s)).collect();
        words.sort_unstable();
        words.dedup();
        if words.len() > 1 {
            let words = words.iter().filter(|w| !w.is_empty());
            line.extend(words.map(|w| format!("{w} in part")));
        }
    }
    line.retain(|l| !l.is_empty());
    let ids: Vec<&str> = settings.iter().map(|s| s.run_id.as_str()).collect();
    let named = match ids.as_slice() {
        [id] => format!("run {id}"),
        // So many would be half of the figure; their frame names them all.
        [first, .., last] if ids.len() > MOST_IDS => {
            format!("{} runs, {first} to {last}", ids.len())
        }
        ids => format!("runs {}", ids.join(", ")),
    };
    let mut second = vec![named];
    let mut launches: Vec<&str> = settings
        .iter()
        .filter(|s| s.ranks > 1 && !s.launch.is_empty())
        .map(|s| s.launch.as_str())
        .collect();
    launches.sort_unstable();
    launches.dedup();
    if !launches.is_empty() {
        second.push(format!("ranks by {}", launches.join(" and ")));
    }
    if !first.host_class.is_empty() {
        second.push(first.host_class.clone());
    }
    if settings.iter().any(|s| s.oversubscribed) {
        second.push("more ranks than cores: read shapes, not speed-ups".into());
    }
    vec![line.join(" · "), second.join(" · ")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(strategy: &str, ranks: u32, seed: u64) -> Setting {
        Setting {
            run_id: format!("id-{seed}"),
            data: "sbm:nodes=40".into(),
            model: "gcn".into(),
            strategy: strategy.into(),
            ranks,
            seed: Some(seed),
            ..Setting::default()
        }
    }

    #[test]
    fn generated_data_is_marked_by_its_name_or_by_the_run() {
        let named = |data: &str, generated| Setting {
            data: data.into(),
            generated,
            ..Setting::default()
        };
        let by_name = named("like:reddit,scale=0.01", false);
        assert_eq!(by_name.data_label(), "like:reddit,scale=0.01 (synthetic)");
        let converted = named("graphs/mine", true);
        assert_eq!(converted.data_label(), "graphs/mine (synthetic)");
        assert_eq!(named("likeness", false).data_label(), "likeness");
    }

    #[test]
    fn labels_say_only_what_differs() {
        let (a, b, c) = (
            setting("single", 1, 0),
            setting("halo", 2, 0),
            setting("halo", 4, 0),
        );
        assert_eq!(labels(&[&b, &c]), ["halo · 2 ranks", "halo · 4 ranks"]);
        assert_eq!(labels(&[&a, &c]), ["single · 1 rank", "halo · 4 ranks"]);
        assert_eq!(
            labels(&[&b, &setting("halo", 2, 7)]),
            ["halo · seed 0", "halo · seed 7"]
        );
        assert_eq!(
            labels(&[&b, &b]),
            ["halo · 2 ranks · id-0", "halo · 2 ranks · id-0"]
        );
        assert_eq!(labels(&[]), Vec::<String>::new());
    }

    #[test]
    fn knobs_that_differ_are_said_and_no_repeats() {
        let hidden = |strategy: &str, width: &str| {
            let mut setting = setting(strategy, 2, 0);
            setting.knobs.insert("hidden".into(), width.into());
            setting
        };
        let (narrow, wide) = (hidden("halo", "16"), hidden("halo", "64"));
        assert_eq!(
            labels(&[&narrow, &wide]),
            ["halo · hidden 16", "halo · hidden 64"]
        );
        assert_ne!(narrow.group(), wide.group());
        // Of a knob that one strategy has alone, nothing can be told.
        assert_eq!(
            labels(&[&narrow, &setting("single", 2, 0)]),
            ["halo", "single"]
        );
    }

    #[test]
    fn a_modelled_link_is_said() {
        let linked = Setting {
            link: "1gbit,50us".into(),
            ..setting("halo", 2, 0)
        };
        assert!(stamp(&[&linked])[0].contains("link 1gbit,50us (modelled)"));
        let plain = setting("halo", 2, 0);
        assert_eq!(
            labels(&[&plain, &linked]),
            ["halo", "halo · link 1gbit,50us (modelled)"]
        );
        assert!(stamp(&[&plain, &linked])[0].contains("link 1gbit,50us (modelled) in part"));
    }

    #[test]
    fn a_rank_that_was_slowed_down_is_said() {
        let slow = Setting {
            slow: "2:3x".into(),
            ..setting("halo", 4, 0)
        };
        let said = "rank 2 slowed 3x on purpose";
        assert!(stamp(&[&slow])[0].contains(said));
        let plain = setting("halo", 4, 0);
        assert_eq!(labels(&[&plain, &slow])[1], format!("halo · {said}"));
        assert!(stamp(&[&plain, &slow])[0].contains("on purpose in part"));
        assert_ne!(plain.group(), slow.group());
    }

    #[test]
    fn generated_data_says_so_everywhere() {
        let one = setting("halo", 2, 0);
        assert!(stamp(&[&one])[0].contains("sbm:nodes=40 (synthetic)"));
        let other = Setting {
            data: "karate".into(),
            ..one.clone()
        };
        assert!(!other.synthetic());
        assert!(stamp(&[&one, &other])[0].contains("(synthetic), karate"));
    }
}
