//! Figures for a paper: as files, without the frame that a notebook shows them in, in the width of a column.

use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Plot;
use super::escape;
use super::sheet::{FAMILY, LEGEND, foot_height};
use crate::program;

/// How a page shows a figure that is wider than itself; readers of files take it for no height at all.
pub(crate) const ON_A_PAGE: &str = " style=\"max-width:100%;height:auto\"";

/// Around what a bare figure lacks.
const FRAME: &str = "<g class=\"hb-frame\">";
const FRAMED: &str = "</g>\n";

/// Where the legend begins, px from the top.
const HEAD: f64 = LEGEND as f64 - 14.0;

/// Marks some elements as the frame's.
pub(crate) fn framed(elements: &str) -> String {
    format!("{FRAME}{elements}{FRAMED}")
}

impl Plot {
    /// Writes the figure to `path`, as its name ends: `.svg`, `.pdf` with text and lines as such, or `.png` with 300
    /// pixels an inch.
    ///
    /// # Errors
    /// Another ending; what the file system says; for `.pdf` and `.png` a machine without fonts, or without the
    /// `halobook-kernel` program, which draws them.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let ending = path
            .extension()
            .and_then(|end| end.to_str())
            .unwrap_or_default();
        match ending.to_lowercase().as_str() {
            "svg" => std::fs::write(path, self.document()),
            "pdf" | "png" => converted(&self.document(), path),
            _ => Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "{}: a figure is saved as .svg, .pdf or .png",
                    path.display()
                ),
            )),
        }
    }

    /// The SVG as a file of its own.
    pub fn document(&self) -> String {
        self.svg.replacen(ON_A_PAGE, "", 1)
    }

    /// The figure without title, card and footer.
    #[must_use]
    pub fn bare(&self) -> Plot {
        let mut svg = String::with_capacity(self.svg.len());
        let mut rest = self.svg.as_str();
        let mut sections = Vec::new();
        while let Some((before, after)) = rest.split_once(FRAME) {
            svg.push_str(before);
            let (section, behind) = after.split_once(FRAMED).unwrap_or((after, ""));
            sections.push(section);
            rest = behind;
        }
        svg.push_str(rest);
        // Card, title and footer, in this order; a figure without them is bare already.
        if let ([_, _, foot], Some((width, height))) = (sections.as_slice(), self.size()) {
            let foot = f64::from(foot_height(foot.matches("<text").count()));
            let left = height - HEAD - foot;
            svg = with_size(
                &svg,
                &format!("{width}"),
                &format!("{left}"),
                (HEAD, width, left),
            );
        }
        Plot {
            svg,
            text: self.text.clone(),
        }
    }

    /// The figure with words of another family, where the reader's machine has it.
    #[must_use]
    pub fn font(&self, family: &str) -> Plot {
        let own = format!("font-family=\"{FAMILY}\"");
        let family = escape(&family.replace(['\'', '"'], ""));
        Plot {
            svg: self
                .svg
                .replacen(&own, &format!("font-family=\"'{family}', {FAMILY}\""), 1),
            text: self.text.clone(),
        }
    }

    /// The figure so wide: `8.4cm`, `84mm`, `3.3in`, `240pt` or `600px`.
    ///
    /// # Errors
    /// What is no such length.
    pub fn wide(&self, width: &str) -> Result<Plot> {
        let wrong = || {
            Error::new(
                ErrorKind::InvalidInput,
                format!("{width:?} is no width: for example 8.4cm, 84mm, 3.3in, 240pt or 600px"),
            )
        };
        let unit = ["cm", "mm", "in", "pt", "px"]
            .into_iter()
            .find(|unit| width.ends_with(unit))
            .ok_or_else(wrong)?;
        let length: f64 = width[..width.len() - 2]
            .trim()
            .parse()
            .map_err(|_| wrong())?;
        if !(length.is_finite() && length > 0.0) {
            return Err(wrong());
        }
        let (_, view) = self.svg.split_once("viewBox=\"").ok_or_else(wrong)?;
        let view: Vec<f64> = view
            .split('"')
            .next()
            .unwrap_or_default()
            .split(' ')
            .filter_map(|n| n.parse().ok())
            .collect();
        let [_, top, w, h] = view[..] else {
            return Err(wrong());
        };
        let height = length * h / w;
        let svg = with_size(
            &self.svg,
            &format!("{length}{unit}"),
            &format!("{height:.4}{unit}"),
            (top, w, h),
        );
        Ok(Plot {
            svg,
            text: self.text.clone(),
        })
    }

    /// Width and height, px.
    fn size(&self) -> Option<(f64, f64)> {
        let number = |name: &str| {
            let (_, rest) = self.svg.split_once(&format!(" {name}=\""))?;
            rest.split('"').next()?.parse().ok()
        };
        Some((number("width")?, number("height")?))
    }
}

