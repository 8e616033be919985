//! The body of `%%gnn` and of `%%sweep`: typed `key = value` pairs.

use super::action::Refusal;

/// Reads the pairs, one or several (`;`) on a line.
///
/// # Errors
/// A piece that is no pair or whose value is no TOML, or a list where `lists` are not wanted.
pub fn parse(body: &str, lists: bool) -> Result<Vec<(String, String)>, Refusal> {
    each(body, |text| pair(text, lists))
}

/// The parameters of a `%%params` cell: names in Rust, and values of TOML.
///
/// # Errors
/// As [`parse`].
pub fn typed(body: &str) -> Result<Vec<(String, toml::Value)>, Refusal> {
    each(body, |text| {
        let help = "write for example: epochs = 60, data = \"karate\" or ranks = [1, 2]";
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let (name, value) = (name.trim(), value.trim());
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !starts || !plain {
            let what = format!("`{name}` cannot be a variable's name");
            return Err((what, help.into()));
        }
        let table: Result<toml::Table, _> = toml::from_str(&format!("value = {value}"));
        let read = table.ok().and_then(|mut table| table.remove("value"));
        let value = read.ok_or_else(|| (format!("`{value}` is no value"), help.into()))?;
        Ok((name.to_owned(), value))
    })
}

/// What `read` makes of every piece that is not empty; it says what is wrong and what to do.
fn each<T>(
    body: &str,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Result<Vec<T>, Refusal> {
    let mut all = Vec::new();
    for line in body.lines() {
        for (at, piece) in pieces(line) {
            let text = piece.trim();
            if text.is_empty() {
                continue;
            }
            let start = at + piece.chars().take_while(|c| c.is_whitespace()).count();
            all.push(read(text).map_err(|(message, help)| Refusal {
                message,
                line: line.to_owned(),
                span: (start, text.chars().count()),
                help,
            })?);
        }
    }
    Ok(all)
}

/// The pieces between `;`, outside quotes, each with its place in characters. Comments (`#`,
/// `//`) end the line.
fn pieces(line: &str) -> Vec<(usize, String)> {
    let mut pieces = vec![(0, String::new())];
    let mut quote: Option<char> = None;
    let mut chars = line.chars().enumerate().peekable();
    while let Some((at, c)) = chars.next() {
        match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
            }
            None => match c {
                '"' | '\'' => quote = Some(c),
                '#' => break,
                '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => break,
                ';' => {
                    pieces.push((at + 1, String::new()));
                    continue;
                }
                _ => {}
            },
        }
        if let Some((_, piece)) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces
}

fn pair(text: &str, lists: bool) -> Result<(String, String), (String, String)> {
    let Some((key, value)) = text.split_once('=') else {
        return Err((
            format!("`{text}` is no `key = value`"),
            "write for example: epochs = 60".into(),
        ));
    };
    let (key, value) = (key.trim(), value.trim());
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.is_empty() || !key.chars().all(bare) {
        return Err((format!("`{key}` is no key"), String::new()));
    }
    let parameter = value.strip_prefix('$').is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    if parameter {
        // Filled in when the cell is run.
        return Ok((key.replace('_', "-"), value.to_owned()));
    }
    let table: toml::Table = toml::from_str(&format!("value = {value}")).map_err(|_| {
        let word = value
            .chars()
            .all(|c| c.is_alphanumeric() || "-_.:,=/".contains(c));
        let help = if word && !value.is_empty() {
            format!("a text needs quotes: {key} = \"{value}\"")
        } else if lists {
            "values are numbers, true, false, \"text\" or a list of them: [1, 2, 4]".into()
        } else {
            "values are numbers, true, false or \"text\"".into()
        };
        (format!("`{value}` is no value"), help)
    })?;
    let value = match table.get("value") {
        Some(toml::Value::String(text)) => text.clone(),
        Some(toml::Value::Integer(_) | toml::Value::Boolean(_)) => value.replace('_', ""),
        // As written: 5e-4 stays 5e-4.
        Some(toml::Value::Float(_)) => value.replace('_', ""),
        Some(toml::Value::Array(_)) if lists => value.to_owned(),
        Some(toml::Value::Array(_)) => {
            return Err((
                format!("`{key}` takes one value"),
                "%%sweep trains every value of a list".into(),
            ));
        }
        _ => {
            return Err((
                format!("`{key}` takes a number, true, false or a text"),
                String::new(),
            ));
        }
    };
    Ok((key.replace('_', "-"), value))
}
