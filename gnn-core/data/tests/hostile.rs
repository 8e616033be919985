//! How much memory hostile files can make reading take, measured: an allocator counts every request
//! while files are read that grow a thousandfold or declare what they do not hold. Does not see what
//! the C library behind Zstandard allocates (its window is bounded by the reader).
//!
//! `unsafe`: a global allocator cannot be written without; it passes every request on unchanged.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gnn_data::Error;
use gnn_data::dataset::Limit;
use gnn_data::load::load_within;
use gnn_data::store::Verdicts;

/// Bytes that reading may take in this test.
const LIMIT: usize = 16 << 20;

/// Bytes beside what is counted: buffers of files and decompressors, messages.
const BESIDE: usize = 2 << 20;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn asked(bytes: usize) {
    LARGEST.fetch_max(bytes, Relaxed);
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every request goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asked(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `System` with this layout, as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        asked(size);
        // SAFETY: `at` came from `System` with this layout, as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn gz(content: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(content).expect("memory");
    to.finish().expect("memory")
}

fn zst(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).expect("memory")
}

fn npz(arrays: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, header, data) in arrays {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(*name, options).expect("unique names");
        if !header.is_empty() {
            zip.write_all(b"\x93NUMPY\x01\x00").expect("memory");
            zip.write_all(&(header.len() as u16).to_le_bytes())
                .expect("memory");
            zip.write_all(header.as_bytes()).expect("memory");
        }
        zip.write_all(data).expect("memory");
    }
    zip.finish().expect("memory").into_inner()
}

/// Files by name.
type Files<'a> = Vec<(&'a str, Vec<u8>)>;

/// Loads a folder of these files and returns the refusal, the largest request and the peak.
fn refusal(files: &[(&str, Vec<u8>)]) -> (String, usize, usize) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        let at = dir.path().join(name);
        std::fs::create_dir_all(at.parent().expect("within the folder")).expect("writable");
        std::fs::write(at, content).expect("writable");
    }
    let path: &Path = dir.path();
    let name = path.to_str().expect("temporary paths are UTF-8");
    let limit = Limit::new(LIMIT as u64);
    let before = LIVE.load(Relaxed);
    LARGEST.store(0, Relaxed);
    PEAK.store(before, Relaxed);
    let result = load_within(name, "standard", 0, &limit, &Verdicts::none());
    let (largest, peak) = (LARGEST.load(Relaxed), PEAK.load(Relaxed) - before);
    let e = result.expect_err("a hostile file");
    assert!(matches!(e, Error::Data { .. }), "{e}");
    (e.to_string(), largest, peak)
}

