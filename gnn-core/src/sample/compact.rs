//! Vertices numbered anew, in the order of their first appearance.

use kernels::prefetch;

/// How far ahead of its use a vertex's place is asked for.
const AHEAD: usize = 16;

/// Numbers the vertices of one batch after the other. Keeps a word for every vertex of the graph,
/// so that nothing has to be hashed or cleared.
#[derive(Debug, Clone, Default)]
pub struct Compact {
    /// By vertex: the round that numbered it last, and its number then.
    places: Vec<[u32; 2]>,
    round: u32,
    /// Room for the vertices of one round.
    vertices: Vec<u32>,
}

impl Compact {
    /// Replaces the vertices in `sources`, below `n`, by numbers: those of `rows`, which are distinct,
    /// are 0, 1, …, and others follow as they come. Returns the vertex of each number.
    pub fn number(&mut self, n: usize, rows: &[u32], sources: &mut [u32]) -> Vec<u32> {
        if self.places.len() < n {
            self.places.resize(n, [0; 2]);
        }
        if self.round == u32::MAX {
            self.places.fill([0; 2]);
            self.round = 0;
        }
        self.round += 1;
        let round = self.round;
        let most = rows.len() + sources.len();
        if self.vertices.len() < most {
            self.vertices.resize(most, 0);
        }
        let vertices = &mut self.vertices[..most];
        vertices[..rows.len()].copy_from_slice(rows);
        for (k, &v) in rows.iter().enumerate() {
            if let Some(&next) = rows.get(k + AHEAD) {
                prefetch(&self.places[next as usize]);
            }
            self.places[v as usize] = [round, k as u32];
        }
        let mut count = rows.len();
        for k in 0..sources.len() {
            if let Some(&next) = sources.get(k + AHEAD) {
                prefetch(&self.places[next as usize]);
            }
            let v = sources[k];
            let place = &mut self.places[v as usize];
            // Whether a vertex is new cannot be foreseen, so nothing branches on it.
            let new = place[0] != round;
            let number = if new { count as u32 } else { place[1] };
            *place = [round, number];
            vertices[count] = v;
            count += usize::from(new);
            sources[k] = number;
        }
        vertices[..count].to_vec()
    }
}
