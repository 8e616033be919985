//! What is fuzzed: one part of one file of each format, the rest as it should be.
//!
//! A packed file is fuzzed unpacked and packed again, an archive member by member, a stored graph
//! behind its header: checksums would else refuse every change.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use gnn_data::convert::{self, EdgeSource, NpyEdges, Options, TextEdges};
use gnn_data::dataset::{Limit, STANDARD};
use gnn_data::load::{load, load_within};
use gnn_data::store;

/// Bytes that reading may take.
const LIMIT: u64 = 4 << 20;

/// Bytes that one allocation may have: the limit, and a window or a block of what reads.
pub const ALLOCATION: usize = 16 << 20;

/// Bytes of a stored graph's header.
const HEADER: usize = 16 << 10;

type Files = Vec<(String, Vec<u8>)>;

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Whole,
    Gzip,
    Zstd,
    /// A member of a zip.
    Member(usize),
    /// What follows the header of a stored graph.
    Body,
}

/// How an input is read.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    Load,
    Convert,
}

/// One part of one file.
pub struct Target {
    /// Name for the command line.
    pub name: String,
    files: Files,
    file: usize,
    part: Part,
    reader: Reader,
}

/// Every target.
pub fn all() -> Vec<Target> {
    let mut formats: Vec<(String, Files)> = crate::formats::all()
        .into_iter()
        .map(|(name, files)| (name.replace(' ', "-"), files))
        .collect();
    let stored = |data: &str| vec![("a.halo".to_owned(), halo(data))];
    formats.push(("stored".into(), stored("karate")));
    formats.push(("stored-types".into(), stored("like:ogbn-mag,scale=0.0008")));
    formats.push((
        "plain-folder".into(),
        vec![
            ("edges.csv".into(), b"src,dst\n0,1\n1,2\n".to_vec()),
            ("labels.csv".into(), b"0\n1\n0\n".to_vec()),
        ],
    ));
    let mut targets = Vec::new();
    for (format, files) in &formats {
        for (file, (name, content)) in files.iter().enumerate() {
            for (inner, part) in parts(name, content) {
                targets.push(Target {
                    name: format!("{format}/{}{inner}", name.replace('/', "_")),
                    files: files.clone(),
                    file,
                    part,
                    reader: Reader::Load,
                });
            }
        }
    }
    for (name, content) in [
        ("edges.txt", b"# a comment\n0 1\n1,2\n3\t0\n".to_vec()),
        ("edges.npy", npy_edges()),
    ] {
        targets.push(Target {
            name: format!("convert/{name}"),
            files: vec![(name.into(), content)],
            file: 0,
            part: Part::Whole,
            reader: Reader::Convert,
        });
    }
    targets
}

/// The parts of a file that are fuzzed one by one.
fn parts(name: &str, content: &[u8]) -> Vec<(String, Part)> {
    let one = |part: Part| vec![(String::new(), part)];
    if content.starts_with(&[0x1f, 0x8b]) {
        return one(Part::Gzip);
    }
    if content.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return one(Part::Zstd);
    }
    if name.ends_with(".halo") {
        return one(Part::Body);
    }
    if content.starts_with(b"PK") && !name.ends_with(".pt") {
        let members = unzipped(content).into_iter().enumerate();
        let mut all: Vec<_> = members
            .map(|(k, (member, _))| (format!("_{member}"), Part::Member(k)))
            .collect();
        all.push(("_zip".into(), Part::Whole));
        return all;
    }
    one(Part::Whole)
}

fn unzipped(content: &[u8]) -> Files {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(content)).expect("made by us");
    let count = zip.len();
    let member = |k: usize| {
        let mut member = zip.by_index(k).expect("in range");
        let mut plain = Vec::new();
        member.read_to_end(&mut plain).expect("whole");
        (member.name().to_owned(), plain)
    };
    (0..count).map(member).collect()
}

fn zipped(files: &Files) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in files {
        zip.start_file(name.as_str(), stored).expect("other names");
        zip.write_all(content).expect("memory");
    }
    zip.finish().expect("memory").into_inner()
}

/// A built-in data set as a stored graph.
fn halo(data: &str) -> Vec<u8> {
    let path = folder().join("seed.halo");
    let data = load(data, 0).expect("built in");
    store::save(&data, "seed", None, &path).expect("writable");
    let bytes = std::fs::read(&path).expect("just written");
    std::fs::remove_file(&path).expect("ours");
    bytes
}

