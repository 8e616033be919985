//! What a cell asks for.

use super::body;
use super::chart;
use super::compiled::{self, RanksRequest, StrategyRequest};
use super::flags::{self, Parsed};
use super::table::{self, Kind, Magic};
use crate::front::Failure;
use gnn_core::error::nearest;
use gnn_core::spec::{KeyType, find_key};
use launcher::flags::SWEEP;

/// What is to be done with a cell.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Only Rust.
    Rust(String),
    /// Line magics, then Rust (with the magics' lines left blank, so that line numbers hold).
    Lines {
        /// The magics in order.
        lines: Vec<Line>,
        /// The rest of the cell.
        rust: String,
    },
    /// A training run.
    Train(TrainRequest),
    /// Many training runs.
    Sweep(SweepRequest),
    /// A query.
    Sql(SqlRequest),
    /// Claims to be checked.
    Check(CheckRequest),
    /// Named values.
    Params(ParamsRequest),
    /// A strategy.
    Strategy(StrategyRequest),
    /// Something for every rank.
    Ranks(RanksRequest),
    /// A magic's manual page; an empty name asks for the list.
    Help(String),
    /// Something is wrong with the magic itself.
    Refused(Refusal),
}

/// A line magic with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The magic's name.
    pub name: &'static str,
    /// Its positional arguments.
    pub args: Vec<String>,
    /// Its flags by long name; switches hold an empty text.
    pub flags: Vec<(&'static str, String)>,
}

impl Line {
    /// The last value given for a flag.
    pub fn flag(&self, long: &str) -> Option<&str> {
        self.flags
            .iter()
            .rev()
            .find(|(name, _)| *name == long)
            .map(|(_, value)| value.as_str())
    }
}

/// A run as the cell describes it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainRequest {
    /// Keys and values in the order given, flags before body.
    pub pairs: Vec<(String, String)>,
    /// The variable to bind.
    pub output: Option<String>,
    /// A run file to read first.
    pub config: Option<String>,
    /// Resolve and check only.
    pub dry_run: bool,
    /// Do not wait for the run.
    pub background: bool,
    /// Start also what by its plan does not fit.
    pub force: bool,
    /// Compare the strategy with `single` first.
    pub verify: bool,
    /// How many seeds, where several are asked for.
    pub repeat: Option<String>,
}

/// Many runs as the cell describes them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepRequest {
    /// The runs; a value may be a list.
    pub runs: TrainRequest,
    /// Flags of the sweep itself by long name; switches hold an empty text.
    pub own: Vec<(&'static str, String)>,
    /// Whether they are one run with several seeds.
    pub repeats: bool,
}

/// A query as the cell states it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SqlRequest {
    /// In SQL.
    pub text: String,
    /// The variable to bind.
    pub output: Option<String>,
}

/// Parameters as the cell states them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParamsRequest {
    /// Names and defaults.
    pub pairs: Vec<(String, toml::Value)>,
}

/// Claims as the cell states them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckRequest {
    /// One a line.
    pub text: String,
    /// What is near where a claim does not say so itself, as a part.
    pub tolerance: Option<f64>,
    /// The figure that they are about.
    pub figure: Option<String>,
}

/// Why a magic cannot be carried out, with the place marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// The line of the cell that it is about.
    pub line: String,
    /// The place in that line, in characters: start and length.
    pub span: (usize, usize),
    /// What to do.
    pub help: String,
}

impl Refusal {
    /// The cell's failure.
    pub fn failure(&self) -> Failure {
        let (start, len) = self.span;
        let caret = format!("{}{}", " ".repeat(start), "^".repeat(len.max(1)));
        let mut lines = vec![format!("  {}", self.line), format!("  {caret}")];
        if !self.help.is_empty() {
            lines.push(format!("help: {}", self.help));
        }
        Failure::config(self.message.clone(), lines)
    }
}

/// Reads a cell.
pub fn expand(cell: &str) -> Action {
    match try_expand(cell) {
        Ok(action) => action,
        Err(refusal) => Action::Refused(refusal),
    }
}

