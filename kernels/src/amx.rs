//! The matrix extension of x86-64 (AMX): eight tile registers of 16 rows by 64 bytes.
//!
//! Tiles multiply bf16 pairs and add in `f32`. [`crate::amx_split`] writes an `f32` as the sum of
//! three bf16 numbers, exactly, and [`Tiles::wide`] adds the six largest products of parts. The
//! three left out are together at most little more than 2⁻²³ of a product, its last bit, and of either
//! sign; sums of products have errors like those of fused `f32` multiply-adds ([`crate::gemm`] has
//! measurements). 32 × 32 × 32 of them take 24 tile instructions of 16 cycles, where vectors of 16
//! lanes, two a cycle, take 1024 cycles.
//!
//! Numbers below 2⁻¹²⁶ count as zero, and an operand that is not finite makes the products it
//! takes part in NaN (a vector product could give an infinity).
//!
//! Unsafe: inline assembly on registers that the compiler never uses, and pointers.
#![allow(unsafe_code)]

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::simd::Level;

/// Words (pairs of bf16) of a tile.
pub(crate) const TILE: usize = 256;

/// Inner indices of one step: two in each word of a tile's row.
pub(crate) const INNER: usize = 32;

/// Rows and columns of a wide block of the output, two tiles by two.
pub(crate) const BLOCK: usize = 32;

/// Words of one operand of a step: three parts of two tiles.
pub(crate) const STEP: usize = 3 * 2 * TILE;

/// Lines that are asked for in one step at most: a step takes hundreds of cycles.
pub(crate) const LINES: usize = 24;

/// Whether this process may use tiles: the processor has them and the system grants them.
pub(crate) fn available() -> bool {
    static IT: OnceLock<bool> = OnceLock::new();
    *IT.get_or_init(|| Level::detect() == Level::Avx512 && processor_has_it() && system_grants_it())
}

/// AMX-TILE and AMX-BF16.
fn processor_has_it() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    __cpuid(0).eax >= 7 && {
        let features = __cpuid_count(7, 0).edx;
        features & BF16 != 0 && features & TILE != 0
    }
}

/// Linux saves the tiles of a process that asked for them.
fn system_grants_it() -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: a system call that only changes what the kernel saves for this process; the
    // registers it overwrites are named.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST,
            in("rsi") TILE_DATA, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result == 0
}

/// Shapes of the eight tiles: 16 rows of 64 bytes each.
#[repr(C, align(64))]
struct Shapes([u8; 64]);

static SHAPES: Shapes = {
    let mut s = [0; 64];
    s[0] = 1;
    let mut t = 0;
    while t < 8 {
        s[16 + 2 * t] = 64;
        s[48 + t] = 16;
        t += 1;
    }
    Shapes(s)
};

/// The tiles of this thread, from [`Tiles::begin`] until it is dropped. Tiles 0 to 3 hold a block
/// of the output, two rows of tiles by two columns; 4 and 5 the left operand, 6 and 7 the right.
pub(crate) struct Tiles(PhantomData<*const ()>);

impl Tiles {
    /// Takes the tiles.
    ///
    /// # Panics
    /// When they are not [`available`].
    pub(crate) fn begin() -> Tiles {
        assert!(available(), "amx: this process has no tiles");
        // SAFETY: the process may use tiles, and the table is one of valid shapes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
        Tiles(PhantomData)
    }

