//! `%%check`: claims about what is bound and about the run store.

use halobook::Show;
use halobook::paper::Verdicts;
use launcher::check::{Claim, NEAR, Tolerance, read};

use super::{Session, lines, sql};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::CheckRequest;

/// Judges them all; one that does not hold is the cell's failure.
pub fn check(request: &CheckRequest, session: &Session<'_>) -> Outcome {
    let refused = |error: launcher::Error| lines::refused(&error);
    let claims = read(&request.text).map_err(refused)?;
    let near = Tolerance::Relative(request.tolerance.unwrap_or(NEAR));
    let bound = sql::tables(session);
    let judge = |claim: &Claim| claim.judge(near, &bound).map_err(refused);
    let verdicts = claims.iter().map(judge).collect::<Result<Vec<_>, _>>()?;
    let of = request
        .figure
        .as_ref()
        .map(|figure| format!("figure {figure}"));
    let verdicts = Verdicts::new(&of.unwrap_or_default(), verdicts);
    if let Some(failure) = verdicts.failure() {
        let lines = verdicts
            .verdicts()
            .iter()
            .map(|verdict| format!("  {verdict}"));
        return Err(Failure::new("HaloCheckFailed", failure, lines));
    }
    let bundle = verdicts.bundle();
    let form = |mime: &str| bundle.get(mime).unwrap_or_default().to_owned();
    Ok(Some(Shown::html(form("text/plain"), form("text/html"))))
}
