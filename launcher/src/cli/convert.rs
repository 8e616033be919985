//! `halobook convert`: any data set, or an edge list of any length, to a stored graph.

mod options;

use super::pace::Pace;
use super::words::Words;
use crate::tables::sound::Content;
use crate::tables::{self, TableEdges};
use crate::{Error, Result, sys};
use gnn_core::convert::{self as converting, EdgeSource, NpyEdges, Options, Summary, TextEdges};
use gnn_core::dataset::{self, Limit};
use gnn_core::record::clock::peak_memory_bytes;
use gnn_core::store::{self, Stored, Verdicts};
use options::options;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What `--help` says beyond the first lines.
pub const HELP: &str = "
  SRC  what train takes as --data, or an edge list: text (.txt .csv .tsv .edges .el .edgelist, each
       also .gz and .zst) with two ids a line, .npy [E, 2], .parquet, .arrow or .feather with columns src and dst;
       edge lists are sorted on disk within --mem
  DST  a file NAME.halo, or a folder that gets graph.halo; train reads either as --data

      --mem SIZE          bytes of memory for edge lists: 500MB, 1GB, 2GiB [1GB]
      --symmetrise        store every edge in both directions
      --dedup             store repeated edges once (what edge lists do)
      --keep-duplicates   store repeated edges as often as they come
      --self-loops WHAT   drop (what edge lists do), add or keep
      --induce FILE       keep the vertices named in FILE, one a line, and the edges between them
      --relabel HOW       none, compact (leave vertices without edges out), or degree
      --ids KIND          u32 or u64; training takes u64 only with fewer than 2^32 vertices [u32]
      --vertices N        number of vertices, where the last ones have no edges
      --vertex-table FILE .parquet, .arrow or .csv beside an edge list, a row a vertex: columns id, label, split
                          (train, val, test), and features; held in memory
      --features FILE     .npy [n, d] beside an edge list, a row a vertex, of any length: rows are read as they
                          are written
      --names             vertices of a text list have names instead of numbers: the list and its dictionary
                          are held in memory, within --mem
      --name NAME         name as it is shown
      --split NAME        which split of the source becomes the standard one
      --seed N            seed of what is generated [0]
      --quiet             no progress
      --json              end with one JSON object on standard output

Data sets stay as they are but for what is asked. The result is read once more and its checksums are
compared before the command ends. While it is written it has another name.
";

/// Endings of edge lists in text.
const TEXT: [&str; 6] = ["txt", "csv", "tsv", "edges", "el", "edgelist"];

/// Runs the command.
pub fn convert(words: &[String]) -> Result<i32> {
    let words = Words::sort(
        words,
        &[
            "symmetrise",
            "dedup",
            "keep-duplicates",
            "names",
            "quiet",
            "json",
        ],
        &[
            "mem",
            "self-loops",
            "induce",
            "relabel",
            "ids",
            "vertices",
            "vertex-table",
            "features",
            "name",
            "split",
            "seed",
        ],
    )?;
    let [from, to] = words.names(["SRC", "DST"]).map_err(|e| {
        let help = "write `halobook convert SRC DST`; --help lists the flags";
        Error::refused(e.to_string(), help)
    })?;
    let list = edge_list(Path::new(from));
    // A dictionary has to be held anyway.
    let list = list.filter(|&kind| !(words.has("names") && kind == List::Text));
    let options = options(&words, list.is_some())?;
    let target = target(Path::new(to))?;
    let began = Instant::now();
    let mut pace = Pace::new(words.has("quiet"));
    let summary = match list {
        Some(kind) => {
            if let Some(flag) = ["split", "seed"].iter().find(|f| words.value(f).is_some()) {
                return Err(Error::refused(
                    format!("--{flag}: an edge list has none"),
                    format!("leave --{flag} out"),
                ));
            }
            let mut source = open(kind, Path::new(from), &options)?;
            let name = words
                .value("name")
                .map_or_else(|| stem(from), str::to_owned);
            converting::edges(source.as_mut(), &name, &target, &options, &mut |step| {
                pace.tell(step)
            })
            .map_err(names_are_read_otherwise)?
        }
        None => in_memory(&words, from, &target, &options, &mut pace)?,
    };
    pace.say("comparing checksums");
    Stored::open(&target)?.verify()?;
    // Its structure is looked at; from then on it is known to be sound.
    pace.say("looking at its structure");
    let fits = list.is_none() || summary.vertices.saturating_mul(OPENED) <= options.mem;
    let look_ms = fits.then(|| opened_in(&target)).transpose()?;
    drop(pace);
    let seconds = began.elapsed().as_secs_f64();
    let (peak, cpu) = (peak_memory_bytes(), sys::cpu_seconds());
    let open_ms = fits.then(|| opened_in(&target)).transpose()?;
    println!(
        "{}: {} vertices, {} edges, {} bytes in {seconds:.2} s ({:.2} M edges/s), peak memory {} MB{}",
        target.display(),
        summary.vertices,
        summary.edges,
        summary.bytes,
        summary.edges as f64 / 1e6 / seconds.max(1e-9),
        peak / 1_000_000,
        open_ms.map_or(String::new(), |ms| format!(", opened in {ms:.1} ms")),
    );
    if words.has("json") {
        let object = json!({
            "path": target, "vertices": summary.vertices, "edges": summary.edges, "read": summary.read,
            "runs": summary.runs, "bytes": summary.bytes, "seconds": seconds, "cpu_seconds": cpu, "mem_peak_bytes": peak,
            "look_ms": look_ms, "open_ms": open_ms,
        });
        println!("{object}");
    }
    Ok(0)
}

