//! Conversions against [`Graph::from_edges`] of the same edges in memory, at limits so small that
//! edges are spilled in some cases. The peak of memory is measured in `tests/bounded_memory.rs`.

use std::io::Write;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::dataset::{DataSpec, Features};
use crate::graph::{EdgeOptions, Graph};
use crate::load::{load, load_for};
use crate::store::{Stored, Verdicts};
use crate::testing::{random_dataset, with_relations};

/// A source of edges in memory.
struct List {
    edges: Vec<[u64; 2]>,
    at: usize,
}

impl EdgeSource for List {
    fn next(&mut self, edges: &mut Vec<[u64; 2]>) -> Result<bool> {
        edges.clear();
        let end = (self.at + 7).min(self.edges.len());
        edges.extend_from_slice(&self.edges[self.at..end]);
        self.at = end;
        Ok(self.at < self.edges.len())
    }

    fn rewind(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.at as u64, self.edges.len() as u64)
    }

    fn name(&self) -> String {
        "a list".into()
    }
}

fn converted(list: &[[u64; 2]], options: &Options) -> Result<(Summary, Stored, Graph)> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.halo");
    let mut source = List {
        edges: list.to_vec(),
        at: 0,
    };
    let summary = edges(&mut source, "a", &path, options, &mut |_| {})?;
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
    let stored = Stored::open(&path)?;
    stored.verify()?;
    let graph = stored.graph()?;
    assert_eq!(summary.edges, graph.n_edges() as u64);
    Ok((summary, stored, graph))
}

fn in_memory(n: usize, list: &[[u64; 2]], options: &Options) -> Graph {
    let column = |k: usize| list.iter().map(|e| e[k] as u32).collect::<Vec<u32>>();
    let options = EdgeOptions {
        symmetrise: options.symmetrise,
        dedup: options.dedup,
        self_loops: options.self_loops,
    };
    Graph::from_edges(n, &column(0), &column(1), options).expect("in range")
}

