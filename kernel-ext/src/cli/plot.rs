//! Plots on the command line: the numbers in the terminal, the figure in a file.

use std::path::PathBuf;
use std::process::ExitCode;

use halobook::Run;
use halobook::plot::{Plot, View};

use super::ask::refuse;
use crate::figure::Form;

const USAGE: &str = "halobook plot RUN KIND [--epoch K] [--zoom FROM..TO] [-o FILE.svg|pdf|png] [--width 8.4cm] [--font FAMILY] [--bare]";

/// What is to be drawn.
#[derive(Debug, Default, PartialEq)]
struct Request {
    names: Vec<String>,
    view: View,
    to: Option<PathBuf>,
    width: Option<String>,
    font: Option<String>,
    bare: bool,
}

/// Prints a plot's text twin, and writes its SVG where a file is named; exit status 2 if it is refused.
pub fn plot(words: &[String]) -> ExitCode {
    let request = match read(words) {
        Ok(request) => request,
        Err(what) => return refuse(&what, USAGE),
    };
    let plot = match draw(&request) {
        Ok(plot) => plot,
        Err(error) => {
            let (what, help) = error.split_once("\nhelp: ").unwrap_or((&error, USAGE));
            return refuse(what, help);
        }
    };
    print!("{}", plot.text);
    if let Some(path) = &request.to {
        let form = Form {
            width: request.width.as_deref(),
            font: request.font.as_deref(),
            bare: request.bare,
        };
        let saved = crate::figure::save(&plot, path, form);
        if let Err(error) = saved {
            return refuse(&format!("{error:#}"), "name a file that can be written");
        }
        println!("{}", path.display());
    }
    ExitCode::SUCCESS
}

fn read(words: &[String]) -> Result<Request, String> {
    let mut request = Request::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, inline) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let mut value = || {
            let value = inline.clone().or_else(|| words.next().cloned());
            value.ok_or_else(|| format!("{flag} needs a value"))
        };
        match flag {
            "-o" | "--to" => request.to = Some(value()?.into()),
            "--width" => request.width = Some(value()?),
            "--font" => request.font = Some(value()?),
            "--bare" => request.bare = true,
            "--epoch" => {
                let text = value()?;
                let epoch = text
                    .parse()
                    .map_err(|_| format!("--epoch takes a number, not {text}"))?;
                request.view.epoch = Some(epoch);
            }
            "--zoom" => {
                let text = value()?;
                let zoom = View::range(&text).ok_or_else(|| {
                    format!("--zoom takes a part of the epoch in ms, such as 2.5..4, not {text}")
                })?;
                request.view.zoom = Some(zoom);
            }
            flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}")),
            _ => request.names.push(word.clone()),
        }
    }
    Ok(request)
}

fn draw(request: &Request) -> Result<Plot, String> {
    let [run, kind] = request.names.as_slice() else {
        return Err("plot takes a run and a kind".into());
    };
    let run = Run::try_open(run).map_err(|e| format!("{e}\nhelp: {}", e.help()))?;
    let plot = match kind.as_str() {
        "gantt" => run.try_gantt(request.view),
        kind if request.view != View::default() => {
            return Err(format!(
                "plot {kind} shows all epochs, not a part of one\nhelp: --epoch and --zoom are for gantt"
            ));
        }
        kind => run.try_plot(kind),
    };
    plot.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_names_flags_and_their_values() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let wanted = Request {
            names: words("r1 gantt"),
            view: View {
                epoch: Some(3),
                zoom: Some((2.0, 3.5)),
            },
            to: Some("x.svg".into()),
            width: Some("8cm".into()),
            font: Some("Times".into()),
            bare: true,
        };
        assert_eq!(
            read(&words(
                "r1 gantt --epoch 3 --zoom 2..3.5 -o x.svg --bare --width=8cm --font Times"
            )),
            Ok(wanted)
        );
        for wrong in [
            "r1 gantt --epoch x",
            "r1 -o",
            "r1 --width",
            "r1 --zoom",
            "r1 gantt --zoom 3..2",
        ] {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