/// Bytes that a vertex without features or labels takes in an opened data set; a graph for which that is beyond
/// `--mem` is not opened here.
const OPENED: u64 = 8;

/// Milliseconds to open a stored graph as training opens it: nothing is read that is not needed for it.
fn opened_in(target: &Path) -> Result<f64> {
    let opening = Instant::now();
    let opened = Stored::open_known(target, &crate::store::verdicts())?.dataset();
    match opened {
        // Converted for others than training.
        Err(gnn_core::Error::Unsupported { .. }) => {}
        other => drop(other?),
    }
    Ok(opening.elapsed().as_secs_f64() * 1e3)
}

/// A refusal of a name in a list of numbers, with what reads names.
fn names_are_read_otherwise(error: gnn_core::Error) -> gnn_core::Error {
    match error {
        gnn_core::Error::Data {
            file,
            place,
            reason,
            help,
        } if reason.ends_with("is no vertex id") => gnn_core::Error::Data {
            help: format!("{help}; --names reads a list with names, in memory"),
            file,
            place,
            reason,
        },
        other => other,
    }
}

/// A data set that is loaded as training would, changed, and written.
fn in_memory(
    words: &Words,
    from: &str,
    target: &Path,
    options: &Options,
    pace: &mut Pace,
) -> Result<Summary> {
    pace.say("loading");
    let split = words.value("split").unwrap_or(dataset::STANDARD);
    let seed = words.number("seed")?.unwrap_or(0);
    let mut data = if words.has("names") {
        dataset::load_within(
            from,
            split,
            seed,
            &Limit::new(options.mem),
            &Verdicts::none(),
        )?
    } else {
        dataset::load_split(from, split, seed)?
    };
    let read = data.graph.n_edges() as u64;
    if let Some(name) = words.value("name") {
        data.name = name.to_owned();
    }
    if let Some(n) = options.vertices.filter(|&n| n != data.n() as u64) {
        return Err(Error::refused(
            format!("vertices: {n}, but {from} has {}", data.n()),
            "leave --vertices out for a data set",
        ));
    }
    pace.say("changing edges and vertices");
    let (data, ids) = converting::apply(data, options)?;
    pace.say("writing");
    let bytes = store::save(&data, from, ids.as_deref(), target)?;
    Ok(Summary {
        vertices: data.n() as u64,
        edges: data.graph.n_edges() as u64,
        read,
        runs: 0,
        bytes,
    })
}

/// Kinds of edge lists.
#[derive(Debug, Clone, Copy, PartialEq)]
enum List {
    Text,
    Npy,
    Table(tables::Kind),
}

/// The kind of edge list that a file is, by its name.
fn edge_list(path: &Path) -> Option<List> {
    if !path.is_file() {
        return None;
    }
    let ending = |path: &Path| path.extension()?.to_str().map(str::to_lowercase);
    match ending(path)?.as_str() {
        "npy" => Some(List::Npy),
        "gz" | "zst" => edge_list_text(&ending(&path.with_extension("")).unwrap_or_default()),
        other => match tables::Kind::of(other) {
            Some(kind) => Some(List::Table(kind)),
            None => edge_list_text(other),
        },
    }
}

fn edge_list_text(ending: &str) -> Option<List> {
    TEXT.contains(&ending).then_some(List::Text)
}

fn open(kind: List, path: &Path, options: &Options) -> Result<Box<dyn EdgeSource>> {
    Ok(match kind {
        List::Text => Box::new(TextEdges::open(path, options.block())?),
        List::Npy => Box::new(NpyEdges::open(path, options.block())?),
        List::Table(kind) => {
            let (block, mem) = (options.block(), options.mem);
            tables::sound::sound(path, Content::Edges { block, mem })?;
            Box::new(TableEdges::open(path, kind, block)?)
        }
    })
}

