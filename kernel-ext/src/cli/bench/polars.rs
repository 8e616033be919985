//! `halobook bench polars`: operations of frames as cells run them, with `--against python` by turns with Python's
//! Polars on the same rows.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use halobook::Export;
use halobook::polars::prelude::*;

use super::notebook::project_python;

/// The other side, in a Python that has `polars`.
const SCRIPT: &str = include_str!("polars.py");

/// What is timed: its name, and how. The Python script has the same names.
type Operation = (&'static str, fn(&Rows) -> PolarsResult<usize>);

const OPERATIONS: [Operation; 12] = [
    ("group_by", |r| {
        let of = r.frame.clone().lazy().group_by([col("k")]);
        of.agg([col("v").mean().alias("mean"), col("v").sum().alias("sum")])
            .collect()
            .map(height)
    }),
    ("join", |r| {
        let left = r.frame.clone().lazy();
        left.join(
            r.keys.clone().lazy(),
            [col("k")],
            [col("k")],
            JoinArgs::new(JoinType::Left),
        )
        .collect()
        .map(height)
    }),
    ("self-join", |r| {
        let left = r.frame.clone().lazy().select([col("id"), col("k")]);
        let right = r.frame.clone().lazy().select([col("id"), col("v")]);
        left.join(
            right,
            [col("id")],
            [col("id")],
            JoinArgs::new(JoinType::Inner),
        )
        .collect()
        .map(height)
    }),
    ("sort", |r| {
        r.frame
            .sort(["v"], SortMultipleOptions::default())
            .map(height)
    }),
    ("filter", |r| {
        let of = r.frame.clone().lazy().select([col("k"), col("v")]);
        of.filter(col("v").gt(lit(0.5)).and(col("k").lt(lit(500))))
            .collect()
            .map(height)
    }),
    ("with_columns", |r| {
        let sum = col("v") * lit(2.0) + col("k").cast(DataType::Float64);
        r.frame
            .clone()
            .lazy()
            .with_columns([sum.alias("z")])
            .collect()
            .map(height)
    }),
    ("sum", |r| {
        let of = r.frame.clone().lazy();
        of.select([col("v").sum(), col("k").max(), col("id").mean()])
            .collect()
            .map(height)
    }),
    ("strings", |r| {
        let long = col("s").str().to_uppercase().str().len_bytes().sum();
        r.frame.clone().lazy().select([long]).collect().map(height)
    }),
    ("rolling", |r| {
        let options = RollingOptionsFixedWindow {
            window_size: 50,
            min_periods: 50,
            ..Default::default()
        };
        r.frame
            .clone()
            .lazy()
            .select([col("v").rolling_mean(options)])
            .collect()
            .map(height)
    }),
    ("pivot", |r| {
        let of = r
            .frame
            .clone()
            .lazy()
            .with_columns([(col("id") % lit(8)).alias("m")]);
        of.group_by([col("k"), col("m")])
            .agg([col("v").mean()])
            .collect()
            .map(height)
    }),
    ("read CSV", |r| {
        CsvReadOptions::default()
            .try_into_reader_with_file_path(Some(r.csv.clone()))?
            .finish()
            .map(height)
    }),
    ("read Parquet", |r| {
        ParquetReader::new(std::fs::File::open(&r.parquet)?)
            .finish()
            .map(height)
    }),
];

/// A closure over columns, which Python runs as its own code; here it is compiled.
const CLOSURE: &str = "closure";

fn closure(rows: &Rows) -> PolarsResult<usize> {
    let (v, k) = (
        rows.frame.column("v")?.f64()?,
        rows.frame.column("k")?.i64()?,
    );
    let of = v
        .iter()
        .zip(k.iter())
        .map(|(v, k)| Some(v? * (k? % 7) as f64 + 1.0));
    Ok(of.collect::<Float64Chunked>().len())
}

fn height(frame: DataFrame) -> usize {
    frame.height()
}

/// What is worked on.
struct Rows {
    frame: DataFrame,
    /// A row for each key.
    keys: DataFrame,
    csv: PathBuf,
    parquet: PathBuf,
}

impl Rows {
    /// `rows` rows of a thousand keys, ids that repeat, and text; the same every time.
    fn new(rows: usize, dir: &Path) -> Result<Rows> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let k: Vec<i64> = (0..rows).map(|_| (next() % 1000) as i64).collect();
        let v: Vec<f64> = (0..rows)
            .map(|_| (next() >> 11) as f64 / (1_u64 << 53) as f64)
            .collect();
        let id: Vec<i64> = (0..rows).map(|_| (next() % rows as u64) as i64).collect();
        let s: Vec<String> = k.iter().map(|k| format!("name_{k}")).collect();
        let frame = df!("k" => k, "v" => v, "id" => id, "s" => s)?;
        let keys = df!(
            "k" => (0..1000_i64).collect::<Vec<_>>(),
            "w" => (0..1000).map(f64::from).collect::<Vec<_>>()
        )?;
        let (csv, parquet) = (dir.join("rows.csv"), dir.join("rows.parquet"));
        frame.head(Some(rows / 5)).to_csv(&csv)?;
        frame.to_parquet(&parquet)?;
        keys.to_parquet(dir.join("keys.parquet"))?;
        Ok(Rows {
            frame,
            keys,
            csv,
            parquet,
        })
    }
}

