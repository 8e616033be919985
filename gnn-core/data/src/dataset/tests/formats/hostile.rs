//! Damaged and hostile files of every format: refused or read within the limit, never a panic, and
//! every refusal says in one line where and why, and in one what to do. Cannot show that what is
//! read from a damaged file is what was meant.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::made::{gz, npz, zipped, zst};
use super::small::folder;
use super::*;

/// Bytes that reading may take in these tests.
const LIMIT: u64 = 4 << 20;

pub(super) fn load_small(path: &Path) -> Result<Dataset> {
    let path = path.to_str().expect("temporary paths are UTF-8");
    load_within(path, STANDARD, 0, &Limit::new(LIMIT), &Verdicts::none())
}

/// What every outcome must fulfil.
fn judge(path: &Path, result: Result<Dataset>) -> std::result::Result<(), String> {
    let e = match result {
        Ok(d) => {
            return d
                .check()
                .map_err(|e| format!("what was loaded is not valid: {e}"));
        }
        Err(e) => e,
    };
    let (message, help) = (e.to_string(), e.help());
    let named =
        matches!(&e, Error::Data { file, place, .. } if !place.is_empty() && !file.is_empty());
    // A damaged name may lead to a file or split that is not there.
    let absent = matches!(&e, Error::Io { .. } | Error::UnknownName { .. });
    let lines = message.contains(['\n', '\r']) || help.contains(['\n', '\r']) || help.is_empty();
    if lines || !(named || absent) {
        return Err(format!("{path:?}: {message:?}, help {help:?}"));
    }
    Ok(())
}

/// One damage to the content of a file.
#[derive(Debug, Clone)]
enum Damage {
    Cut(f64),
    Flip(f64, u8),
    /// A number becomes another.
    Number(f64, usize),
    /// Some bytes become others.
    Bytes(f64, Vec<u8>),
    /// A piece is there twice.
    Twice(f64, f64),
    Empty,
}

const NUMBERS: [&str; 12] = [
    "9223372036854775808",
    "18446744073709551615",
    "4294967295",
    "4294967294",
    "-1",
    "nan",
    "inf",
    "1e308",
    "",
    "0x10",
    "99999999999999999999999999",
    "0.5",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0.0f64..1.0;
    prop_oneof![
        at().prop_map(Damage::Cut),
        (at(), 1u8..=255).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (at(), 0..NUMBERS.len()).prop_map(|(at, k)| Damage::Number(at, k)),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, b)| Damage::Bytes(at, b)),
        (at(), at()).prop_map(|(a, b)| Damage::Twice(a, b)),
        Just(Damage::Empty),
    ]
}

fn damaged(content: &[u8], damage: &Damage) -> Vec<u8> {
    let at = |share: f64| (content.len() as f64 * share) as usize;
    let mut out = content.to_vec();
    match damage {
        Damage::Cut(share) => out.truncate(at(*share)),
        Damage::Flip(share, bits) => {
            if let Some(byte) = out.get_mut(at(*share)) {
                *byte ^= bits;
            }
        }
        Damage::Number(share, k) => {
            let digit = |b: &u8| b.is_ascii_digit();
            let start = at(*share) + content[at(*share)..].iter().position(digit).unwrap_or(0);
            let length = content[start..].iter().take_while(|b| digit(b)).count();
            out.splice(start..start + length, NUMBERS[*k].bytes());
        }
        Damage::Bytes(share, bytes) => {
            let start = at(*share);
            let end = (start + bytes.len()).min(out.len());
            out.splice(start..end, bytes.iter().copied());
        }
        Damage::Twice(a, b) => {
            let (from, to) = (at(a.min(*b)), at(a.max(*b)));
            out.splice(to..to, content[from..to].iter().copied());
        }
        Damage::Empty => out.clear(),
    }
    out
}

/// Damages one file; packed ones within, so that the reader behind the packing is reached.
fn damage_file(content: &[u8], damage: &Damage, within: bool) -> Vec<u8> {
    let mut plain = Vec::new();
    let unpacked =
        std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(content), &mut plain);
    if within && content.starts_with(&[0x1f, 0x8b]) && unpacked.is_ok() {
        return gz(&damaged(&plain, damage));
    }
    if within && content.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let plain = zstd::decode_all(content).expect("made here");
        return zst(&damaged(&plain, damage));
    }
    damaged(content, damage)
}

/// Damages one file of one format and loads it.
fn round(
    formats: &[(&str, made::Files)],
    format: usize,
    file: usize,
    damages: &[Damage],
    within: bool,
) -> std::result::Result<(), String> {
    let (name, mut files) = formats[format % formats.len()].clone();
    let k = file % files.len();
    for d in damages {
        files[k].1 = damage_file(&files[k].1, d, within);
    }
    let (_dir, path) = folder(&files);
    let result = catch_unwind(AssertUnwindSafe(|| load_small(&path)));
    let result = result.map_err(|_| format!("{name}: {} panics", files[k].0))?;
    judge(&path, result).map_err(|e| format!("{name}: {}: {e}", files[k].0))
}

