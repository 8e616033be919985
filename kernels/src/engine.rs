//! What multiplies dense matrices on this processor.

use std::sync::OnceLock;

use crate::simd::Level;

/// A SIMD level, and whether products that gain by it use the processor's tiles (AMX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// For vectors.
    pub level: Level,
    /// Whether there are tiles.
    pub(crate) tiles: bool,
}

impl Engine {
    /// The fastest of this processor. With `HALOBOOK_AMX=0` in the environment tiles are left out:
    /// the same bits as on a processor without them.
    pub fn detect() -> Engine {
        static BEST: OnceLock<Engine> = OnceLock::new();
        *BEST.get_or_init(|| {
            let wanted = std::env::var_os("HALOBOOK_AMX").is_none_or(|v| v != "0");
            let level = Level::detect();
            let tiles = wanted && tiles();
            Engine { level, tiles }
        })
    }

    /// All that this processor has, slowest first: each SIMD level, and the widest with tiles.
    pub fn available() -> Vec<Engine> {
        let engine = |tiles| move |level| Engine { level, tiles };
        let mut all: Vec<Engine> = Level::available().into_iter().map(engine(false)).collect();
        all.extend(tiles().then(|| engine(true)(Level::detect())));
        all
    }

    /// The word in tables.
    pub fn label(self) -> String {
        if self.tiles {
            "amx".into()
        } else {
            format!("{:?}", self.level).to_lowercase()
        }
    }
}

fn tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        crate::amx::available()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