fn try_expand(cell: &str) -> Result<Action, Refusal> {
    let (mut lines, mut charts) = (Vec::new(), false);
    let mut rust = String::new();
    let mut rest = cell;
    while let Some(line) = rest.split_inclusive('\n').next() {
        let text = line.trim_end();
        let content = text.trim_start();
        if content.is_empty() || content.starts_with("//") {
            rust.push_str(line);
        } else if table::looks_like_magic(text) {
            if let Some(name) = help_wanted(text) {
                return Ok(Action::Help(name));
            }
            let (magic, words) = magic_of(text)?;
            if magic.kind == Kind::Cell {
                if charts || !lines.is_empty() {
                    return Err(Refusal {
                        message: format!("{} must start its cell", magic.spelling()),
                        line: text.to_owned(),
                        span: (0, magic.spelling().chars().count()),
                        help: "put the line magics above it into a cell of their own".into(),
                    });
                }
                let parsed = flags::parse(magic, text, words)?;
                let body = &rest[line.len()..];
                return match magic.name {
                    "sql" => sql(parsed, text, body).map(Action::Sql),
                    "params" => {
                        body::typed(body).map(|pairs| Action::Params(ParamsRequest { pairs }))
                    }
                    "check" => check(parsed, text, body).map(Action::Check),
                    "ranks" => {
                        let head = &cell[..cell.len() - body.len()];
                        compiled::ranks(parsed, head, text, body).map(Action::Ranks)
                    }
                    "strategy" => {
                        let head = &cell[..cell.len() - body.len()];
                        compiled::strategy(parsed, head, text, body).map(Action::Strategy)
                    }
                    "sweep" => sweep(parsed, text, body).map(Action::Sweep),
                    _ => once_or_repeated(train(parsed, text, body, false)?, text),
                };
            }
            let parsed = flags::parse(magic, text, words)?;
            let read = Line {
                name: magic.name,
                args: parsed.args,
                flags: parsed.flags,
            };
            if let Some(name) = read.flag("output") {
                identifier(name.to_owned(), text)?;
            }
            let drawn = match read.name {
                "plot" => chart::rust(&read, text)?,
                _ => None,
            };
            match drawn {
                Some(code) => {
                    charts = true;
                    rust.push_str(&code);
                }
                None => lines.push(read),
            }
            rust.push_str(&line[text.len()..]);
        } else {
            break;
        }
        rest = &rest[line.len()..];
    }
    if lines.is_empty() && !charts {
        return Ok(Action::Rust(cell.to_owned()));
    }
    rust.push_str(rest);
    if lines.is_empty() {
        return Ok(Action::Rust(rust));
    }
    Ok(Action::Lines { lines, rust })
}

/// `%name?`, `%%name?` and a bare `%?` ask for a manual page.
fn help_wanted(line: &str) -> Option<String> {
    let name = line.trim_start_matches(['%', ':']).strip_suffix('?')?;
    let name = name.trim_end_matches('?').trim();
    (!name.contains(char::is_whitespace)).then(|| name.to_owned())
}

/// The magic a line names, and the byte offset at which its arguments start.
fn magic_of(line: &str) -> Result<(&'static Magic, usize), Refusal> {
    let signs = line.chars().take_while(|c| *c == '%' || *c == ':').count();
    let word = line[signs..]
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .next()
        .unwrap_or_default();
    let spelled = &line[..signs + word.len()];
    let refuse = |message: String, help: String| Refusal {
        message,
        line: line.to_owned(),
        span: (0, spelled.chars().count()),
        help,
    };
    let Some(magic) = table::find(word) else {
        let near = nearest(word, table::MAGICS.iter().map(|magic| magic.name));
        return Err(refuse(
            format!("there is no magic {spelled}"),
            match near.and_then(table::find) {
                Some(magic) => format!("did you mean {}?", magic.spelling()),
                None => "%lsmagic lists them".into(),
            },
        ));
    };
    match (magic.kind, &line[..signs]) {
        (Kind::Cell, "%%") | (Kind::Line, "%" | ":") => Ok((magic, spelled.len())),
        _ => Err(refuse(
            format!("{spelled} is written {}", magic.spelling()),
            String::new(),
        )),
    }
}

fn sql(parsed: Parsed, line: &str, rest: &str) -> Result<SqlRequest, Refusal> {
    let mut request = SqlRequest {
        text: rest.trim().to_owned(),
        output: None,
    };
    for (_, name) in parsed.flags {
        request.output = Some(identifier(name, line)?);
    }
    if request.text.is_empty() {
        return Err(Refusal {
            message: "there is no query".into(),
            line: line.to_owned(),
            span: (0, line.chars().count()),
            help: "write it below, for example: SELECT * FROM runs".into(),
        });
    }
    Ok(request)
}