/// An array of two edges.
fn npy_edges() -> Vec<u8> {
    let shape = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }";
    let header = format!("{shape:<117}\n");
    let mut out = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    out.extend(header.bytes());
    [0i64, 1, 1, 2]
        .iter()
        .for_each(|v| out.extend(v.to_le_bytes()));
    out
}

/// A folder of this process.
fn folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = base.join(format!("halobook-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

impl Target {
    /// The part as it should be.
    pub fn seed(&self) -> Vec<u8> {
        let content = &self.files[self.file].1;
        let mut plain = Vec::new();
        match self.part {
            Part::Whole => return content.clone(),
            Part::Body => return content[HEADER..].to_vec(),
            Part::Member(k) => return unzipped(content).swap_remove(k).1,
            Part::Zstd => return zstd::decode_all(&content[..]).expect("made by us"),
            Part::Gzip => flate2::read::MultiGzDecoder::new(&content[..]).read_to_end(&mut plain),
        }
        .expect("made by us");
        plain
    }

    /// The file with `input` for its part.
    fn packed(&self, input: &[u8]) -> Vec<u8> {
        let content = &self.files[self.file].1;
        match self.part {
            Part::Whole => input.to_vec(),
            Part::Body => {
                // The header says how long the file is.
                let mut file = content.clone();
                let length = input.len().min(file.len() - HEADER);
                file[HEADER..][..length].copy_from_slice(&input[..length]);
                file
            }
            Part::Member(k) => {
                let mut files = unzipped(content);
                files[k].1 = input.to_vec();
                zipped(&files)
            }
            Part::Zstd => zstd::encode_all(input, 1).expect("memory"),
            Part::Gzip => {
                let level = flate2::Compression::none();
                let mut to = flate2::write::GzEncoder::new(Vec::new(), level);
                to.write_all(input).expect("memory");
                to.finish().expect("memory")
            }
        }
    }

    /// A folder with the files that stay as they are.
    pub fn prepare(&self) -> PathBuf {
        let folder = folder().join("data");
        for (name, content) in &self.files {
            let path = folder.join(name);
            let parent = path.parent().expect("within the folder");
            std::fs::create_dir_all(parent).expect("writable");
            std::fs::write(path, content).expect("writable");
        }
        folder
    }

    /// Reads `input` in its place; whatever it is, it is read or refused with a place and a reason.
    pub fn run(&self, folder: &Path, input: &[u8]) {
        let path = folder.join(&self.files[self.file].0);
        std::fs::write(&path, self.packed(input)).expect("writable");
        let outcome = match self.reader {
            Reader::Convert => converted(&path),
            Reader::Load => {
                let whole = path.extension().is_some_and(|e| e == "halo");
                let at = if whole { &path } else { folder };
                let at = at.to_str().expect("our own name");
                let limit = Limit::new(LIMIT);
                load_within(at, STANDARD, 0, &limit, &store::Verdicts::none())
                    .map(|data| data.check().expect("what was loaded is valid"))
            }
        };
        let Err(e) = outcome else {
            return;
        };
        let (message, help) = (e.to_string(), e.help());
        let one_line = |text: &str| !text.is_empty() && !text.contains(['\n', '\r']);
        assert!(
            one_line(&message) && one_line(&help),
            "{message:?} {help:?}"
        );
        if let gnn_data::Error::Data { file, place, .. } = &e {
            assert!(!file.is_empty() && !place.is_empty(), "{message}");
        }
    }
}

fn converted(path: &Path) -> gnn_data::Result<()> {
    let options = Options {
        mem: convert::MIN_MEM,
        vertices: Some(1 << 12),
        ..Options::default()
    };
    let block = 64 << 10;
    let mut source: Box<dyn EdgeSource> = match path.extension() {
        Some(e) if e == "npy" => Box::new(NpyEdges::open(path, block)?),
        _ => Box::new(TextEdges::open(path, block)?),
    };
    let to = path.with_extension("halo");
    convert::edges(source.as_mut(), "a", &to, &options, &mut |_| {})?;
    store::Stored::open(&to)?.dataset().map(|_| ())
}
