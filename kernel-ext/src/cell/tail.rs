//! The `?` at the very end of a cell, see the prelude's `OrEnd`.

use std::borrow::Cow;

/// The cell with a final `?` written as `.or_end()`, so that the value before it is shown as what
/// it is. Anything doubtful (a comment on the last line) stays as it was.
pub fn with_shown_tail(code: &str) -> Cow<'_, str> {
    let trimmed = code.trim_end();
    let last_line = trimmed.rsplit('\n').next().unwrap_or_default();
    match trimmed.strip_suffix('?') {
        Some(before) if !last_line.contains("//") && !before.trim().is_empty() => {
            Cow::Owned(format!("{before}.or_end(){}", &code[trimmed.len()..]))
        }
        _ => Cow::Borrowed(code),
    }
}

#[cfg(test)]
mod tests {
    use super::with_shown_tail;

    #[test]
    fn only_a_final_question_mark_changes() {
        assert_eq!(
            with_shown_tail("df.lazy().collect()?\n"),
            "df.lazy().collect().or_end()\n"
        );
        assert_eq!(
            with_shown_tail("let a = b()?;\na.c()?"),
            "let a = b()?;\na.c().or_end()"
        );
        for same in ["a.b()?;", "a.b()", "a // why?", "?", "", "let a = b()?;\na"] {
            assert_eq!(with_shown_tail(same), same);
        }
    }
}
