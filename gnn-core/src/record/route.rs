//! What was copied between a device, the host and a disk, by route.

use super::phase::labels;

labels! {
    /// Where bytes are copied to and from, by somebody who keeps a device and the host apart.
    Route {
        /// From the host to the device.
        HostToDevice => "to_device",
        /// Back.
        DeviceToHost => "to_host",
        /// Within the device.
        OnDevice => "on_device",
        /// Added up on the host, of what comes back.
        OnHost => "on_host",
        /// From a disk behind the host.
        FromDisk => "from_disk",
        /// To it.
        ToDisk => "to_disk",
    }
}

/// What was copied along one route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Payload bytes.
    pub bytes: u64,
    /// Nanoseconds of copying.
    pub ns: u64,
}

/// What was copied along every route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copies(pub(super) [Copied; 6]);

impl std::ops::Index<Route> for Copies {
    type Output = Copied;
    fn index(&self, route: Route) -> &Copied {
        &self.0[route as usize]
    }
}
