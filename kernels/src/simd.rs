//! SIMD level of this processor, and the macro that compiles one body for each level.
//!
//! The same operations in the same order run at every level; only [`crate::spmm`] uses fused
//! multiply-add where the processor has it, so its results may differ in the last bits between
//! machines with and without it, never between thread counts.

/// What the processor offers, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the compiler may assume on every machine of this architecture.
    Scalar,
    /// 8 lanes with fused multiply-add (x86-64).
    Avx2,
    /// 16 lanes with fused multiply-add (x86-64).
    Avx512,
}

impl Level {
    /// The widest level this processor supports. The detection is cached by the standard library.
    pub fn detect() -> Level {
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
        Level::Scalar
    }

    /// All levels this processor supports, narrowest first; tests run each of them.
    pub fn available() -> Vec<Level> {
        let best = Level::detect();
        [Level::Scalar, Level::Avx2, Level::Avx512]
            .into_iter()
            .filter(|&l| l <= best)
            .collect()
    }
}

/// Compiles a plain loop once per SIMD level and picks one at run time.
macro_rules! multiversion {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        fn $name($($arg: $ty),*) $(-> $ret)? {
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
                    $crate::simd::Level::Scalar => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use multiversion;