#[test]
fn hostile_files_do_not_get_more_memory_than_the_limit() {
    let zeros = vec![0u8; 64 << 20];
    let edges = b"1 2\n".repeat(2 << 20);
    let numbers: String = (0..3_000_000)
        .map(|k| format!("{k} {}\n", k * 7 % 3_000_000))
        .collect();
    let names: String = (0..200_000)
        .map(|k| format!("vertex{k},other{k}\n"))
        .collect();
    let floats = "1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5\n".repeat(1 << 19);
    let rdf: String = (0..400_000)
        .map(|k| format!("<a{k}> <b> \"{k}\" .\n"))
        .collect();
    let triples: String = std::iter::once("600000\n".to_owned())
        .chain((0..600_000).map(|k| format!("{k} {k} 0\n")))
        .collect();
    let lists: String = (0..400_000).map(|k| format!("\"{k}\":[1,2],")).collect();
    let lists = format!("{{{}}}", lists.trim_end_matches(','));
    let float = "{'descr': '<f4', 'fortran_order': False, 'shape': (2097152, 8), }\n";
    let huge = "{'descr': '<i8', 'fortran_order': False, 'shape': (1152921504606846975, ), }\n";
    let by_columns = "{'descr': '|b1', 'fortran_order': True, 'shape': (1000, 6000), }\n";
    let three = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, ), }\n";
    let ogb = |nodes: &str, edges: &str| {
        vec![
            ("raw/edge.csv.gz", gz(b"0,1\n")),
            ("raw/num-node-list.csv.gz", gz(nodes.as_bytes())),
            ("raw/num-edge-list.csv.gz", gz(edges.as_bytes())),
        ]
    };
    let features = [
        ogb("65536\n", "1\n"),
        vec![("raw/node-feat.csv.gz", gz(floats.as_bytes()))],
    ]
    .concat();
    let link = [
        ogb("4\n", "1\n"),
        vec![
            ("split/time/train.pt", npz(&[("a/data.pkl", "", &zeros)])),
            ("split/time/valid.pt", Vec::new()),
            ("split/time/test.pt", Vec::new()),
        ],
    ]
    .concat();
    let directory: Vec<u8> = [b"PK\x05\x06\0\0\0\0".as_slice(), &[0xff; 4], &[0; 10]].concat();
    let planetoid = |graph: Vec<u8>| {
        ["allx", "tx", "ally", "ty", "y", "x", "graph"]
            .map(|part| (["ind.a.", part].concat(), graph.clone()))
            .to_vec()
    };
    let pickles = planetoid([b"\x80\x02".to_vec(), b"]".repeat(1 << 20), b".".to_vec()].concat());
    let mut pickles: Vec<(&str, Vec<u8>)> = pickles
        .iter()
        .map(|(n, c)| (n.as_str(), c.clone()))
        .collect();
    pickles.push(("ind.a.test.index", b"1\n".to_vec()));
    let matrix = "%%MatrixMarket matrix coordinate pattern general\n";
    let target: String = (0..400_000).map(|k| format!("{k},{k}\n")).collect();
    let bombs: Vec<(&str, Files)> = vec![
        ("a line without end", vec![("a.txt.gz", gz(&zeros))]),
        ("the same in Zstandard", vec![("a.txt.zst", zst(&zeros))]),
        ("repeated edges", vec![("a.txt.gz", gz(&edges))]),
        (
            "many vertices",
            vec![("a.txt.zst", zst(numbers.as_bytes()))],
        ),
        ("many names", vec![("a.csv.gz", gz(names.as_bytes()))]),
        (
            "a large number",
            vec![(
                "a.mtx",
                format!("{matrix}4000000000 4000000000 1\n1 1\n").into(),
            )],
        ),
        (
            "many entries",
            vec![(
                "a.mtx",
                format!("{matrix}3 3 18446744073709551615\n1 1\n").into(),
            )],
        ),
        (
            "an array that is packed well",
            vec![(
                "a.npz",
                npz(&[
                    ("node_labels.npy", three, &[0; 3]),
                    ("node_features.npy", float, &zeros),
                ]),
            )],
        ),
        (
            "an array that is not there",
            vec![("a.npz", npz(&[("node_labels.npy", huge, &[0; 64])]))],
        ),
        (
            "an array of objects that is huge",
            vec![("graph.npz", npz(&[("label.npy", float, &zeros[..1 << 20])]))],
        ),
        (
            "masks stored by columns",
            vec![(
                "graph.npz",
                npz(&[("label.npy", by_columns, &zeros[..6_000_000])]),
            )],
        ),
        (
            "an empty directory with many entries",
            vec![("a.npz", directory)],
        ),
        ("nested lists", pickles),
        ("many vertices in OGB", ogb("4294967294\n", "1\n")),
        ("many edges in OGB", ogb("2\n", "9223372036854775807\n")),
        ("features that are packed well", features),
        ("a pickle that is packed well", link),
        ("many triples", vec![("train2id.txt", triples.into())]),
        (
            "one far entity",
            vec![("train2id.txt", b"1\n4294967294 0 0\n".to_vec())],
        ),
        ("many literals", vec![("a.nt.gz", gz(rdf.as_bytes()))]),
        (
            "many lists",
            vec![
                ("a_edges.csv", b"0,1\n".to_vec()),
                ("a_target.csv", target.into()),
                ("a_features.json", lists.into()),
            ],
        ),
        (
            "one far vertex",
            vec![("out1_graph_edges.txt", b"0 4294967294\n".to_vec())],
        ),
        (
            "a table of one far label",
            vec![
                ("edges.csv", b"0,1\n".to_vec()),
                ("labels.csv", b"4294967294,1\n".to_vec()),
            ],
        ),
        (
            "features as text",
            vec![
                ("edges.csv", b"0,1\n".to_vec()),
                ("features.csv.gz", gz(floats.as_bytes())),
            ],
        ),
    ];
    for (what, files) in &bombs {
        let (message, largest, peak) = refusal(files);
        println!("{what}: largest {largest}, peak {peak}: {message}");
        assert!(
            largest <= LIMIT,
            "{what}: asked for {largest} bytes at once: {message}"
        );
        assert!(
            peak <= LIMIT + BESIDE,
            "{what}: held {peak} bytes: {message}"
        );
    }
}
