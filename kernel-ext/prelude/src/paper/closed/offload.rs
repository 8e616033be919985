//! Rows that lie on the host: what they take there, and what moves to devices and back (HongTu).
//!
//! Layers aggregate their inputs, as the paper's do, and have weights of their edges that are fixed.

use super::{FLOAT, Widths};

/// Bytes of rows and gradients of all layers, `8 · V · Σ d` (HongTu, Table 1).
pub fn vertex_data_bytes(vertices: f64, widths: &Widths) -> f64 {
    2.0 * FLOAT * vertices * widths.0.iter().map(|&d| d as f64).sum::<f64>()
}

/// Bytes of what layers keep for the way back, `4 · V · (2 · Σ d_hidden + 3 · d_L)` (HongTu, Table 1).
pub fn intermediate_bytes(vertices: f64, widths: &Widths) -> f64 {
    let [_, hidden @ .., last] = &widths.0[..] else {
        return 0.0;
    };
    let hidden: f64 = hidden.iter().map(|&d| d as f64).sum();
    FLOAT * vertices * (2.0 * hidden + 3.0 * *last as f64)
}

/// Bytes of edges, 12 each (HongTu, Table 1).
pub fn topology_bytes(edges: f64) -> f64 {
    12.0 * edges
}

/// Bytes of rows that go to devices in an epoch, `4 · Σ_l V_ru · d_l + V · (d_l + d_{l+1})`, where each layer
/// loads `loaded` rows and its aggregate is kept on the host (HongTu, sections 4.2 and 5).
pub fn to_devices_bytes(loaded: f64, vertices: f64, widths: &Widths) -> f64 {
    let pairs = widths.0.windows(2).map(|w| [w[0] as f64, w[1] as f64]);
    FLOAT
        * pairs
            .map(|[d, next]| loaded * d + vertices * (d + next))
            .sum::<f64>()
}

/// Bytes of rows that come back, `4 · Σ_l V · (d_l + d_{l+1}) + 4 · Σ_{l≥1} V_ru · d_l`.
pub fn to_hosts_bytes(loaded: f64, vertices: f64, widths: &Widths) -> f64 {
    let pairs = widths.0.windows(2).map(|w| (w[0] + w[1]) as f64);
    let gradients = widths.0[1..widths.layers()].iter().map(|&d| d as f64);
    FLOAT * (vertices * pairs.sum::<f64>() + loaded * gradients.sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 is in GiB, of numbers of vertices and edges that the sources of the graphs give; of
    /// friendster more vertices than Table 4 has.
    #[test]
    fn sizes_are_those_that_hongtu_prints() {
        let gib = 1024f64.powi(3);
        for (vertices, edges, widths, printed) in [
            (
                41_291_594.0,
                1_150_725_436.0,
                [256, 128, 64],
                [12.8, 177.2, 108.3],
            ),
            (
                111_059_956.0,
                1_615_685_872.0,
                [200, 128, 172],
                [18.0, 519.4, 425.3],
            ),
            (
                68_349_466.0,
                2_586_147_869.0,
                [256, 128, 64],
                [28.9, 293.3, 179.3],
            ),
        ] {
            let [features, hidden, classes] = widths;
            let widths = Widths::new(features, hidden, classes, 3);
            let sizes = [
                topology_bytes(edges),
                vertex_data_bytes(vertices, &widths),
                intermediate_bytes(vertices, &widths),
            ];
            for (bytes, printed) in sizes.into_iter().zip(printed) {
                let got = bytes / gib;
                assert!((got - printed).abs() < 0.01 * printed, "{got}, {printed}");
            }
        }
        assert_eq!(intermediate_bytes(10.0, &Widths(vec![4])), 0.0);
    }

    #[test]
    fn one_layer_loads_its_rows_and_their_gradients_stay() {
        let one = Widths::new(3, 0, 2, 1);
        assert_eq!(
            to_devices_bytes(7.0, 5.0, &one),
            4.0 * (7.0 * 3.0 + 5.0 * 5.0)
        );
        assert_eq!(to_hosts_bytes(7.0, 5.0, &one), 4.0 * 25.0);
    }
}
