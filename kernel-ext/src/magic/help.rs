//! Manual pages and the list of magics, from the table.

use std::fmt::Write;

use gnn_core::spec::{RunSpec, find_key};
use gnn_core::strategy::STRATEGIES;
use launcher::flags::values;

use super::table::{self, Kind, MAGICS, Magic};
use crate::front::Shown;
use crate::text;

/// The manual page of a magic, or the list for a name that is none.
pub fn page(name: &str) -> Shown {
    match table::find(name) {
        Some(magic) => Shown::text(manual(magic)),
        None => list(),
    }
}

/// The page for what the cursor is on, when that is a magic.
pub fn at(code: &str, position: usize) -> Option<Shown> {
    let start = code[..position.min(code.len())]
        .rfind('\n')
        .map_or(0, |at| at + 1);
    let line = code[start..].lines().next().unwrap_or_default();
    let word = line
        .trim_start_matches(['%', ':'])
        .split(|c: char| !c.is_ascii_alphanumeric())
        .next()?;
    let signs = line.len() - line.trim_start_matches(['%', ':']).len();
    if signs == 0 || !table::looks_like_magic(line) {
        return None;
    }
    table::find(word).map(|magic| Shown::text(manual(magic)))
}

fn usage(magic: &Magic) -> String {
    let mut usage = magic.spelling();
    for (name, _) in magic.args {
        let _ = write!(usage, " {name}");
    }
    if !magic.flags.is_empty() {
        usage.push_str(" [flags]");
    }
    usage
}

fn manual(magic: &Magic) -> String {
    let mut page = format!(
        "{}: {}\n\nusage: {}\n",
        magic.spelling(),
        magic.summary,
        usage(magic)
    );
    if magic.kind == Kind::Line {
        let _ = writeln!(page, "also:  :{}", magic.name);
    }
    if !magic.flags.is_empty() {
        page.push_str("\nflags:\n");
        for flag in magic.flags {
            let short = flag.short.map(|c| format!("-{c}, ")).unwrap_or_default();
            let value = flag
                .value
                .map(|(name, _)| format!(" {name}"))
                .unwrap_or_default();
            // A key of a run is said with what it takes and what it is by itself.
            let key = find_key(flag.long).filter(|key| key.doc == flag.doc);
            let value = key.map_or(value, |key| format!(" {}", values(key.kind)));
            let default = key.map_or(String::new(), |key| {
                (key.get)(&RunSpec::default()).to_string()
            });
            let default = match default.as_str() {
                "" => default,
                default => format!(" [{default}]"),
            };
            let left = format!("{short}--{}{value}", flag.long);
            let _ = writeln!(page, "  {left:<26} {}{default}", flag.doc);
        }
    }
    if magic.flags.iter().any(|flag| flag.long == "strategy") {
        knobs(&mut page);
    }
    if !magic.details.is_empty() {
        let _ = write!(page, "\n{}\n", magic.details);
    }
    page
}

/// What strategies have beside the keys of every run.
fn knobs(page: &mut String) {
    for entry in STRATEGIES.iter().filter(|entry| !entry.knobs.is_empty()) {
        let _ = writeln!(page, "\nknobs of {}:", entry.name);
        for knob in entry.knobs {
            let _ = writeln!(page, "  {:<26} {} [{}]", knob.name, knob.doc, knob.default);
        }
    }
}

/// The list of all magics, and of the frames that strategies add.
pub fn list() -> Shown {
    let mut plain = String::new();
    let mut html = String::from("<table><thead><tr><th>magic</th><th></th></tr></thead><tbody>");
    for magic in MAGICS {
        let _ = writeln!(plain, "{:<20} {}", usage(magic), magic.summary);
        let _ = write!(
            html,
            "<tr><td style=\"text-align:left\"><code>{}</code></td>\
             <td style=\"text-align:left\">{}</td></tr>",
            text::escape(&usage(magic)),
            text::escape(magic.summary)
        );
    }
    plain.push_str("%name? shows a magic's manual page\n\n");
    html.push_str("</tbody></table><p><code>%name?</code> shows a magic's manual page.</p>");
    html.push_str("<table><thead><tr><th>frame of a strategy</th><th></th></tr></thead><tbody>");
    for frame in launcher::frames::of_strategies() {
        let _ = writeln!(plain, "frame {:<14} {}", frame.name, frame.doc);
        let _ = write!(
            html,
            "<tr><td style=\"text-align:left\"><code>{}</code></td>\
             <td style=\"text-align:left\">{}</td></tr>",
            text::escape(&frame.name),
            text::escape(&frame.doc)
        );
    }
    plain.push_str("halobook frames lists all frames with their columns");
    html.push_str(
        "</tbody></table><p><code>halobook frames</code> lists all with their columns.</p>",
    );
    Shown::html(plain, html)
}
