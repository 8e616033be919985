//! SIMD level of this processor, and the macro that compiles one body for each level.
//!
//! Plain loops run the same operations in the same order at every level. The gather kernels (SpMM,
//! attention: everything on `vector`) fuse multiplications and additions where the processor can
//! and sum dot products in as many lanes as it has, so their results may differ in the last bits
//! between levels, never between thread counts. Dense products may use tiles besides
//! ([`crate::engine`]).

use std::sync::{LazyLock, OnceLock};

/// What the processor offers, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the compiler may assume on every machine of this architecture.
    Scalar,
    /// Plain loops too: NEON is part of every aarch64, so the compiler vectorises them with it.
    Neon,
    /// 8 lanes with fused multiply-add (x86-64).
    Avx2,
    /// 16 lanes with fused multiply-add (x86-64).
    Avx512,
}

impl Level {
    /// The widest level this processor supports, or the one that `HALOBOOK_SIMD` names (`scalar`, `avx2`,
    /// `avx512`) if that is narrower: what a processor without the wider ones would do.
    pub fn detect() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| {
            let named = std::env::var("HALOBOOK_SIMD").unwrap_or_default();
            let wanted = match named.as_str() {
                "scalar" => Level::Scalar,
                "avx2" => Level::Avx2,
                _ => Level::Avx512,
            };
            // NEON is wider than scalar and has no other name here.
            Level::of_processor().min(wanted)
        })
    }

    /// The widest level this processor supports.
    fn of_processor() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f")
                && std::arch::is_x86_feature_detected!("avx512dq")
                && std::arch::is_x86_feature_detected!("avx512vl")
                && std::arch::is_x86_feature_detected!("avx512bw")
            {
                return Level::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                return Level::Avx2;
            }
        }
        if cfg!(target_arch = "aarch64") {
            return Level::Neon;
        }
        Level::Scalar
    }

    /// All levels this processor supports, narrowest first; tests run each of them.
    pub fn available() -> Vec<Level> {
        let best = Level::detect();
        let narrower: &[Level] = if cfg!(target_arch = "x86_64") {
            &[Level::Scalar, Level::Avx2, Level::Avx512]
        } else {
            &[Level::Scalar, Level::Neon]
        };
        narrower.iter().copied().filter(|&l| l <= best).collect()
    }
}

/// Whether AMD made this processor, which wants more to be prefetched than others.
pub(crate) static AMD: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // The vendor's name, in the order of these registers.
        let id = std::arch::x86_64::__cpuid(0);
        let name = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes);
        name.as_flattened() == b"AuthenticAMD"
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
});

/// Compiles a plain loop once per SIMD level and picks one at run time.
///
/// A first argument written `level: Level` leaves the choice to the caller, so that tests can run
/// every level: the processor must support the level given.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident(level: Level $(, $arg:ident: $ty:ty)* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name(level: $crate::simd::Level $(, $arg: $ty)*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(not(target_arch = "x86_64"))]
            let _ = level;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
                fn avx512($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                debug_assert!(level <= $crate::simd::Level::detect());
                match level {
                    // SAFETY: the caller's level is one that `Level::detect` or `Level::available`
                    // returned, so the processor has its features.
                    $crate::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::simd::Level::Neon | $crate::simd::Level::Scalar => {}
                }
            }
            body($($arg),*)
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
                fn avx512($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
                match $crate::simd::Level::detect() {
                    // SAFETY: `Level::detect` returned this level, so the processor has its features.
                    $crate::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::simd::Level::Neon | $crate::simd::Level::Scalar => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use multiversion;
