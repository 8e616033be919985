//! Converting an edge list, with features beside it, stays within its limit of memory. One test, alone in its program, so that
//! the peak of resident memory is its own. With `HALOBOOK_SOAK=1` it has 100 million edges and 1 GB,
//! and takes minutes and 8 GB of disk.

use std::fs::File;
use std::io::{BufWriter, Write};

/// The programs' own: it copies large blocks that grow.
#[global_allocator]
static ALLOCATOR: kernels::align::LineAligned = kernels::align::LineAligned;

use gnn_data::clock::peak_memory_bytes;
use gnn_data::convert::{NpyFeatures, Options, Summary, TextEdges, edges};
use gnn_data::rng;
use gnn_data::store::Stored;
use std::sync::Arc;

/// Random edges between `vertices`, some of them several times.
fn write(path: &std::path::Path, count: u64, vertices: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writeln!(out, "# source destination")?;
    for e in 0..count {
        let bits = rng::at(1, e - e % 10 / 9);
        let (s, d) = (bits % vertices, (bits >> 32) % vertices);
        writeln!(out, "{s}\t{d}")?;
    }
    out.flush()?;
    Ok(out.get_ref().metadata()?.len())
}

/// An array `[vertices, width]` of NumPy's.
fn write_features(path: &std::path::Path, vertices: u64, width: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let shape = format!("({vertices}, {width})");
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for k in 0..vertices * width {
        out.write_all(&(k as f32).to_le_bytes())?;
    }
    out.flush()?;
    Ok(4 * vertices * width)
}

#[test]
fn an_edge_list_larger_than_the_limit_is_converted_within_it() {
    let soak = std::env::var_os("HALOBOOK_SOAK").is_some_and(|v| v == "1");
    let (count, vertices, width, mem) = match soak {
        true => (100_000_000, 20_000_000, 16, 1_000_000_000),
        false => (4_000_000, 500_000, 96, 140_000_000),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (list, target) = (folder.path().join("list.txt"), folder.path().join("a.halo"));
    let bytes = write(&list, count, vertices).expect("space");
    let array = folder.path().join("x.npy");
    let wide = write_features(&array, vertices, width).expect("space");
    assert!(wide > mem, "features that memory would hold");
    let plain = Options {
        mem,
        ..Options::default()
    };
    let features = NpyFeatures::open(&array, plain.block()).expect("it was written");
    let options = Options {
        symmetrise: true,
        features: Some(Arc::new(features)),
        ..plain
    };
    let mut source = TextEdges::open(&list, options.block()).expect("it was written");
    let began = std::time::Instant::now();
    let Summary {
        read, runs, edges, ..
    } = edges(&mut source, "list", &target, &options, &mut |_| {}).expect("edges");
    let seconds = began.elapsed().as_secs_f64();
    Stored::open(&target)
        .and_then(|s| s.verify())
        .expect("whole");
    let peak = peak_memory_bytes();
    eprintln!(
        "{count} lines ({bytes} bytes): {edges} edges in {runs} runs, {seconds:.1} s, peak {} MB of {} MB",
        peak / 1_000_000,
        mem / 1_000_000
    );
    assert_eq!(read, count);
    assert!(runs > 1, "the limit was never felt");
    assert!(
        edges < 2 * count && edges > count,
        "repeats are stored once"
    );
    assert!(peak <= mem, "{peak} bytes of {mem}");
    let header = Stored::open(&target).expect("whole").header().clone();
    let stored = header.section("feat").map(|features| features.bytes);
    assert_eq!(stored, Some(wide));
}
