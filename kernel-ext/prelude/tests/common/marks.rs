//! What the tests of plots look for in an SVG.

use halobook::prelude::*;

/// Panics unless tags nest and close, attributes are quoted, and no bare `<` or `&` is left.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for (i, _) in text.match_indices('&') {
            let entity = text[i..].split(';').next().unwrap_or_default();
            assert!(
                ["&lt", "&gt", "&amp", "&quot", "&#39"].contains(&entity),
                "bare & in {text}"
            );
        }
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "unquoted: {tag}");
        assert!(
            !tag.contains('<') && !tag.contains("NaN") && !tag.contains("inf"),
            "{tag}"
        );
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for outside in ["<script", "href", "@import", "url(http"] {
        assert!(!svg.contains(outside), "{outside}");
    }
    assert!(svg.contains("<title") && svg.contains("<desc") && svg.contains("role=\"img\""));
}

/// Filled rectangles of role `class` that are not in the legend (whose boxes are 16 px wide).
pub fn boxes(svg: &str, class: u8) -> usize {
    let fill = format!("class=\"hb-f{class}\"");
    svg.lines()
        .filter(|l| l.starts_with("<rect") && l.contains(&fill))
        .filter(|l| !l.contains("width=\"16\" height=\"10\""))
        .count()
}

/// Roles of boxes.
pub const COMPUTE: u8 = 8;
pub const WAIT: u8 = 11;

/// The plot, after a look at its markup and its text.
pub fn checked(plot: Plot) -> Plot {
    well_formed(&plot.svg);
    assert!(
        !plot.text.is_empty() && !plot.text.contains("NaN"),
        "{}",
        plot.text
    );
    plot
}
