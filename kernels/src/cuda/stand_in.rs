//! The host as GPUs, for tests and for those who want to see what training on several would do:
//! `HALOBOOK_CUDA=shim:4` executes CUDA's kernels and NCCL's calls on the processor, as if this machine had
//! four GPUs; `shim:4:64000000` gives each so many bytes of memory.

use super::{Device, Error, Shim};
use std::sync::Arc;

/// What stands in for GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StandIn {
    /// How many there are.
    pub(super) devices: usize,
    /// Bytes of memory of each; as many as the host has where none are named.
    pub(super) bytes: Option<usize>,
}

impl StandIn {
    /// What the environment asks for.
    pub(super) fn asked() -> Result<Option<StandIn>, Error> {
        match std::env::var("HALOBOOK_CUDA") {
            Ok(words) if !words.is_empty() => StandIn::parse(&words).map(Some),
            _ => Ok(None),
        }
    }

    fn parse(words: &str) -> Result<StandIn, Error> {
        let mut parts = words.split(':');
        let shim = parts.next() == Some("shim");
        let numbers: Vec<Option<usize>> = parts.map(|n| n.parse().ok()).collect();
        match numbers[..] {
            [] if shim => Ok(StandIn {
                devices: 1,
                bytes: None,
            }),
            [Some(devices @ 1..)] if shim => Ok(StandIn {
                devices,
                bytes: None,
            }),
            [Some(devices @ 1..), bytes @ Some(_)] if shim => Ok(StandIn { devices, bytes }),
            _ => Err(Error::Missing {
                what: "HALOBOOK_CUDA cannot be read",
                reason: format!("expected shim, shim:DEVICES or shim:DEVICES:BYTES, got {words:?}"),
            }),
        }
    }

    /// Opens one.
    pub(super) fn open(self, ordinal: usize) -> Result<Arc<Device>, Error> {
        if ordinal >= self.devices {
            let count = self.devices;
            return Err(Error::no_such_gpu(ordinal, count));
        }
        let shim = Shim::open(false)?;
        let shim = match self.bytes {
            Some(bytes) => shim.of_memory(bytes),
            None => shim,
        };
        Ok(Device::new(Box::new(shim)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_devices_and_their_memory() {
        let read = |words| StandIn::parse(words).map(|s| (s.devices, s.bytes));
        assert_eq!(read("shim"), Ok((1, None)));
        assert_eq!(read("shim:4"), Ok((4, None)));
        assert_eq!(read("shim:2:1000"), Ok((2, Some(1000))));
        for wrong in [
            "",
            "gpu",
            "shim:0",
            "shim:x",
            "shim:2:",
            "shim:2:3:4",
            "sham:2",
        ] {
            let said = read(wrong).expect_err(wrong).to_string();
            assert!(said.contains("shim:DEVICES:BYTES"), "{said}");
        }
    }
}