thread_local! {
    /// Made once for all cases.
    static FORMATS: Vec<(&'static str, made::Files)> = made::all();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn damaged_files_of_every_format_are_refused_or_read(
        format in 0usize..1000,
        file in 0usize..1000,
        damages in prop::collection::vec(damage(), 1..3),
        within: bool,
    ) {
        let outcome = FORMATS.with(|all| round(all, format, file, &damages, within));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

/// A fuzzer without instruments: many rounds, the same ones each time.
#[test]
fn soak_many_rounds_of_damage_to_every_format() {
    if std::env::var_os("HALOBOOK_SOAK").is_none() {
        eprintln!("SKIP: set HALOBOOK_SOAK=1 to run the slow tests");
        return;
    }
    let (rounds, formats) = (2_000u64, made::all());
    for format in 0..formats.len() as u64 {
        for k in 0..rounds {
            let draw = |j: u64, n: u64| crate::rng::below(0x5eed + format, 16 * k + j, n);
            let share = |j: u64| draw(j, 1 << 20) as f64 / (1u64 << 20) as f64;
            let one = |j: u64| match draw(j, 6) {
                0 => Damage::Cut(share(j + 1)),
                1 => Damage::Number(share(j + 1), draw(j + 2, NUMBERS.len() as u64) as usize),
                2 => Damage::Bytes(
                    share(j + 1),
                    vec![draw(j + 2, 256) as u8; 1 + draw(j + 3, 8) as usize],
                ),
                3 => Damage::Twice(share(j + 1), share(j + 2)),
                _ => Damage::Flip(share(j + 1), 1 << draw(j + 2, 8)),
            };
            let damages = [one(0), one(4)];
            let some = &damages[..1 + draw(8, 2) as usize];
            let outcome = round(
                &formats,
                format as usize,
                draw(9, 1000) as usize,
                some,
                draw(10, 2) == 0,
            );
            if let Err(e) = outcome {
                panic!("round {k}, {some:?}: {e}");
            }
        }
        println!("{}: {rounds} rounds", formats[format as usize].0);
    }
}

/// The message of a folder of one file.
pub(super) fn refused(name: &str, content: &[u8]) -> String {
    let (_dir, path) = written(&[(name, content)]);
    let result = load_small(&path);
    assert!(result.is_err(), "{name} was read");
    let message = result.as_ref().expect_err("checked above").to_string();
    judge(&path, result).expect("a refusal that says where, why and what to do");
    message
}

#[test]
fn what_files_declare_is_held_against_the_limit() {
    let says = |name: &str, content: &[u8], want: &str| {
        let message = refused(name, content);
        assert!(message.contains(want), "{message}");
    };
    says(
        "a.mtx",
        b"%%MatrixMarket matrix coordinate pattern general\n4000000000 4000000000 1\n1 1\n",
        "a graph of 4000000000 vertices",
    );
    says(
        "a.mtx",
        b"%%MatrixMarket matrix coordinate pattern general\n3 3 9223372036854775807\n1 1\n",
        "reading may take 4.0 MiB",
    );
    says("a.mtx", b"%%MatrixMarket matrix coordinate pattern general\n9223372036854775808 9223372036854775808 1\n", "is 9223372036854775808 x");
    says(
        "a.mtx",
        b"%%MatrixMarket matrix coordinate complex general\n3 3 0\n",
        "values of kind 'complex'",
    );
    says(
        "train2id.txt",
        b"1\n0 4294967290 0\n",
        "a graph of 4294967291 vertices",
    );
    says(
        "train2id.txt",
        b"18446744073709551616\n0 1 0\n",
        "is not a count",
    );
    // A hundred megabytes in a hundred kilobytes.
    let zeros = vec![0u8; 100 << 20];
    says(
        "a.txt.gz",
        &gz(&zeros),
        "line 1: is longer than 1048576 bytes",
    );
    says(
        "a.txt.zst",
        &zst(&zeros),
        "line 1: is longer than 1048576 bytes",
    );
    let many = b"17 18\n".repeat(2 << 20);
    says("a.txt.gz", &gz(&many), "reading may take 4.0 MiB in all");
    let names: String = (0..200_000).map(|k| format!("v{k} w{k}\n")).collect();
    says(
        "a.txt.zst",
        &zst(names.as_bytes()),
        "reading may take 4.0 MiB in all",
    );
    says(
        "a.npz",
        &npz(&[("edge_src", zeros.clone()), ("label", zeros)]),
        "",
    );
    let header = array("<f4", &[1 << 40, 2], &[]);
    says(
        "a.npz",
        &npz(&[("node_labels", header.clone()), ("node_features", header)]),
        "claims the shape",
    );
    // A window of two gigabytes from nine bytes.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    says("a.txt.zst", &frame, "cannot be read");
}

#[test]
fn pickles_run_nothing_and_stay_within_the_limit() {
    let says = |graph: &[u8], want: &str| {
        let mut files = made::planetoid();
        let at = files
            .iter()
            .position(|(n, _)| n.ends_with(".graph"))
            .expect("its file");
        files[at].1 = graph.to_vec();
        let (_dir, path) = folder(&files);
        let result = load_small(&path);
        let message = result.as_ref().expect_err("a hostile pickle").to_string();
        judge(&path, result).expect("a refusal that says where, why and what to do");
        assert!(
            message.contains(want) && message.contains("ind.tiny.graph"),
            "{message}"
        );
    };
    says(
        &py::pickle(&py::call("posix", "system", &[py::string(b"true")])),
        "names posix.system, which is not on the list",
    );
    says(
        &py::pickle(&py::call("__builtin__", "eval", &[py::string(b"1")])),
        "names __builtin__.eval",
    );
    says(b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "names os.system");
    says(b"cos\nsystem\n(S'true'\ntR.", "names os.system");
    says(b"\x80\x05N.", "is of protocol 5");
    says(
        b"\x80\x02ia\nb\n.",
        "operation 0x69, which is not on the list",
    );
    says(
        &py::pickle(&py::call("__builtin__", "list", &[])),
        "calls list with wrong arguments",
    );
    says(b"\x80\x02N", "ends in the middle of an operation");
    says(
        b"\x80\x02T\xff\xff\xff\xffx.",
        "ends in the middle of an operation",
    );
    says(b"\x80\x02a.", "takes a value that is not there");
    says(b"\x80\x02j\xff\xff\xff\xff.", "recalls 4294967295");
    says(
        &py::pickle(&py::neighbours(&[(0, &[99])])),
        "vertex 99: is outside 0..8",
    );
    // A list that contains itself, and lists of lists without end.
    says(b"\x80\x02]q\x00h\x00a.", "is not a dictionary");
    says(
        &[b"\x80\x02".to_vec(), b"]".repeat(1 << 20), b".".to_vec()].concat(),
        "reading may take 4.0 MiB",
    );
    // Eight levels of ten references each would be a hundred million neighbours.
    let list = py::list(&vec![py::int(1); 10_000]);
    let shared: Vec<u8> = (0..1000)
        .flat_map(|_| [py::int(0), b"h\x00".to_vec()].concat())
        .collect();
    let bomb = [list, b"q\x000}(".to_vec(), shared, b"u".to_vec()].concat();
    says(&py::pickle(&bomb), "reading may take 4.0 MiB");
}

#[test]
fn archives_and_lists_of_names_lead_nowhere_else() {
    // A member with a path is not a file that is written anywhere, nor an array of that name.
    let valid = made::heterophilous().remove(0).1;
    let inner = npz(&[("../../node_labels", ints(&[0, 1]))]);
    assert!(refused("a.npz", &inner).contains("are of no layout"));
    assert!(!valid.is_empty());
    let says = |file: &str, content: &[u8], want: &str| {
        let mut files = made::ogb_mag();
        let at = files.iter().position(|(n, _)| n == file).expect("its file");
        files[at].1 = gz(content);
        let (_dir, path) = folder(&files);
        let message = load_small(&path).expect_err("a path in a name").to_string();
        assert!(message.contains(want), "{message}");
    };
    says(
        "raw/num-node-dict.csv.gz",
        b"paper,../../author\n3,2\n",
        "is not the name of a type",
    );
    says(
        "raw/triplet-type-list.csv.gz",
        b"paper,/../../../cites,paper\n",
        "is not the name of a type",
    );
    says(
        "raw/triplet-type-list.csv.gz",
        b"paper,ci\x01tes,paper\n",
        "is not the name of a type",
    );
    says(
        "raw/num-node-dict.csv.gz",
        b"paper,author\n3,4294967290\n",
        "a graph of 4294967293 vertices",
    );
    says(
        "raw/num-node-dict.csv.gz",
        b"paper,paper\n3,2\n",
        "'paper' is there twice",
    );
    says(
        "raw/num-node-dict.csv.gz",
        b"paper,author\n3,9223372036854775808\n",
        "cannot be numbered by 32 bits",
    );
    says(
        "raw/node-feat/paper/node-feat.csv.gz",
        b"1,2\n3,nan\n5,6\n",
        "NaN is not a finite number",
    );
    says(
        "raw/relations/paper___cites___paper/edge.csv.gz",
        b"0,1\n2,3\n",
        "vertex 3 is outside 0..3",
    );
    // A storage that is larger than its file says, and one that is packed too well to be true.
    let mut files = made::ogb_link();
    let at = files
        .iter()
        .position(|(n, _)| n.ends_with("valid.pt"))
        .expect("its file");
    let dict = py::dict(&[(
        py::text("edge"),
        py::tensor("LongStorage", "0", &[1 << 30, 2], 1 << 30),
    )]);
    files[at].1 = zipped(&[
        ("a/data.pkl", py::pickle(&dict)),
        ("a/data/0", vec![0; 64 << 20]),
    ]);
    let (_dir, path) = folder(&files);
    let message = load_small(&path).expect_err("a hostile tensor").to_string();
    assert!(message.contains("valid.pt"), "{message}");
}