fn check(parsed: Parsed, line: &str, rest: &str) -> Result<CheckRequest, Refusal> {
    let mut request = CheckRequest {
        text: rest.to_owned(),
        ..CheckRequest::default()
    };
    for (name, value) in parsed.flags {
        if name == "figure" {
            request.figure = Some(value);
            continue;
        }
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let part = match value.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(&value),
        };
        let part = part.filter(|tol| *tol >= 0.0);
        request.tolerance = Some(part.ok_or_else(|| Refusal {
            message: format!("--tol takes a part of the right side, not `{value}`"),
            span: place(line, &value),
            line: line.to_owned(),
            help: "for example --tol 0.05, or --tol 5%".into(),
        })?);
    }
    Ok(request)
}

fn sweep(parsed: Parsed, line: &str, rest: &str) -> Result<SweepRequest, Refusal> {
    // What is said of anything that is started, be it a run or a sweep.
    const STARTED: [&str; 3] = ["bg", "force", "dry-run"];
    let is_own = |name: &str| SWEEP.iter().any(|flag| flag.name == name);
    let (own, flags) = parsed
        .flags
        .into_iter()
        .partition(|(name, _)| is_own(name) && !STARTED.contains(name));
    let runs = train(Parsed { flags, ..parsed }, line, rest, true)?;
    let force = runs.force.then_some(("force", String::new()));
    Ok(SweepRequest {
        runs,
        own: own.into_iter().chain(force).collect(),
        repeats: false,
    })
}

/// One run, or, with `--repeat`, as many with a seed each: a sweep of one setting.
fn once_or_repeated(mut runs: TrainRequest, line: &str) -> Result<Action, Refusal> {
    let Some(count) = runs.repeat.take() else {
        return Ok(Action::Train(runs));
    };
    if runs.verify {
        return Err(Refusal {
            message: "--verify is about one run, --repeat about several".into(),
            span: place(line, "--verify"),
            line: line.to_owned(),
            help: "leave one of them out".into(),
        });
    }
    let force = runs.force.then_some(("force", String::new()));
    let own = [("repeat", count), ("in-order", String::new())];
    Ok(Action::Sweep(SweepRequest {
        runs,
        own: own.into_iter().chain(force).collect(),
        repeats: true,
    }))
}

fn train(parsed: Parsed, line: &str, rest: &str, lists: bool) -> Result<TrainRequest, Refusal> {
    let mut request = TrainRequest::default();
    for (name, value) in parsed.flags {
        match name {
            "output" => request.output = Some(identifier(value, line)?),
            "config" => request.config = Some(value),
            "dry-run" => request.dry_run = true,
            "bg" => request.background = true,
            "force" => request.force = true,
            "verify" => request.verify = true,
            "repeat" => request.repeat = Some(value),
            "set" => match value.split_once('=') {
                Some((key, value)) => request
                    .pairs
                    .push((key.trim().to_owned(), value.trim().to_owned())),
                None => {
                    return Err(Refusal {
                        message: "--set takes KEY=VALUE".into(),
                        span: place(line, &value),
                        line: line.to_owned(),
                        help: "for example --set bound=0.01".into(),
                    });
                }
            },
            key if find_key(key).is_some_and(|key| key.kind == KeyType::Switch) => {
                request.pairs.push((key.to_owned(), "true".into()));
            }
            key => request.pairs.push((key.to_owned(), value)),
        }
    }
    for (key, value) in body::parse(rest, lists)? {
        if key == "output" {
            request.output = Some(identifier(value, rest)?);
        } else {
            request.pairs.push((key, value));
        }
    }
    Ok(request)
}

/// A name that can be bound in Rust.
pub(super) fn identifier(name: String, line: &str) -> Result<String, Refusal> {
    let mut chars = name.chars();
    let starts = chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let taken = KEYWORDS.contains(&name.as_str()) || name.chars().all(|c| c == '_');
    if starts && !taken && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(name);
    }
    let why = if taken {
        ": Rust has it for itself"
    } else {
        ""
    };
    Err(Refusal {
        message: format!("`{name}` cannot be a variable's name{why}"),
        span: place(line, &name),
        line: line
            .lines()
            .find(|l| l.contains(&name))
            .unwrap_or(line)
            .to_owned(),
        help: "use a lower-case name such as r1".into(),
    })
}

/// Words that begin in lower case and are Rust's own, or kept for it.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Where `word` stands in `line`, in characters.
pub(super) fn place(line: &str, word: &str) -> (usize, usize) {
    let at = line.rfind(word).unwrap_or(0);
    (line[..at].chars().count(), word.chars().count())
}
