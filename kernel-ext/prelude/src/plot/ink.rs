//! Colours by role. A plot names what a thing *is*; the two palettes say how that looks.
//!
//! Every series differs from its neighbours in luminance and in dash, so that a grey print
//! still tells them apart; the dark palette is used where the reader's system asks for it.

use plotters::style::Color;
use plotters_backend::BackendColor;

/// A role on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ink(u8);

/// How one role looks on light and on dark paper.
pub(crate) struct Tone {
    pub light: &'static str,
    pub dark: &'static str,
    /// `stroke-dasharray` in px, empty for a solid line.
    pub dash: &'static str,
}

/// Marks our colours among those plotters may bring in by itself.
const TAG: (u8, u8) = (0x48, 0x42);

impl Ink {
    pub const TEXT: Ink = Ink(0);
    pub const FAINT: Ink = Ink(1);
    pub const GRID: Ink = Ink(2);
    pub const CARD: Ink = Ink(3);
    /// An outline for what is not part of the wall time.
    pub const HIDDEN: Ink = Ink(4);
    /// A vertical line where a run ended early.
    pub const STOP: Ink = Ink(5);
    pub const ON_DARK: Ink = Ink(6);
    pub const ON_LIGHT: Ink = Ink(7);
    pub const COMPUTE: Ink = Ink(8);
    pub const COPY: Ink = Ink(9);
    pub const TRANSFER: Ink = Ink(10);
    pub const WAIT: Ink = Ink(11);
    /// Drawn as a hatch.
    pub const OTHER: Ink = Ink(12);
    pub const OWNED: Ink = Ink(13);
    pub const HALO: Ink = Ink(14);
    pub const TRAIN: Ink = Ink(15);
    /// Nothing that is seen: what a pointer over a place reads.
    pub const TIP: Ink = Ink(41);
    /// Steps of the heat scale.
    pub const HEATS: usize = 9;
    /// Line styles before they repeat.
    pub const LINES: usize = 6;

    /// Line style of the `k`-th series; repeats after [`Ink::LINES`].
    pub fn line(k: usize) -> Ink {
        Ink(16 + (k % Self::LINES) as u8)
    }

    /// Heat step `k`, `0` the faintest; larger values saturate.
    pub fn heat(k: usize) -> Ink {
        Ink(32 + k.min(Self::HEATS - 1) as u8)
    }

    /// The role behind a plotters colour; anything foreign is text.
    pub fn of(color: BackendColor) -> Ink {
        let (id, g, b) = color.rgb;
        if (g, b) == TAG && id <= 41 {
            Ink(id)
        } else {
            Ink::TEXT
        }
    }

    /// Number used in class names.
    pub fn id(self) -> u8 {
        self.0
    }

    /// All roles, for the style block.
    pub fn all() -> impl Iterator<Item = Ink> {
        (0..=15).chain(16..22).chain(32..=40).map(Ink)
    }

    pub fn tone(self) -> Tone {
        let (light, dark, dash) = match self.0 {
            0 => ("#1d2126", "#e9ebee", ""),
            1 => ("#59616b", "#a9b1bb", ""),
            2 => ("#dde0e4", "#3a3f46", ""),
            3 => ("#fcfcfb", "#1c1f23", ""),
            4 => ("#3d444d", "#d5dae0", "3 2"),
            5 => ("#b3261e", "#ff8a80", "5 3"),
            6 => ("#ffffff", "#ffffff", ""),
            7 => ("#16202b", "#16202b", ""),
            8 => ("#1f4e8c", "#3d74c4", ""),
            9 => ("#2e8f8a", "#55a199", ""),
            10 => ("#ec8b33", "#f2a65a", ""),
            11 => ("#f8dd83", "#fbe9a9", ""),
            12 => ("#7b838d", "#9aa3ad", ""),
            13 => ("#111418", "#f4f5f6", ""),
            14 => ("#c2571a", "#ffab70", ""),
            15 => ("#6b7d1f", "#c5d86d", ""),
            16 => ("#1f4e8c", "#6ea6ef", ""),
            17 => ("#d9761f", "#f6b26b", "7 3"),
            18 => ("#22857c", "#6fd0c2", "2 2"),
            19 => ("#9c2f6e", "#f08fc4", "9 3 2 3"),
            20 => ("#6a7a18", "#cfe07a", "4 2"),
            21 => ("#5b5f66", "#c0c5cc", "12 3"),
            32 => ("#f3efdc", "#f3efdc", ""),
            33 => ("#e6dfae", "#e6dfae", ""),
            34 => ("#c5d39a", "#c5d39a", ""),
            35 => ("#97c295", "#97c295", ""),
            36 => ("#63ab97", "#63ab97", ""),
            37 => ("#3a8f97", "#3a8f97", ""),
            38 => ("#28708f", "#28708f", ""),
            39 => ("#234f7d", "#234f7d", ""),
            _ => ("#1b2f5e", "#1b2f5e", ""),
        };
        Tone { light, dark, dash }
    }
}

impl Color for Ink {
    fn to_backend_color(&self) -> BackendColor {
        BackendColor {
            rgb: (self.0, TAG.0, TAG.1),
            alpha: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG) of `#rrggbb`.
    fn luminance(hex: &str) -> f64 {
        let part = |i: usize| {
            let v = u8::from_str_radix(&hex[i..i + 2], 16).expect("palette is hex") as f64 / 255.0;
            if v <= 0.03928 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_read_on_both_cards() {
        let card = Ink::CARD.tone();
        for ink in [Ink::TEXT, Ink::FAINT, Ink::STOP] {
            let tone = ink.tone();
            assert!(contrast(tone.light, card.light) >= 4.5, "{ink:?} light");
            assert!(contrast(tone.dark, card.dark) >= 4.5, "{ink:?} dark");
        }
        for k in 0..Ink::HEATS {
            let (ink, heat) = (super::super::matrix_grid::ink_on(k), Ink::heat(k));
            assert!(contrast(ink.tone().light, heat.tone().light) >= 4.0, "{k}");
        }
    }

    #[test]
    fn stacked_parts_differ_in_grey() {
        let parts = [Ink::COMPUTE, Ink::COPY, Ink::TRANSFER, Ink::WAIT];
        for pair in parts.windows(2) {
            let (a, b) = (pair[0].tone(), pair[1].tone());
            assert!(contrast(a.light, b.light) >= 1.5, "{pair:?} light");
            assert!(contrast(a.dark, b.dark) >= 1.25, "{pair:?} dark");
        }
    }

    #[test]
    fn a_role_survives_plotters() {
        for ink in Ink::all() {
            assert_eq!(Ink::of(ink.to_backend_color()), ink);
        }
        assert_eq!(Ink::of(plotters::style::RED.to_backend_color()), Ink::TEXT);
    }
}