fn any_loops() -> impl Strategy<Value = SelfLoops> {
    prop_oneof![
        Just(SelfLoops::Keep),
        Just(SelfLoops::Drop),
        Just(SelfLoops::Add)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn streams_equal_memory_for_all_options(
        list in prop::collection::vec((0u64..30, 0u64..30), 1..200),
        symmetrise: bool, dedup: bool, self_loops in any_loops(), more in 0u64..3, wide: bool, degree: bool,
    ) {
        let list: Vec<[u64; 2]> = list.into_iter().map(|(s, d)| [s, d]).collect();
        let n = 30 + more;
        let ids = if wide { Ids::U64 } else { Ids::U32 };
        let relabel = if degree && !wide { Relabel::Degree } else { Relabel::None };
        let options = Options { symmetrise, dedup, self_loops, vertices: Some(n), ids, relabel, ..Options::default() };
        let (_, stored, got) = converted(&list, &options).expect("in range");
        let kind = &stored.header().section("indices").expect("edges").kind;
        prop_assert_eq!(kind, if wide { "u64" } else { "u32" });
        let want = in_memory(n as usize, &list, &options);
        if relabel == Relabel::None {
            prop_assert_eq!(got, want);
            return Ok(());
        }
        // The same graph in another order: degrees fall, and edges move with their ids.
        let old = stored.vertex_ids().expect("valid").expect("numbered anew");
        let degrees: Vec<usize> = (0..got.n()).map(|v| got.in_degree(v)).collect();
        prop_assert!(degrees.is_sorted_by(|a, b| a >= b));
        for v in 0..got.n() {
            let mut back: Vec<u32> = got.neighbours(v).iter().map(|&s| old[s as usize] as u32).collect();
            back.sort_unstable();
            prop_assert_eq!(&back[..], want.neighbours(old[v] as usize));
        }
    }

    #[test]
    fn kept_and_compacted_vertices_are_the_induced_graph(
        list in prop::collection::vec((0u64..40, 0u64..40), 1..120),
        keep in prop::collection::vec(0u64..45, 1..30), induce: bool,
    ) {
        let far = |v: u64| v * 10_000_000_000;
        let list: Vec<[u64; 2]> = list.into_iter().map(|(s, d)| [far(s), far(d)]).collect();
        let options = Options {
            induce: induce.then(|| keep.iter().copied().map(far).collect()),
            relabel: if induce { Relabel::None } else { Relabel::Compact },
            ..Options::default()
        };
        let mut ids: Vec<u64> = match &options.induce {
            Some(ids) => ids.clone(),
            None => list.iter().flatten().copied().collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        let new = |v: u64| ids.binary_search(&v).ok().map(|k| k as u64);
        let moved: Vec<[u64; 2]> = list.iter().filter_map(|e| Some([new(e[0])?, new(e[1])?])).collect();
        let (summary, stored, got) = converted(&list, &options).expect("numbered anew");
        prop_assert_eq!(got, in_memory(ids.len(), &moved, &options));
        prop_assert_eq!(summary.read, list.len() as u64);
        let stored = stored.vertex_ids().expect("valid").expect("numbered anew");
        prop_assert_eq!(&stored[..], &ids[..]);
    }

    #[test]
    fn data_in_memory_keeps_what_belongs_to_its_vertices(seed in 0u64..50, typed: bool, sparse: bool) {
        let mut data = random_dataset(40, 150, 3, 3, sparse, seed);
        if typed {
            data = with_relations(data, 3, seed);
        }
        let options = Options { induce: Some((5..35).collect()), relabel: Relabel::Degree, ..Options::as_is() };
        let (got, ids) = apply(data.clone(), &options).expect("vertices that are there");
        let ids = ids.expect("numbered anew");
        got.check_values().expect("valid");
        let old: Vec<u32> = ids.iter().map(|&v| v as u32).collect();
        prop_assert_eq!(&got.features, &data.features.select_rows(&old));
        for (v, &was) in old.iter().enumerate() {
            let was = was as usize;
            prop_assert_eq!((got.labels[v], got.train[v], got.val[v]), (data.labels[was], data.train[was], data.val[was]));
            let mut back: Vec<u32> = got.graph.neighbours(v).iter().map(|&s| old[s as usize]).collect();
            back.sort_unstable();
            let stays = |s: &&u32| (5..35).contains(*s);
            let want: Vec<u32> = data.graph.neighbours(was).iter().filter(stays).copied().collect();
            prop_assert_eq!(back, want);
        }
    }
}

#[test]
fn a_graph_without_features_stays_without() {
    let karate = load("karate", 0).expect("built in");
    let options = Options {
        induce: Some(vec![5, 0, 7]),
        ..Options::as_is()
    };
    let (three, _) = apply(karate, &options).expect("vertices of it");
    assert_eq!(three.features, Features::Identity(3));
}

#[test]
fn what_cannot_be_converted_is_refused_and_leaves_nothing() {
    let error = |list: &[[u64; 2]], options: &Options| {
        let e = converted(list, options).expect_err("refused");
        assert!(!e.help().is_empty());
        e.to_string()
    };
    let plain = Options::default();
    let big = u64::from(u32::MAX);
    assert!(error(&[[0, big]], &plain).contains("above 4294967294"));
    assert!(error(&[], &plain).contains("a list: edges: there are none"));
    let small = Options {
        mem: 1000,
        ..plain.clone()
    };
    assert!(error(&[[0, 1]], &small).contains("mem"));
    let fixed = Options {
        vertices: Some(5),
        ..plain.clone()
    };
    assert!(error(&[[0, 5]], &fixed).contains("outside 0..5"));
    let wide = Options {
        ids: Ids::U64,
        ..plain.clone()
    };
    let all = Options {
        vertices: Some(u64::MAX),
        ..wide.clone()
    };
    assert!(error(&[[0, u64::MAX - 1]], &all).contains("more than a graph"));
    let both = Options {
        relabel: Relabel::Degree,
        ..wide
    };
    assert!(error(&[[0, 1]], &both).contains("ids"));
    let data = with_relations(random_dataset(40, 150, 3, 3, false, 1), 2, 1);
    let e = apply(data.clone(), &plain).expect_err("typed edges");
    assert!(e.to_string().contains("typed"));
    let options = Options {
        induce: Some(vec![40]),
        ..Options::as_is()
    };
    let e = apply(data, &options).expect_err("not there");
    assert!(e.to_string().contains("outside 0..40"), "{e}");
}

fn text_edges(name: &str, text: &[u8]) -> Result<Vec<[u64; 2]>> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a writable folder");
    let mut source: Box<dyn EdgeSource> = match name.ends_with("npy") {
        true => Box::new(NpyEdges::open(&path, 1 << 12)?),
        false => Box::new(TextEdges::open(&path, 1 << 12)?),
    };
    let all = |source: &mut dyn EdgeSource| {
        let (mut all, mut block) = (Vec::new(), Vec::new());
        loop {
            let more = source.next(&mut block)?;
            all.extend_from_slice(&block);
            if !more {
                return Ok::<_, Error>(all);
            }
        }
    };
    let first = all(source.as_mut())?;
    source.rewind()?;
    assert_eq!(all(source.as_mut())?, first);
    Ok(first)
}

#[test]
fn text_is_read_whatever_its_separators_and_blocks() {
    let expected: Vec<[u64; 2]> = (0..20_000).map(|k| [k, k * k % 777]).collect();
    let written = |line: &dyn Fn(u64, u64) -> String| -> String {
        expected.iter().map(|e| line(e[0], e[1])).collect()
    };
    for text in [
        written(&|s, d| format!("{s} {d}\n")),
        "# a\n% b\nsource,target\n".to_owned() + &written(&|s, d| format!("{s},{d}\r\n")),
        written(&|s, d| format!("  {s}\t{d} 0.5 17\n# comment\n\n")),
        written(&|s, d| format!("{s};{d}\n")).trim_end().to_owned(),
    ] {
        assert_eq!(
            text_edges("a.txt", text.as_bytes()).expect("edges"),
            expected
        );
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).expect("memory");
        let gz = gz.finish().expect("memory");
        assert_eq!(text_edges("a.txt.gz", &gz).expect("edges"), expected);
        let zst = zstd::encode_all(text.as_bytes(), 1).expect("memory");
        assert_eq!(text_edges("a.txt", &zst).expect("edges"), expected);
        let cut = text_edges("a.txt.gz", &gz[..gz.len() / 2]);
        assert!(matches!(cut, Err(Error::Io { .. })));
    }
}

