//! The `copies` frame of strategies that keep a device apart from the host.

use crate::ctx::Ctx;
use crate::frame;
use crate::record::frame::words;
use crate::record::{Copies, Route};
use serde::Deserialize;

words!(Route);

frame! {
    /// What one rank copied along one route in an epoch's training.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    CopiesRow in "copies" {
        /// From where to where.
        route: Route,
        /// Bytes of rows and lists.
        bytes: u64,
        /// Time of copying.
        copy_ms: f64,
        /// The most that the device has held since the run began.
        dev_mem_peak_bytes: u64,
    }
}

/// Writes what an epoch copied: a row for each route to, from and within the device, and for others that were
/// taken; nothing without a budgeted device.
pub(crate) fn note(cx: &Ctx, taken: Copies) {
    let Some(dev_mem_peak_bytes) = cx.meter().most_on_device() else {
        return;
    };
    let always = [Route::HostToDevice, Route::DeviceToHost, Route::OnDevice];
    for &route in Route::ALL {
        let copied = taken[route];
        if copied.bytes == 0 && !always.contains(&route) {
            continue;
        }
        cx.row(CopiesRow {
            route,
            bytes: copied.bytes,
            copy_ms: copied.ns as f64 / 1e6,
            dev_mem_peak_bytes,
        });
    }
}
