//! `%%check`: claims about what is bound and about the run store.

use launcher::check::{Claim, NEAR, Tolerance, Verdict, read};

use super::{Session, lines, sql};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::CheckRequest;
use crate::text::escape;

/// Judges them all; one that does not hold is the cell's failure.
pub fn check(request: &CheckRequest, session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let claims = read(&request.text).map_err(refused)?;
    let near = Tolerance::Relative(request.tolerance.unwrap_or(NEAR));
    let bound = sql::tables(session);
    let judge = |claim: &Claim| claim.judge(near, &bound).map_err(refused);
    let verdicts = claims.iter().map(judge).collect::<Result<Vec<_>, _>>()?;
    let failed = verdicts.iter().filter(|v| !v.holds).count();
    let of = match &request.figure {
        Some(figure) => format!(" of figure {figure}"),
        None => String::new(),
    };
    let all = verdicts.len();
    if failed == 0 {
        let claims = if all == 1 { "claim" } else { "claims" };
        return Ok(Some(shown(
            &format!("{all} {claims}{of}: all hold"),
            &verdicts,
        )));
    }
    Err(Failure::new(
        "HaloCheckFailed",
        format!("{failed} of {all} claims{of} do not hold"),
        verdicts.iter().map(|verdict| format!("  {verdict}")),
    ))
}

fn shown(heading: &str, verdicts: &[Verdict]) -> Shown {
    let text: Vec<String> = verdicts.iter().map(|v| format!("  {v}")).collect();
    let rows: Vec<String> = verdicts
        .iter()
        .map(|v| format!("<li>{}</li>", escape(&v.to_string())))
        .collect();
    Shown::html(
        format!("{heading}\n{}", text.join("\n")),
        format!("<p>{}</p><ul>{}</ul>", escape(heading), rows.join("")),
    )
}
