//! How a run ended, on standard output and standard error.

use crate::manifest::{Manifest, Status};
use crate::replay::{Verdict, verdict};
use crate::{MAKE_ROOM, Result, frames, page, store};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// What is said on standard output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// One JSON object.
    Json,
    /// A page of text.
    Page,
    /// Nothing.
    Nothing,
}

impl Said {
    /// By the flags `--json` and `--quiet`.
    pub fn of(json: bool, quiet: bool) -> Said {
        match (json, quiet) {
            (true, _) => Said::Json,
            (false, false) => Said::Page,
            (false, true) => Said::Nothing,
        }
    }
}

/// Says how a run ended; of one that repeats another also whether its bits came back. Returns the
/// exit status that this stands for. Whoever asked may be gone, and then nobody is told: the run is
/// in the store all the same.
///
/// # Errors
/// When the run folder cannot be read.
pub fn tell(run_dir: &Path, manifest: &Manifest, said: Said) -> Result<i32> {
    // The run that was repeated may have been deleted meanwhile.
    let of = manifest.replays.as_deref().map(store::run_dir);
    let verdict = match of {
        Some(Ok(of)) if manifest.status == Status::Ok => Some(verdict(&of, run_dir)?),
        _ => None,
    };
    let text = match said {
        Said::Json => {
            let mut object = result_json(run_dir, manifest);
            if let Some(verdict) = &verdict {
                object["replay"] = verdict_json(verdict);
            }
            format!("{object}\n")
        }
        Said::Page => {
            let verdict = verdict.as_ref().map(|verdict| format!("  {verdict}\n"));
            page::outcome(run_dir, manifest) + &verdict.unwrap_or_default()
        }
        Said::Nothing => String::new(),
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    let broken = verdict.and_then(|verdict| verdict.complaint());
    let (complaint, status) = match broken {
        Some((what, help)) => (
            format!("error: HaloReplayDiffers: {what}\nhelp: {help}\n"),
            1,
        ),
        None => (complaint(manifest), manifest.status.exit_code()),
    };
    let _ = std::io::stderr().write_all(complaint.as_bytes());
    Ok(status)
}

/// The two lines about a run that did not finish, after the end of the failing rank's log.
fn complaint(manifest: &Manifest) -> String {
    let id = &manifest.run_id;
    let Some(error) = &manifest.error else {
        if manifest.status != Status::Interrupted {
            return String::new();
        }
        return format!(
            "error: interrupted after {} epochs\n\
             help: finished epochs are kept: halobook frames {id} epochs\n",
            manifest.epochs_done
        );
    };
    let log: String = error
        .log_tail
        .iter()
        .map(|line| format!("  | {line}\n"))
        .collect();
    let rank = error
        .rank
        .map_or(String::new(), |rank| format!(" --rank {rank}"));
    let help = match error.name.as_str() {
        "HaloStalled" => "raise --stall if the ranks are only slow, or see",
        "HaloTimeout" => "raise --timeout, or see",
        "HaloDiskFull" => &format!("{MAKE_ROOM}; see"),
        _ => "see",
    };
    format!(
        "{log}error: {}: {}\nhelp: {help} halobook log {id}{rank} --tail 50\n",
        error.name, error.message
    )
}

fn result_json(run_dir: &Path, manifest: &Manifest) -> Value {
    // Without a list of the strategy's frames, those of every run are there.
    let names = frames::names_of(run_dir).unwrap_or_else(|_| frames::names());
    let written: Map<String, Value> = names
        .into_iter()
        .map(|name| (frames::path(run_dir, &name), name))
        .filter(|(path, _)| path.exists())
        .map(|(path, name)| (name, path.to_string_lossy().into()))
        .collect();
    let mut object = json!({
        "run_id": manifest.run_id,
        "status": manifest.status,
        "epochs_done": manifest.epochs_done,
        "stopped_early": manifest.stopped_early,
        "resumed": manifest.resumed,
        "final": manifest.result,
        "wall_ms": manifest.wall_ms,
        "frames": written,
    });
    if let Some(error) = &manifest.error {
        object["error"] = json!(error);
    }
    object
}

fn verdict_json(verdict: &Verdict) -> Value {
    json!({
        "of": verdict.of,
        "promised": verdict.promised,
        "same_epochs": verdict.losses.map(|losses| losses.same),
        "shared_epochs": verdict.losses.map(|losses| losses.shared),
        "kept": verdict.is_kept(),
        "changed": verdict.changed,
    })
}