    /// Zeroes the block.
    #[inline(always)]
    pub(crate) fn zero(&mut self) {
        // SAFETY: `self` says that the tiles are configured, here and below.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nostack, nomem)
            );
        }
    }

    /// Loads the block from rows `stride` floats apart; one column of tiles unless `wide`.
    ///
    /// # Safety
    /// `from` reaches 32 rows of 32 floats, of 16 unless `wide`.
    #[inline(always)]
    pub(crate) unsafe fn load(&mut self, from: *const f32, stride: usize, wide: bool) {
        // SAFETY: the caller's rows.
        unsafe {
            asm!("tileloadd tmm0, [{p} + {s}]", "tileloadd tmm2, [{q} + {s}]", p = in(reg) from,
                q = in(reg) from.wrapping_add(16 * stride), s = in(reg) 4 * stride,
                options(nostack, readonly));
            if wide {
                asm!("tileloadd tmm1, [{p} + {s} + 64]", "tileloadd tmm3, [{q} + {s} + 64]",
                    p = in(reg) from, q = in(reg) from.wrapping_add(16 * stride),
                    s = in(reg) 4 * stride, options(nostack, readonly));
            }
        }
    }

    /// Stores the block to rows `stride` floats apart; one column of tiles unless `wide`.
    ///
    /// # Safety
    /// `to` reaches 32 rows of 32 floats, of 16 unless `wide`, and nothing else accesses them.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, to: *mut f32, stride: usize, wide: bool) {
        // SAFETY: the caller's rows.
        unsafe {
            asm!("tilestored [{p} + {s}], tmm0", "tilestored [{q} + {s}], tmm2", p = in(reg) to,
                q = in(reg) to.wrapping_add(16 * stride), s = in(reg) 4 * stride,
                options(nostack));
            if wide {
                asm!("tilestored [{p} + {s} + 64], tmm1", "tilestored [{q} + {s} + 64], tmm3",
                    p = in(reg) to, q = in(reg) to.wrapping_add(16 * stride),
                    s = in(reg) 4 * stride, options(nostack));
            }
        }
    }

    /// Adds one step of [`INNER`] indices to the whole block: the products of parts (1, 1),
    /// (0, 1), (0, 2), (0, 0), (1, 0) and (2, 0), an order with few loads.
    ///
    /// # Safety
    /// Both operands reach [`STEP`] words, parts of [`crate::amx_split`].
    #[inline(always)]
    pub(crate) unsafe fn wide(&mut self, a: *const u32, b: *const u32) {
        // SAFETY: the caller's operands.
        unsafe {
            asm!(
                "tileloadd tmm4, [{a} + {s} + 2048]",
                "tileloadd tmm6, [{b} + {s} + 2048]",
                "tileloadd tmm7, [{b} + {s} + 3072]",
                "tileloadd tmm5, [{a} + {s} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{a} + {s}]",
                "tileloadd tmm5, [{a} + {s} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{b} + {s} + 4096]",
                "tileloadd tmm7, [{b} + {s} + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm6, [{b} + {s}]",
                "tileloadd tmm7, [{b} + {s} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{a} + {s} + 2048]",
                "tileloadd tmm5, [{a} + {s} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm4, [{a} + {s} + 4096]",
                "tileloadd tmm5, [{a} + {s} + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                a = in(reg) a,
                b = in(reg) b,
                s = in(reg) 64usize,
                options(nostack, readonly)
            );
        }
    }

    /// [`Tiles::wide`] for the first column of tiles alone.
    ///
    /// # Safety
    /// As [`Tiles::wide`].
    #[inline(always)]
    pub(crate) unsafe fn narrow(&mut self, a: *const u32, b: *const u32) {
        // SAFETY: the caller's operands.
        unsafe {
            asm!(
                "tileloadd tmm4, [{a} + {s} + 2048]",
                "tileloadd tmm5, [{a} + {s} + 3072]",
                "tileloadd tmm6, [{b} + {s} + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tileloadd tmm1, [{a} + {s}]",
                "tileloadd tmm3, [{a} + {s} + 1024]",
                "tdpbf16ps tmm0, tmm1, tmm6",
                "tdpbf16ps tmm2, tmm3, tmm6",
                "tileloadd tmm7, [{b} + {s} + 4096]",
                "tdpbf16ps tmm0, tmm1, tmm7",
                "tdpbf16ps tmm2, tmm3, tmm7",
                "tileloadd tmm6, [{b} + {s}]",
                "tdpbf16ps tmm0, tmm1, tmm6",
                "tdpbf16ps tmm2, tmm3, tmm6",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tileloadd tmm1, [{a} + {s} + 4096]",
                "tileloadd tmm3, [{a} + {s} + 5120]",
                "tdpbf16ps tmm0, tmm1, tmm6",
                "tdpbf16ps tmm2, tmm3, tmm6",
                a = in(reg) a,
                b = in(reg) b,
                s = in(reg) 64usize,
                options(nostack, readonly)
            );
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: tiles without a configuration are as they were before `begin`.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}
