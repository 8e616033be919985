//! Vertices numbered anew, in the order of their first appearance.

/// How far ahead of its use a vertex's place is asked for.
const AHEAD: usize = 16;

/// Numbers the vertices of one batch after the other. Keeps a word for every vertex of the graph,
/// so that nothing has to be hashed or cleared.
#[derive(Debug, Clone, Default)]
pub struct Compact {
    /// By vertex: the round that numbered it last, and its number then.
    places: Vec<[u32; 2]>,
    round: u32,
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
        let mut vertices = Vec::with_capacity(rows.len() + sources.len());
        for (k, &v) in rows.iter().enumerate() {
            self.places[v as usize] = [round, k as u32];
            vertices.push(v);
        }
        for k in 0..sources.len() {
            if let Some(&next) = sources.get(k + AHEAD) {
                kernels::prefetch(&self.places[next as usize]);
            }
            let v = sources[k];
            let place = &mut self.places[v as usize];
            if place[0] != round {
                *place = [round, vertices.len() as u32];
                vertices.push(v);
            }
            sources[k] = place[1];
        }
        vertices.shrink_to_fit();
        vertices
    }
}