/// A Python that answers with milliseconds.
struct Python {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start(python: &Path, dir: &Path, threads: usize) -> Result<Python> {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            .arg(dir)
            .env("POLARS_MAX_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", python.display()))?;
        let asks = child.stdin.take().context("a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Python {
            child,
            asks,
            answers,
        })
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        writeln!(self.asks, "{what}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "this Python has no polars, or cannot do {what} (--python names another one)"
        );
        Ok(line.trim().to_owned())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Times operations on `--rows` rows, `--rounds` times each after one that is not counted.
///
/// # Errors
/// A wrong flag, a Python without `polars`, an operation that fails.
pub fn polars(words: &[String]) -> Result<ExitCode> {
    let (mut rows, mut rounds, mut against, mut json) = (5_000_000_usize, 7_usize, false, false);
    let mut python = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--json" => json = true,
            "--rows" => rows = value()?.parse::<usize>().context("--rows takes a number")?,
            "--rounds" => {
                rounds = value()?
                    .parse::<usize>()
                    .context("--rounds takes a number")?
            }
            "--python" => python = Some(PathBuf::from(value()?)),
            "--against" => {
                let other = value()?;
                ensure!(other == "python", "--against takes python, not {other}");
                against = true;
            }
            other => bail!(
                "bench polars has no flag {other}; it has --rows, --rounds, --against, --python, --json"
            ),
        }
    }
    ensure!(
        rounds > 0 && rows >= 1000,
        "--rounds takes a number from 1 on, and --rows one from 1000 on"
    );
    launcher::sys::settle_frames();
    let threads = std::thread::available_parallelism()?.get();
    let dir = std::env::temp_dir().join(format!("halobook-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let timed = timed(
        rows,
        rounds,
        against.then(|| python.unwrap_or_else(project_python)),
        threads,
        &dir,
    );
    std::fs::remove_dir_all(&dir)?;
    let (version, timed) = timed?;
    let with = version.as_ref().map_or(String::new(), |version| {
        format!(", beside Python's Polars {version}")
    });
    println!("{rows} rows, {threads} threads, median of {rounds} after one{with}");
    println!("{:<14} {:>10} {:>10} {:>7}", "", "ms", "python ms", "ratio");
    for (name, ours, theirs) in &timed {
        let (their, ratio) = match theirs {
            Some(theirs) => (format!("{theirs:.1}"), format!("{:.2}", ours / theirs)),
            None => ("-".into(), "-".into()),
        };
        println!("{name:<14} {ours:>10.1} {their:>10} {ratio:>7}");
    }
    if json {
        let rows: Vec<_> = timed
            .iter()
            .map(|(name, ours, theirs)| serde_json::json!({"name": name, "ms": ours, "python_ms": theirs}))
            .collect();
        println!(
            "{}",
            serde_json::json!({"rows": rows, "threads": threads, "python_polars": version})
        );
    }
    Ok(ExitCode::SUCCESS)
}

type Timed = Vec<(&'static str, f64, Option<f64>)>;

/// Medians of all operations, ours and theirs, and the version of theirs.
fn timed(
    rows: usize,
    rounds: usize,
    python: Option<PathBuf>,
    threads: usize,
    dir: &Path,
) -> Result<(Option<String>, Timed)> {
    let rows = Rows::new(rows, dir)?;
    let mut python = python
        .map(|path| Python::start(&path, dir, threads))
        .transpose()?;
    let version = python
        .as_mut()
        .map(|python| python.ask("version"))
        .transpose()?;
    let all = OPERATIONS
        .into_iter()
        .chain([(CLOSURE, closure as fn(&Rows) -> PolarsResult<usize>)]);
    let mut out = Timed::new();
    for (name, run) in all {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let start = Instant::now();
            let height = run(&rows)?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let their = python.as_mut().map(|python| python.ask(name)).transpose()?;
            if round == 0 {
                check(name, height, their.as_deref())?;
                continue;
            }
            ours.push(ms);
            theirs.extend(their.and_then(|line| line.split(' ').next()?.parse::<f64>().ok()));
        }
        out.push((
            name,
            median(&mut ours),
            (!theirs.is_empty()).then(|| median(&mut theirs)),
        ));
    }
    Ok((version, out))
}

/// Both sides did the same: as many rows came out.
fn check(name: &str, ours: usize, theirs: Option<&str>) -> Result<()> {
    let Some(theirs) = theirs else { return Ok(()) };
    let theirs: Option<usize> = theirs.split(' ').nth(1).and_then(|rows| rows.parse().ok());
    ensure!(
        theirs == Some(ours),
        "{name} gives {ours} rows, and Python {theirs:?}"
    );
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
