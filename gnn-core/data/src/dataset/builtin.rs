//! Data sets without any file: their names, their keys, and what generated ones have in common.

pub(super) mod like;
mod rmat;
mod sbm;
mod sizes;

pub use self::sizes::Sizes;

use kernels::Mat;
use rayon::prelude::*;

use crate::dataset::{Dataset, karate};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

/// Names that need no file.
pub(crate) const NAMES: [&str; 4] = ["karate", "sbm", "rmat", "like"];

/// Makes a data set from its full name, the part behind the colon, and a seed.
pub(super) type Make = fn(&str, &str, u64) -> Result<Dataset>;

/// The generator of that name.
pub(crate) fn find(name: &str) -> Option<Make> {
    match name {
        "karate" => Some(|name, spec, seed| {
            Keys::parse("karate", &[], spec)?;
            karate::load(name, spec, seed)
        }),
        "sbm" => Some(sbm::make),
        "rmat" => Some(rmat::make),
        "like" => Some(like::make),
        _ => None,
    }
}

/// Values of `key=value,key=value` for a fixed list of keys with defaults and ranges.
struct Keys {
    kind: &'static str,
    values: Vec<(Key, f64)>,
}

/// One key of a generator.
#[derive(Clone, Copy)]
struct Key {
    name: &'static str,
    default: f64,
    min: f64,
    max: f64,
    whole: bool,
}

impl Key {
    const fn count(name: &'static str, default: usize, min: usize, max: usize) -> Key {
        Key {
            name,
            default: default as f64,
            min: min as f64,
            max: max as f64,
            whole: true,
        }
    }

    const fn number(name: &'static str, default: f64, min: f64, max: f64) -> Key {
        Key {
            name,
            default,
            min,
            max,
            whole: false,
        }
    }
}

impl Key {
    /// Yes or no; no unless it is said.
    const fn flag(name: &'static str) -> Key {
        Key::count(name, 0, 0, 1)
    }
}

impl Keys {
    fn parse(kind: &'static str, keys: &[Key], spec: &str) -> Result<Keys> {
        let mut values: Vec<(Key, f64)> = keys.iter().map(|k| (*k, k.default)).collect();
        let mut given = Vec::new();
        for pair in spec.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
            let name = name.trim().replace('_', "-");
            let Some((key, value)) = values.iter_mut().find(|(k, _)| k.name == name) else {
                let known: Vec<&str> = keys.iter().map(|k| k.name).collect();
                return Err(Error::unknown(&format!("key of {kind}"), &name, &known));
            };
            let wrong = |reason: String| Error::Spec {
                key: format!("data = {kind}: {}", key.name),
                reason,
                help: key.help(),
            };
            if given.contains(&name) {
                return Err(wrong("given twice".into()));
            }
            let number = match text.trim() {
                "true" if key.is_flag() => Ok(1.0),
                "false" if key.is_flag() => Ok(0.0),
                text => text.parse::<f64>(),
            };
            match number {
                Ok(x) if x >= key.min && x <= key.max && (!key.whole || x.fract() == 0.0) => {
                    *value = x
                }
                Ok(x) => return Err(wrong(format!("{x} is out of range"))),
                Err(_) => return Err(wrong(format!("expected a number, got '{}'", text.trim()))),
            }
            given.push(name);
        }
        Ok(Keys { kind, values })
    }

    fn number(&self, name: &str) -> f64 {
        let found = self.values.iter().find(|(k, _)| k.name == name);
        found.expect("generators ask for keys of their own list").1
    }

    fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    fn flag(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }
}

impl Key {
    fn is_flag(&self) -> bool {
        self.whole && (self.min, self.max) == (0.0, 1.0)
    }

    fn help(&self) -> String {
        if self.is_flag() {
            return format!("{}: true or false", self.name);
        }
        let what = if self.whole {
            "a whole number"
        } else {
            "a number"
        };
        format!(
            "{}: {what} from {} to {}, for instance {}",
            self.name, self.min, self.max, self.default
        )
    }
}

/// Keys that every generator has.
const FEAT: Key = Key::count("feat", 16, 1, 1 << 16);
const CLASSES: Key = Key::count("classes", 4, 2, 1 << 15);
const TRAIN: Key = Key::number("train", 0.6, 0.0, 1.0);
const VAL: Key = Key::number("val", 0.2, 0.0, 1.0);
const TEST: Key = Key::number("test", 0.2, 0.0, 1.0);

/// Elements and edges that a generator makes at most.
const MAX_ELEMENTS: f64 = (1u64 << 34) as f64;
const MAX_EDGES: f64 = (1u64 << 31) as f64;

/// Refuses sizes that are each in range but together are not.
fn check_size(keys: &Keys, n: f64, edges: f64) -> Result<()> {
    let wrong = |reason: String| Error::Spec {
        key: format!("data = {}", keys.kind),
        reason,
        help: "ask for fewer vertices, edges or features".into(),
    };
    if n * keys.number("feat") > MAX_ELEMENTS {
        return Err(wrong(format!(
            "{n} vertices of {} features are too many",
            keys.number("feat")
        )));
    }
    if edges > MAX_EDGES {
        return Err(wrong(format!("{edges} edges are too many")));
    }
    let shares = keys.number("train") + keys.number("val") + keys.number("test");
    if shares > 1.0 + 1e-9 {
        return Err(wrong(format!(
            "train, val and test add up to {shares}, more than 1"
        )));
    }
    Ok(())
}

/// Training, validation and test masks with the shares of `keys`.
fn masks(keys: &Keys, n: usize, seed: u64) -> [Vec<bool>; 3] {
    let (train, val, test) = (
        keys.number("train"),
        keys.number("val"),
        keys.number("test"),
    );
    split(n, seed, [train, val, test])
}

/// Random disjoint masks of `n` vertices with the given shares.
pub(super) fn split(n: usize, seed: u64, shares: [f64; 3]) -> [Vec<bool>; 3] {
    let key = rng::key(seed, 0, Purpose::Split, 0);
    split_by(n, shares, |v| rng::uniform_f64(key, v as u64))
}

/// Disjoint masks of `n` vertices by a number in `[0, 1)` for each.
fn split_by(n: usize, shares: [f64; 3], at: impl Fn(usize) -> f64 + Sync) -> [Vec<bool>; 3] {
    let bounds = [
        0.0,
        shares[0],
        shares[0] + shares[1],
        shares.iter().sum::<f64>(),
    ];
    [0, 1, 2].map(|part| {
        // The last share may end just below 1 by rounding; nobody should fall out there.
        let end = if bounds[part + 1] > 1.0 - 1e-9 {
            1.0
        } else {
            bounds[part + 1]
        };
        (0..n)
            .into_par_iter()
            .map(|v| (bounds[part]..end).contains(&at(v)))
            .collect()
    })
}

/// Standard normal features `[n, d]`, after which `shift` may move row `v`.
fn normal_features(n: usize, d: usize, seed: u64, shift: impl Fn(usize, &mut [f32]) + Sync) -> Mat {
    let key = rng::key(seed, 0, Purpose::Features, 0);
    let pairs = d.div_ceil(2) as u64;
    let mut x = vec![0f32; n * d];
    x.par_chunks_mut(d).enumerate().for_each(|(v, row)| {
        for (p, pair) in row.chunks_mut(2).enumerate() {
            let (a, b) = rng::normal_pair(rng::at(key, v as u64 * pairs + p as u64));
            pair[0] = a;
            if let Some(second) = pair.get_mut(1) {
                *second = b;
            }
        }
        shift(v, row);
    });
    Mat::from_shape_vec((n, d), x).expect("n * d elements were made")
}
