//! Figures as files: SVG, PDF and PNG.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use halobook::plot::Plot;
use resvg::{tiny_skia, usvg};

/// Pixels an inch of a PNG; SVG has 96.
const DENSITY: f32 = 300.0;
/// SVG's pixels an inch.
const PIXELS: f32 = 96.0;

/// Writes an SVG document to `path`, as its name ends.
///
/// # Errors
/// A machine without fonts, a document that is none, another ending, what the file system says.
pub fn write(svg: &str, path: &Path) -> Result<()> {
    let ending = path.extension().and_then(|end| end.to_str());
    let bytes = match ending.unwrap_or_default().to_lowercase().as_str() {
        "svg" => svg.as_bytes().to_owned(),
        "pdf" => {
            let page = svg2pdf::PageOptions { dpi: PIXELS };
            svg2pdf::to_pdf(&tree(svg)?, svg2pdf::ConversionOptions::default(), page)
                .map_err(|error| anyhow!("it cannot be drawn: {error}"))?
        }
        "png" => png(&tree(svg)?)?,
        _ => bail!("a figure is saved as .svg, .pdf or .png"),
    };
    std::fs::write(path, bytes)?;
    Ok(())
}

/// How a file differs from what a cell shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form<'f> {
    /// How wide, with a unit.
    pub width: Option<&'f str>,
    /// The family of its words.
    pub font: Option<&'f str>,
    /// Without title, card and footer.
    pub bare: bool,
}

/// Saves a plot, in a width and without its frame where that is asked for.
///
/// # Errors
/// A width that is none, and what [`write()`] says.
pub fn save(plot: &Plot, path: &Path, form: Form<'_>) -> Result<()> {
    let mut plot = Cow::Borrowed(plot);
    if form.bare {
        plot = Cow::Owned(plot.bare());
    }
    if let Some(family) = form.font {
        plot = Cow::Owned(plot.font(family));
    }
    if let Some(width) = form.width {
        plot = Cow::Owned(plot.wide(width)?);
    }
    write(&plot.document(), path).with_context(|| path.display().to_string())
}

/// A document with the fonts of this machine.
fn tree(svg: &str) -> Result<usvg::Tree> {
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    ensure!(
        !options.fontdb.is_empty(),
        "this machine has no fonts to write with; install some (fonts-dejavu-core), or save as .svg"
    );
    // Where none of the families that browsers have is here, any is.
    let first = options.fontdb.faces().next();
    let some = first.and_then(|face| face.families.first().cloned());
    let sans = usvg::fontdb::Query {
        families: &[usvg::fontdb::Family::SansSerif],
        ..Default::default()
    };
    if let Some((family, _)) = some
        && options.fontdb.query(&sans).is_none()
    {
        options.fontdb_mut().set_sans_serif_family(family);
    }
    usvg::Tree::from_str(svg, &options).context("this is no figure")
}

fn png(tree: &usvg::Tree) -> Result<Vec<u8>> {
    let scale = DENSITY / PIXELS;
    let size = tree.size().to_int_size().scale_by(scale);
    let size = size.context("it is empty")?;
    let map = tiny_skia::Pixmap::new(size.width(), size.height());
    let mut map = map.context("it is too large")?;
    map.fill(tiny_skia::Color::WHITE);
    let larger = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(tree, larger, &mut map.as_mut());
    map.encode_png().context("it cannot be drawn")
}

#[cfg(test)]
mod tests {
    use super::write;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8.4cm\" height=\"1in\" viewBox=\"0 0 100 50\">\
                       <text x=\"5\" y=\"20\" font-family=\"system-ui, sans-serif\">words</text></svg>";

    /// Where there are fonts, the files are what they are called and have the size of the figure.
    #[test]
    fn figures_become_what_their_names_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |name: &str| {
            let to = folder.path().join(name);
            write(SVG, &to).map(|()| std::fs::read(&to).expect("is there"))
        };
        let pdf = match of("x.pdf") {
            Err(error) if error.to_string().contains("no fonts") => {
                println!("SKIP: {error}");
                return;
            }
            pdf => pdf.expect("is drawn"),
        };
        assert!(pdf.starts_with(b"%PDF"));
        // 8.4 cm in points.
        let text = String::from_utf8_lossy(&pdf);
        let page = text
            .split_once("/MediaBox [")
            .expect("a page")
            .1
            .split(']')
            .next()
            .expect("its size");
        let numbers: Vec<f64> = page
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        assert!((numbers[2] - 8.4 / 2.54 * 72.0).abs() < 0.5, "{page}");
        let png = of("x.PNG").expect("is drawn");
        assert!(png.starts_with(b"\x89PNG"));
        // 8.4 cm with 300 pixels an inch.
        let width = u32::from_be_bytes(png[16..20].try_into().expect("four bytes"));
        assert!(width.abs_diff(992) < 5, "{width}");
        assert!(of("x.jpg").is_err());
    }
}
