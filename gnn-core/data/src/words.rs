//! Enums whose values are words, each word written once.

/// Gives an enum its table of words: all values, their names, and the way back.
#[macro_export]
macro_rules! words {
    ($kind:ident { $($value:ident $word:literal),* $(,)? }) => {
        impl $kind {
            /// Every value.
            pub const ALL: &'static [$kind] = &[$($kind::$value),*];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($word),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$value => $word),*
                }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<$kind> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}
