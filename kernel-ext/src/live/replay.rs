//! `%replay`: a run once more, and whether its bits came back.

use std::path::Path;

use launcher::replay::verdict;
use launcher::store::{self, Manifest, Status};

use super::card::Card;
use super::{Session, lines, program, report, supervised, train};
use crate::front::{Failure, Outcome, Shown};
use crate::magic::Line;
use crate::text::escape;

/// Repeats a run, binds the new one, and says for how many epochs both have the same losses.
pub fn replay(line: &Line, session: &Session<'_>) -> Outcome {
    let [name] = line.args.as_slice() else {
        return Err(Failure::config(
            "%replay needs a run",
            ["help: for example %replay r1 -o again".to_owned()],
        ));
    };
    let of = session
        .run_dir(name)
        .map_err(|error| lines::refused(&error))?;
    let id = store::new_id();
    let mut command = program::halobook();
    command
        .arg("replay")
        .arg(of.file_name().unwrap_or_default());
    command.args(["--json", "--run-id", &id]);
    let output = line.flag("output");
    if line.flag("bg").is_some() {
        return train::leave(&mut command, &id, output, session);
    }
    let mut ended = supervised::watch(&mut command, &id, session)?;
    let run_dir = ended.follower.run_dir().to_owned();
    let Ok(manifest) = Manifest::read(&run_dir) else {
        let (status, stopped) = (ended.status, ended.stopped);
        return Err(train::nothing_started(&ended.stderr, status, stopped));
    };
    ended.follower.close(&manifest);
    let bound = train::bind(output, &id, session);
    if manifest.status != Status::Ok {
        let name = Some(output.unwrap_or("_run"));
        return Err(report::unfinished(&manifest, name));
    }
    bound?;
    finished(&run_dir, &ended.follower.card, &manifest)
}

/// The result of a finished run; of one that repeats another also whether it did so bit by bit,
/// which is a failure where that was promised and did not come true.
pub fn finished(run_dir: &Path, card: &Card, manifest: &Manifest) -> Outcome {
    let shown = report::finished(run_dir, card, manifest);
    // The run that was repeated may have been deleted meanwhile.
    let of = manifest.replays.as_deref().map(store::run_dir);
    let Some(Ok(of)) = of else {
        return Ok(Some(shown));
    };
    let verdict = verdict(&of, run_dir).map_err(|error| lines::refused(&error))?;
    if let Some((what, help)) = verdict.complaint() {
        return Err(Failure::new(
            "HaloReplayDiffers",
            what,
            [
                format!("help: {help}"),
                format!("%diff {} {}", verdict.of, verdict.by),
            ],
        ));
    }
    let said = verdict.to_string();
    let text = |mime: &str| shown.bundle.get(mime).and_then(|text| text.as_str());
    Ok(Some(Shown::html(
        format!("{said}\n{}", text("text/plain").unwrap_or_default()),
        format!(
            "<p>{}</p>{}",
            escape(&said),
            text("text/html").unwrap_or_default()
        ),
    )))
}