#[test]
fn wrong_lines_are_named() {
    let good: String = (0..3000).map(|k| format!("{k} {k}\n")).collect();
    for (line, part) in [
        ("5", "one field"),
        ("1 x", "'x' is no vertex id"),
        ("1 -2", "'-2'"),
        ("1 99999999999999999999", "is no vertex id"),
        ("1.5 2", "'1.5'"),
        ("\u{e9}\u{e9} 1", "is no vertex id"),
    ] {
        let text = format!("# first\n{good}{line}\n{good}");
        let e = text_edges("a.txt", text.as_bytes())
            .expect_err(line)
            .to_string();
        assert!(e.contains(part) && e.contains("line 3002"), "{line}: {e}");
    }
    let long = [good.as_bytes(), &[b'7'; 100_000]].concat();
    let e = text_edges("a.txt", &long).expect_err("long").to_string();
    assert!(e.contains("longer than") && e.contains("line 3001"), "{e}");
    let e = text_edges("a.txt", b"-1 3\n")
        .expect_err("negative")
        .to_string();
    assert!(e.contains("line 1"), "{e}");
    assert_eq!(text_edges("a.txt", b"").expect("empty"), [[0; 2]; 0]);
}

#[test]
fn arrays_are_read_in_blocks_or_refused() {
    let npy = |descr: &str, shape: &str, data: &[u8]| {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.bytes());
        out.extend(data);
        out
    };
    let values: Vec<i64> = (0..2000).collect();
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let got = text_edges("a.npy", &npy("<i8", "(1000, 2)", &data)).expect("edges");
    assert_eq!((got.len(), got[999]), (1000, [1998, 1999]));
    let big: Vec<u8> = [1i32, 258].iter().flat_map(|v| v.to_be_bytes()).collect();
    let got = text_edges("a.npy", &npy(">i4", "(1, 2)", &big)).expect("edges");
    assert_eq!(got, [[1, 258]]);
    for (file, part) in [
        (npy("<i8", "(1000, 3)", &data), "expected [E, 2]"),
        (npy("<i8", "(1001, 2)", &data), "truncated or longer"),
        (
            npy("<i8", "(9223372036854775807, 2)", &data),
            "truncated or longer",
        ),
        (npy("<f8", "(1000, 2)", &data), "floats"),
        (npy("<i8", "(1, 2)", &[255; 16]), "negative"),
        (b"not an array".to_vec(), "NumPy"),
    ] {
        let e = text_edges("a.npy", &file).expect_err(part).to_string();
        assert!(e.contains(part) && e.contains("a.npy"), "{part}: {e}");
    }
}

proptest! {
    #[test]
    fn any_text_is_edges_or_an_error(text in "[-0-9a-z,. \t\n#%;\u{e9}]{0,300}") {
        let _ = text_edges("a.txt", text.as_bytes());
    }
}

#[test]
fn a_converted_list_is_loaded_but_not_trained_on() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.halo");
    let karate = load("karate", 0).expect("built in");
    let list = (0..34).flat_map(|v| {
        let row = karate.graph.neighbours(v).iter();
        row.map(move |&s| [u64::from(s), v as u64])
    });
    let mut source = List {
        edges: list.collect(),
        at: 0,
    };
    let mut shares = Vec::new();
    edges(
        &mut source,
        "clubs",
        &path,
        &Options::default(),
        &mut |step| {
            assert!((0.0..=1.0).contains(&step.share));
            shares.push(step.what);
        },
    )
    .expect("edges");
    assert!(shares.contains(&"reading edges") && shares.contains(&"writing rows"));
    let data = load(Path::new(&path).to_str().expect("UTF-8"), 0).expect("a graph");
    assert_eq!((&data.graph, data.name.as_str()), (&karate.graph, "clubs"));
    assert!(
        matches!(data.features, Features::Identity(34)) && data.labels.iter().all(|&c| c == -1)
    );
    data.check().expect("a graph may be without classes");
    let spec = DataSpec {
        data: path.to_str().expect("a name in UTF-8"),
        ..DataSpec::default()
    };
    let e = load_for(spec, &Verdicts::none()).expect_err("nothing to train on");
    assert!(e.to_string().contains("no vertex has a class"), "{e}");
}

