//! A heat map as SVG, for a committed page: numbers in cells, darker where larger.

/// What it shows.
pub struct Map<'a> {
    /// Above it.
    pub title: &'a str,
    /// Below it: what the columns are.
    pub across: &'a str,
    /// Names of rows.
    pub rows: &'a [String],
    /// Names of columns.
    pub columns: &'a [String],
    /// Ratios by row and column; none where nothing was measured.
    pub cells: &'a [Vec<Option<f64>>],
}

const CELL: [usize; 2] = [38, 20];
const LEFT: usize = 150;
const TOP: usize = 40;
const BELOW: usize = 96;

/// From white at 1 to red at this and above.
const HOT: f64 = 2.5;

/// The colour of a ratio, and that of a number on it.
fn colours(ratio: f64) -> (String, &'static str) {
    let share = ((ratio - 1.0) / (HOT - 1.0)).clamp(0.0, 1.0);
    let to = |from: f64, to: f64| (from + share * (to - from)) as u8;
    let fill = format!(
        "#{:02x}{:02x}{:02x}",
        to(247.0, 178.0),
        to(251.0, 24.0),
        to(255.0, 43.0)
    );
    (fill, if share > 0.6 { "#ffffff" } else { "#222222" })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The picture.
pub fn svg(map: &Map<'_>) -> String {
    let width = LEFT + CELL[0] * map.columns.len() + 20;
    let height = TOP + CELL[1] * map.rows.len() + BELOW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"10\" fill=\"#222222\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"13\">{}</text>\n",
        escaped(map.title)
    );
    for (r, name) in map.rows.iter().enumerate() {
        let y = TOP + CELL[1] * r;
        let middle = y + 14;
        out += &format!(
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6,
            escaped(name)
        );
        for (c, cell) in map.cells[r].iter().enumerate() {
            let x = LEFT + CELL[0] * c;
            let (fill, ink) = cell.map_or(("#eeeeee".to_owned(), ""), colours);
            out += &format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>\n",
                CELL[0] - 1,
                CELL[1] - 1
            );
            if let Some(ratio) = cell {
                let centre = x + CELL[0] / 2;
                out += &format!(
                    "<text x=\"{centre}\" y=\"{middle}\" text-anchor=\"middle\" fill=\"{ink}\">{ratio:.2}</text>\n"
                );
            }
        }
    }
    let bottom = TOP + CELL[1] * map.rows.len();
    for (c, name) in map.columns.iter().enumerate() {
        let (x, y) = (LEFT + CELL[0] * c + CELL[0] / 2 + 3, bottom + 8);
        out += &format!(
            "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(60 {x} {y})\">{}</text>\n",
            escaped(name)
        );
    }
    out += &format!(
        "<text x=\"{LEFT}\" y=\"{}\">{}; grey: not measured</text>\n</svg>\n",
        height - 10,
        escaped(map.across)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_numbers_and_darken() {
        let (rows, columns) = (
            vec!["a & b".to_owned()],
            vec!["1".to_owned(), "2".to_owned(), "3".to_owned()],
        );
        let cells = vec![vec![Some(1.0), None, Some(9.0)]];
        let made = svg(&Map {
            title: "t",
            across: "x",
            rows: &rows,
            columns: &columns,
            cells: &cells,
        });
        assert!(
            made.contains("a &amp; b") && made.contains(">1.00<") && made.contains(">9.00<"),
            "{made}"
        );
        assert!(
            made.contains("#f7fbff") && made.contains("#b2182b") && made.contains("#eeeeee"),
            "{made}"
        );
        assert!(made.trim_end().ends_with("</svg>"));
    }
}
