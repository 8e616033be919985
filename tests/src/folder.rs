//! Data sets written on the spot: a plain folder whose graph the test knows, and `.npz` files,
//! whole or damaged. The writer is our own, so that it can write what a good one refuses to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A small undirected random graph with labels and dense features, known to the test.
pub struct Known {
    /// Vertices.
    pub n: usize,
    /// Feature width.
    pub features: usize,
    /// Classes.
    pub classes: usize,
    /// Edges, both directions, sorted, no loops.
    pub edges: BTreeSet<(u32, u32)>,
}

impl Known {
    /// `n` vertices in `classes` groups; most edges stay inside a group. Deterministic.
    pub fn new(n: usize, features: usize, classes: usize) -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut edges = BTreeSet::new();
        for v in 0..n {
            for _ in 0..3 {
                let far = random.below(n);
                let near = (v + classes * (1 + random.below(4))) % n;
                let u = if random.below(4) == 0 { far } else { near };
                if u != v {
                    let (u, v) = (u as u32, v as u32);
                    edges.extend([(u, v), (v, u)]);
                }
            }
        }
        Self {
            n,
            features,
            classes,
            edges,
        }
    }

    /// Writes it as a plain folder (`edges.csv`, `labels.csv`, `features.csv`).
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let edges = self.edges.iter().filter(|(u, v)| u < v);
        let edges: String = edges.map(|(u, v)| format!("{u},{v}\n")).collect();
        std::fs::write(folder.join("edges.csv"), format!("src,dst\n{edges}"))?;
        let labels = (0..self.n).map(|v| format!("{}\n", v % self.classes));
        std::fs::write(folder.join("labels.csv"), labels.collect::<String>())?;
        let mut random = Random(7);
        let row = |v: usize, random: &mut Random| {
            let cells = (0..self.features).map(|d| {
                let signal = if d % self.classes == v % self.classes {
                    1.0
                } else {
                    0.0
                };
                format!("{:.3}", signal + random.below(1000) as f64 / 2000.0)
            });
            cells.collect::<Vec<_>>().join(",") + "\n"
        };
        let rows: String = (0..self.n).map(|v| row(v, &mut random)).collect();
        std::fs::write(folder.join("features.csv"), rows)
    }

    /// `Σ_i |B_i|`: over all parts, the vertices of other parts with an edge into it.
    pub fn boundary(&self, owner: &[u32]) -> usize {
        let reads = self.edges.iter().filter_map(|&(u, v)| {
            let (from, to) = (owner[u as usize], owner[v as usize]);
            (from != to).then_some((to, u))
        });
        reads.collect::<BTreeSet<_>>().len()
    }
}

/// A xorshift generator; the tests need variety, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// The arrays of a small whole `graph.npz`, as (name, `.npy` bytes).
pub fn arrays() -> Vec<(&'static str, Vec<u8>)> {
    let feat: Vec<f32> = (0..12).map(|k| k as f32 / 12.0).collect();
    vec![
        ("edge_src", npy("<i4", "4,", &ints(&[0, 1, 2, 3]))),
        ("edge_dst", npy("<i4", "4,", &ints(&[1, 0, 3, 2]))),
        ("label", npy("<i8", "4,", &longs(&[0, 1, 0, 1]))),
        ("train_mask", npy("|u1", "4,", &[1, 1, 0, 0])),
        ("val_mask", npy("|u1", "4,", &[0, 0, 1, 0])),
        ("test_mask", npy("|u1", "4,", &[0, 0, 0, 1])),
        ("feat", npy("<f4", "4, 3", &floats(&feat))),
    ]
}

/// `values` as little-endian 32-bit integers.
pub fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// `values` as little-endian 64-bit integers.
pub fn longs(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// `values` as little-endian 32-bit floats.
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// One `.npy` file, format 1.0; `shape` as it stands between the brackets.
pub fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// Writes `graph.npz` with these arrays, uncompressed, into a new folder; repeated names are
/// written as they come.
///
/// # Errors
/// When it cannot be written.
pub fn npz(folder: PathBuf, arrays: &[(&str, Vec<u8>)]) -> std::io::Result<PathBuf> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in arrays {
        let name = format!("{name}.npy");
        let (at, size) = (file.len() as u32, data.len() as u32);
        // Version 2.0, no flags, stored, no time.
        let mut facts = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for number in [crc32(data), size, size] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend((name.len() as u16).to_le_bytes());
        facts.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&facts);
        file.extend(name.as_bytes());
        file.extend(data);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&facts);
        // No comment, first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (count, at) = (arrays.len() as u16, file.len() as u32);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(at.to_le_bytes());
    file.extend([0, 0]);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("graph.npz"), file)?;
    Ok(folder)
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1));
    !data
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_standard_text() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn the_boundary_of_a_cut_edge_counts_both_ends() {
        let known = Known {
            n: 3,
            features: 1,
            classes: 1,
            edges: [(0, 1), (1, 0), (1, 2), (2, 1)].into(),
        };
        assert_eq!(known.boundary(&[0, 0, 0]), 0);
        assert_eq!(known.boundary(&[0, 0, 1]), 2);
        assert_eq!(known.boundary(&[0, 1, 0]), 3);
    }
}