/// One wrong id would make a file of gigabytes of a list of a few edges.
#[test]
fn a_graph_nearly_all_of_whose_vertices_have_no_edge_is_refused() {
    let far = 40_000_000;
    let plain = Options::default();
    let e = converted(&[[0, 1], [1, far]], &plain).expect_err("refused");
    let text = e.to_string();
    assert!(
        text.contains("a list: ids: 2 edges among 40000001 vertices"),
        "{text}"
    );
    assert!(e.help().contains("--vertices 40000001"), "{}", e.help());
    for options in [
        Options {
            relabel: Relabel::Compact,
            ..plain.clone()
        },
        Options {
            vertices: Some(far + 1),
            ..plain
        },
    ] {
        let (summary, _, graph) = converted(&[[0, 1], [1, far]], &options).expect("converts");
        assert_eq!(summary.vertices, graph.n() as u64);
    }
}

/// A file `[n, d]` of NumPy's, with elements of a type that `bytes` writes.
fn array<const W: usize>(
    (n, d): (usize, usize),
    descr: &str,
    of: impl Fn(usize) -> [u8; W],
) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n}, {d}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend((0..n * d).flat_map(of));
    file
}

/// Rows come to the vertices that they are of, however those are numbered and however few bytes are read at
/// once.
#[test]
fn features_are_read_row_by_row() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("x.npy");
    let list = [[7, 0], [7, 3], [0, 3], [3, 7], [2, 7]];
    let files = [
        array((9, 3), "<f4", |k| (k as f32 / 2.0).to_le_bytes()),
        array((9, 3), ">f8", |k| (k as f64 / 2.0).to_be_bytes()),
    ];
    for (file, block) in files.iter().zip([12, 40]) {
        std::fs::write(&path, file).expect("writable");
        for relabel in [Relabel::None, Relabel::Compact, Relabel::Degree] {
            let features = NpyFeatures::open(&path, block).expect("an array");
            assert_eq!((features.rows(), features.width()), (9, 3));
            let options = Options {
                relabel,
                features: Some(Arc::new(features)),
                ..Options::default()
            };
            let (summary, stored, _) = converted(&list, &options).expect("converts");
            let ids: Vec<u64> = match relabel {
                Relabel::None => (0..9).collect(),
                Relabel::Compact => vec![0, 2, 3, 7],
                // Vertices 3 and 7 have two edges, 0 has one.
                Relabel::Degree => vec![3, 7, 0, 1, 2, 4, 5, 6, 8],
            };
            assert_eq!(summary.vertices, ids.len() as u64, "{relabel:?}");
            let data = stored.dataset().expect("a data set");
            let got = data.features.into_memory();
            let row = |&v: &u64| (0..3).map(move |c| (3 * v + c) as f32 / 2.0);
            let expected: Vec<f32> = ids.iter().flat_map(row).collect();
            let Features::Dense(got) = got else {
                panic!("dense features");
            };
            assert_eq!(got.as_slice(), Some(&expected[..]), "{relabel:?}");
        }
    }
}

#[test]
fn features_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("x.npy");
    let refused = |file: &[u8]| {
        std::fs::write(&path, file).expect("writable");
        let features = NpyFeatures::open(&path, 64).map_err(|e| e.to_string())?;
        let options = Options {
            features: Some(Arc::new(features)),
            ..Options::default()
        };
        let made = converted(&[[0, 1], [1, 2]], &options);
        made.map(|_| ()).map_err(|e| e.to_string())
    };
    let whole = array((3, 2), "<f4", |k| (k as f32).to_le_bytes());
    assert_eq!(refused(&whole), Ok(()));
    let few = array((2, 2), "<f4", |k| (k as f32).to_le_bytes());
    let nan = |k| if k == 5 { f32::NAN } else { 1.0 };
    let odd = array((3, 2), "<f4", |k| nan(k).to_le_bytes());
    let none = array((3, 0), "<f4", |k| (k as f32).to_le_bytes());
    for (file, said) in [
        (&few[..], "row 2: is missing: there are 2"),
        (&odd[..], "row 2: has a number that is not finite"),
        (&none[..], "has the shape [3, 0]; expected [n, d]"),
        (&whole[..whole.len() - 1], "is truncated or longer"),
    ] {
        let got = refused(file).expect_err(said);
        assert!(got.contains(said), "{got}");
    }
}