/// The SVG with another size, and the part of it that is seen: from which height on, how wide and how high.
fn with_size(svg: &str, width: &str, height: &str, (top, w, h): (f64, f64, f64)) -> String {
    let parts = svg.split_once(" width=\"").and_then(|(before, rest)| {
        let (_, after) = rest.split_once(" role=")?;
        Some((before, after))
    });
    match parts {
        Some((before, after)) => {
            format!(
                "{before} width=\"{width}\" height=\"{height}\" viewBox=\"0 {top} {w} {h}\" role={after}"
            )
        }
        None => svg.to_owned(),
    }
}

/// Has the kernel's program write the figure.
fn converted(svg: &str, path: &Path) -> Result<()> {
    let program = program::program().with_file_name("halobook-kernel");
    let failed = |what: String| Error::other(format!("{}: {what}", path.display()));
    let mut child = Command::new(&program)
        .arg("figure")
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            failed(format!(
                "{} draws it, and cannot be started: {e}",
                program.display()
            ))
        })?;
    if let Some(mut input) = child.stdin.take() {
        // A program that has ended says why.
        let _ = input.write_all(svg.as_bytes());
    }
    let ended = child.wait_with_output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.trim().trim_start_matches("error: ");
    Err(failed(said.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let svg = format!(
            "<svg xmlns=\"x\" width=\"880\" height=\"442\" viewBox=\"0 0 880 442\" role=\"img\"{ON_A_PAGE}>{}{}<g/>{}</svg>",
            framed("<rect/>"),
            framed("<text>title</text>"),
            framed("<text>a</text><text>b</text>")
        );
        let text = "t".to_owned();
        Plot { svg, text }
    }

    #[test]
    fn a_bare_figure_has_neither_title_nor_card_nor_footer() {
        let bare = plot().bare();
        assert_eq!(
            bare.document(),
            "<svg xmlns=\"x\" width=\"880\" height=\"340\" viewBox=\"0 58 880 340\" role=\"img\"><g/></svg>"
        );
        // Once more changes nothing.
        assert_eq!(bare.bare(), bare);
    }

    #[test]
    fn a_figure_is_as_wide_as_a_column() {
        let wide = plot().bare().wide("8.4cm").expect("a width");
        assert!(
            wide.svg
                .contains("width=\"8.4cm\" height=\"3.2455cm\" viewBox=\"0 58 880 340\""),
            "{}",
            wide.svg
        );
        for wrong in ["8.4", "cm", "-1cm", "8,4cm", "infcm", "3km"] {
            assert!(plot().wide(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_says_what_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("x.svg");
        plot().save(&to).expect("is written");
        let written = std::fs::read_to_string(&to).expect("is there");
        assert!(
            written.starts_with("<svg") && !written.contains("style="),
            "{written}"
        );
        let refused = plot()
            .save(folder.path().join("x.jpg"))
            .expect_err("no such form");
        assert!(
            refused.to_string().contains(".svg, .pdf or .png"),
            "{refused}"
        );
    }
}
