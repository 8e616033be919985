//! Many strings in one piece of memory, and numbers for them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::Result;
use crate::dataset::{Limit, bad};

/// Strings in order, in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds a string at the end.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `k`, if there are so many.
    pub fn get(&self, k: usize) -> Option<&str> {
        let end = *self.ends.get(k)?;
        let start = k.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|k| self.get(k))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<usize>()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    fn from_iter<I: IntoIterator<Item = S>>(from: I) -> Texts {
        let mut texts = Texts::default();
        from.into_iter().for_each(|s| texts.push(s.as_ref()));
        texts
    }
}

/// Numbers for strings, from 0 in order of their first appearance.
pub(super) struct Dictionary<'l> {
    texts: Texts,
    /// From a string's hash, or the next free one after it, to its number.
    numbers: HashMap<u64, u32>,
    hasher: RandomState,
    limit: &'l Limit,
    file: String,
}

impl<'l> Dictionary<'l> {
    /// An empty one; `file` is for messages.
    pub(super) fn new(file: &str, limit: &'l Limit) -> Dictionary<'l> {
        Dictionary {
            texts: Texts::default(),
            numbers: HashMap::new(),
            hasher: RandomState::new(),
            limit,
            file: file.into(),
        }
    }

    /// The number of `text`, a new one if it was not seen before.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when the strings are more than 32 bits can number, or than the limit.
    pub(super) fn number(&mut self, text: &str) -> Result<u32> {
        let slot = match self.slot(text) {
            Ok(number) => return Ok(number),
            Err(slot) => slot,
        };
        // The text doubles when it grows, and so does the table of numbers.
        let bytes = 2 * text.len() as u64 + 96;
        self.limit.take(bytes, &self.file, "ids")?;
        let number = u32::try_from(self.texts.len())
            .ok()
            .filter(|&n| n < u32::MAX);
        let number = number.ok_or_else(|| {
            let help = "split the graph; vertices are numbered by 32 bits";
            bad(&self.file, "ids", "are more than 4294967295", help)
        })?;
        self.texts.push(text);
        self.numbers.insert(slot, number);
        Ok(number)
    }

    /// The number of `text`, if it was seen before.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.slot(text).ok()
    }

    /// The number of `text`, or where it would be put.
    fn slot(&self, text: &str) -> std::result::Result<u32, u64> {
        let mut slot = self.hasher.hash_one(text);
        while let Some(&number) = self.numbers.get(&slot) {
            if self.texts.get(number as usize) == Some(text) {
                return Ok(number);
            }
            slot = slot.wrapping_add(1);
        }
        Err(slot)
    }

    /// Number of strings.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The strings by number.
    pub(super) fn into_texts(self) -> Texts {
        self.texts
    }
}
