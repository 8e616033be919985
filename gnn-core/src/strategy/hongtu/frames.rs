//! The `transfers` frame: what moved between hosts and devices.

use super::batches::Volumes;
use super::trainer::HongTu;
use crate::ctx::Ctx;
use crate::device::CopiesRow;
use crate::frame;
use crate::record::Route;
use crate::record::frame::{FrameDef, FrameRow};
use serde::Deserialize;

frame! {
    /// What a rank's device moved in an epoch's training, and what it would have moved otherwise.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    TransfersRow in "transfers" {
        /// Chunks of each device.
        chunks: u32,
        /// Time in which chunks were made and put into their order (`reorganise`), ms: before the first epoch,
        /// or of an earlier run, since orders are kept like cuts.
        reorganise_ms: f64,
        /// Rows that all devices load in a layer where each chunk loads all its neighbours: V_ori.
        rows_original: u64,
        /// The same where each batch loads them once: V_+p2p.
        rows_peer: u64,
        /// The same where what the batch before has loaded stays: V_+ru.
        rows_reused: u64,
        /// Rows that this rank's host gives in a layer.
        rows_loaded: u64,
        /// Rows that this rank's device fetches of other devices in a layer.
        rows_fetched: u64,
        /// Bytes of rows from host to device.
        h2d_bytes: u64,
        /// Time of them, ms; of those that are made ahead (`overlap`), the time of waiting.
        h2d_ms: f64,
        /// Time of copies that were made ahead, beside other work, ms.
        h2d_hidden_ms: f64,
        /// Bytes of rows from device to host.
        d2h_bytes: u64,
        /// Time of them, ms.
        d2h_ms: f64,
        /// Time of what the host adds up of them, ms.
        host_add_ms: f64,
        /// Bytes of rows that were brought together within the device.
        on_device_bytes: u64,
        /// Time of them, ms.
        on_device_ms: f64,
        /// Bytes read from a disk behind the host.
        disk_read_bytes: u64,
        /// Bytes written to it.
        disk_written_bytes: u64,
        /// Time that it took to read and to write, ms, most of which the rank does something else.
        disk_ms: f64,
        /// Time for which the rank waited for it, ms.
        disk_wait_ms: f64,
        /// The most that the host has held of rows, gradients and edges, where it has a budget.
        host_mem_peak_bytes: Option<u64>,
    }
}

/// The strategy's frames.
pub(super) const FRAMES: &[FrameDef] = &[TransfersRow::FRAME, CopiesRow::FRAME];

impl TransfersRow {
    /// Of an epoch that moved nothing, of which so much would have moved.
    pub(super) fn of_nothing(volumes: Volumes) -> TransfersRow {
        TransfersRow {
            chunks: 1,
            reorganise_ms: 0.0,
            rows_original: volumes.original,
            rows_peer: volumes.peer,
            rows_reused: volumes.reused,
            rows_loaded: 0,
            rows_fetched: 0,
            h2d_bytes: 0,
            h2d_ms: 0.0,
            h2d_hidden_ms: 0.0,
            d2h_bytes: 0,
            d2h_ms: 0.0,
            host_add_ms: 0.0,
            on_device_bytes: 0,
            on_device_ms: 0.0,
            disk_read_bytes: 0,
            disk_written_bytes: 0,
            disk_ms: 0.0,
            disk_wait_ms: 0.0,
            host_mem_peak_bytes: None,
        }
    }
}

/// Writes what an epoch moved.
pub(super) fn note(cx: &Ctx, of: &HongTu) {
    let copies = cx.meter().copies_so_far();
    let volumes = of.batches.volumes;
    let pages = of.host.pages();
    let disk = pages.map(|pages| pages.disk()).unwrap_or_default();
    let ms = |route: Route| copies[route].ns as f64 / 1e6;
    cx.row(TransfersRow {
        chunks: of.batches.all.len() as u32,
        reorganise_ms: of.reorganise_ms,
        rows_original: volumes.original,
        rows_peer: volumes.peer,
        rows_reused: volumes.reused,
        rows_loaded: volumes.loaded,
        rows_fetched: volumes.fetched,
        h2d_bytes: copies[Route::HostToDevice].bytes,
        h2d_ms: ms(Route::HostToDevice),
        h2d_hidden_ms: of.tier.take_hidden(cx) as f64 / 1e6,
        d2h_bytes: copies[Route::DeviceToHost].bytes,
        d2h_ms: ms(Route::DeviceToHost),
        host_add_ms: ms(Route::OnHost),
        on_device_bytes: copies[Route::OnDevice].bytes,
        on_device_ms: ms(Route::OnDevice),
        disk_read_bytes: disk.read,
        disk_written_bytes: disk.written,
        disk_ms: disk.ns as f64 / 1e6,
        disk_wait_ms: disk.waited as f64 / 1e6,
        host_mem_peak_bytes: pages.map(|pages| pages.most() + of.on_host(of.lists.is_some())),
    });
}