/// The name of a file without folder and endings.
fn stem(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// The file to write: `DST` itself, or `graph.halo` in the folder that it is then.
fn target(to: &Path) -> Result<PathBuf> {
    let is_file = to.extension().is_some_and(|e| e == store::ENDING) && !to.is_dir();
    let folder = if is_file { to.parent() } else { Some(to) };
    if let Some(folder) = folder.filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    Ok(if is_file {
        to.to_owned()
    } else {
        to.join(store::IN_FOLDER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<i32> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        convert(&words)
    }

    #[test]
    fn edge_lists_are_known_by_their_names() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, kind) in [
            ("a.txt", Some(List::Text)),
            ("a.CSV.gz", Some(List::Text)),
            ("a.edges.zst", Some(List::Text)),
            ("a.npy", Some(List::Npy)),
            ("a.parquet", Some(List::Table(tables::Kind::Parquet))),
            ("a.feather", Some(List::Table(tables::Kind::Arrow))),
            ("a.mtx.zst", None),
            ("a.npz", None),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, "0 1").expect("writable");
            assert_eq!(edge_list(&path), kind, "{name}");
        }
        assert_eq!(edge_list(&dir.path().join("none.txt")), None);
    }

    #[test]
    fn wrong_words_are_refused() {
        for (line, part) in [
            ("karate", "expected SRC DST"),
            (
                "karate /tmp/x --self-loops some",
                "expected drop, add, keep",
            ),
            (
                "karate /tmp/x --relabel x",
                "expected none, compact, degree",
            ),
            ("karate /tmp/x --mem lots", "expected a size"),
            ("karate /tmp/x --dedup --keep-duplicates", "exclude"),
            ("karate /tmp/x --induce /nowhere", "/nowhere"),
        ] {
            let e = run(line).expect_err(line).to_string();
            assert!(e.contains(part), "{line}: {e}");
        }
    }

    #[test]
    fn data_sets_and_edge_lists_are_converted() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let load = |path: &str| dataset::load(path, 0).expect("just written");
        run(&format!("sbm:nodes=50 {} --seed 3 --quiet", at("folder"))).expect("converts");
        let (got, want) = (load(&at("folder")), dataset::load("sbm:nodes=50", 3));
        let want = want.expect("built in");
        assert_eq!((&got.graph, &got.labels), (&want.graph, &want.labels));
        std::fs::write(at("list.txt"), "0 1\n1 0\n2 0\n0 1\n3 3\n").expect("writable");
        std::fs::write(at("keep"), "# some\n0\n2\n").expect("writable");
        let edges = |flags: &str| {
            let line = format!("{} {} --quiet {flags}", at("list.txt"), at("a/b.halo"));
            run(&line).expect("converts");
            let got = load(&at("a/b.halo"));
            (got.n(), got.graph.n_edges())
        };
        assert_eq!(edges(""), (4, 3));
        assert_eq!(edges("--symmetrise"), (4, 4));
        assert_eq!(edges("--keep-duplicates --self-loops keep"), (4, 5));
        assert_eq!(edges("--self-loops add --vertices 9"), (9, 12));
        assert_eq!(edges("--relabel compact --json"), (4, 3));
        assert_eq!(edges(&format!("--induce {}", at("keep"))), (2, 1));
        assert_eq!(load(&at("a/b.halo")).name, "list");
        std::fs::write(at("v.csv"), "id,label,x\n0,0,0.5\n2,1,1.5\n3,1,2.5\n").expect("writable");
        let table = format!("--relabel degree --vertex-table {}", at("v.csv"));
        assert_eq!(edges(&table), (4, 3));
        let got = load(&at("a/b.halo"));
        // By falling degree: 0, 1, then 2 and 3 without in-edges.
        assert_eq!((&got.labels[..], got.n_classes), (&[0, -1, 1, 1][..], 2));
        assert_eq!(got.features.dense(), Some(&[0.5, 0.0, 1.5, 2.5][..]));
        std::fs::write(at("named.txt"), "York Boston\nBoston Rome\n").expect("writable");
        let named = |flags: &str| run(&format!("{} {} --quiet {flags}", at("named.txt"), at("n")));
        let e = named("").expect_err("names");
        assert!(e.help().contains("--names"), "{}", e.help());
        named("--names").expect("a dictionary of three");
        let got = load(&at("n"));
        assert_eq!((got.n(), got.about.ids.map(|ids| ids.len())), (3, Some(3)));
        let e = run(&format!("{} {} --seed 1", at("list.txt"), at("c"))).expect_err("no seed");
        assert!(e.to_string().contains("--seed"));
    }
}
