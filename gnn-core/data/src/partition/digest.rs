//! What a request is, in 128 bits: the name of its cut in the cache.

use rayon::prelude::*;

use crate::graph::Graph;
use crate::partition::{Nested, Request, Throughputs};
use kernels::hash::mix64;

/// Bytes hashed at a time; blocks are hashed on any thread and joined in order.
const BLOCK: usize = 1 << 20;

/// 128 bits of some bytes. Two of the same are the same bytes but for accidents of 1 in 2¹²⁸; it is
/// no defence against somebody who wants them to meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(u64, u64);

impl Digest {
    /// Of nothing yet.
    pub fn new() -> Digest {
        Digest(0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b)
    }

    /// With one more word.
    pub fn word(self, word: u64) -> Digest {
        Digest(
            mix64(self.0 ^ word),
            mix64(self.1.wrapping_add(word.rotate_left(32))),
        )
    }

    /// With some more bytes, and how many they are.
    pub fn bytes(self, bytes: &[u8]) -> Digest {
        let of = |block: &[u8]| {
            let words = block.chunks_exact(8);
            let mut rest = [0; 8];
            rest[..words.remainder().len()].copy_from_slice(words.remainder());
            let word = |w: &[u8]| u64::from_le_bytes(w.try_into().expect("chunks of eight"));
            words
                .map(word)
                .fold(Digest::new(), Digest::word)
                .word(u64::from_le_bytes(rest))
        };
        let blocks: Vec<Digest> = bytes.par_chunks(BLOCK).map(of).collect();
        let joined = |d: Digest, b: &Digest| d.word(b.0).word(b.1);
        blocks.iter().fold(self, joined).word(bytes.len() as u64)
    }

    /// As it is written.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_le_bytes()
    }

    /// As a file name.
    pub fn hex(self) -> String {
        format!("{:016x}{:016x}", self.0, self.1)
    }
}

/// Everything that decides a cut: the graph, what is known of its vertices, the method with all its
/// knobs, the parts and the seed. Its limits are not in it: they choose a method, and are gone by then.
pub(super) fn of_request(request: &Request) -> Digest {
    let g = request.graph;
    let flags = |mask: &[bool]| mask.iter().map(|&m| u8::from(m)).collect::<Vec<u8>>();
    let mut d = Digest::new()
        .bytes(request.method.entry.name.as_bytes())
        .bytes(env!("CARGO_PKG_VERSION").as_bytes());
    for (knob, value) in request.method.knobs.iter() {
        d = d.bytes(knob.as_bytes()).bytes(value.to_string().as_bytes());
    }
    // Nothing of a second level where there is none, so that cuts kept before there were any are found.
    d = match request.nested {
        Nested::No => d,
        Nested::Again(each) => d.bytes(b"again").word(each as u64),
        Nested::Ranges(each) => d.bytes(b"ranges").word(each as u64),
    };
    with_edges(d.word(request.parts as u64).word(request.seed), g)
        .bytes(&flags(request.train))
        .bytes(&flags(request.val))
        .bytes(&flags(request.test))
        .bytes(bytemuck::cast_slice(request.node_types))
}

/// The graph's edges.
fn with_edges(d: Digest, g: &Graph) -> Digest {
    d.word(g.n() as u64)
        .bytes(bytemuck::cast_slice(g.indptr()))
        .bytes(bytemuck::cast_slice(g.indices()))
}

/// Everything that decides in which order the chunks of devices go.
pub(super) fn of_order(
    graph: &Graph,
    owner: &[u32],
    [devices, chunks]: [usize; 2],
    throughputs: &Throughputs,
) -> Digest {
    let Throughputs { host, peer, reuse } = throughputs;
    let d = Digest::new()
        .bytes(b"order of chunks")
        .bytes(env!("CARGO_PKG_VERSION").as_bytes())
        .word(devices as u64)
        .word(chunks as u64);
    let d = [host, peer, reuse]
        .iter()
        .fold(d, |d, x| d.word(x.to_bits()));
    with_edges(d, graph).bytes(bytemuck::cast_slice(owner))
}
