//! Cells' texts with random changes, through everything that reads one before a compiler does.
//!
//! Can catch: a panic, an offset inside a character, a rewritten cell with other lines. Cannot catch: a stack that
//! overflows, which ends the test's process (that is `depth`). `HALOBOOK_RANDOM_INPUTS` is how many texts are tried.

use gnn_core::at_random::{Dice, inputs};

use crate::cell::rewritten;
use crate::magic::{self, complete};
use crate::{depth, text};

const TEXTS: u64 = 3_000;

/// The same with `HALOBOOK_SOAK=1`.
const MANY: u64 = 10_000_000;

/// What people write.
const CELLS: [&str; 12] = [
    "%%gnn -n 4 -s neutrontp -o r1\ndata = \"karate\"\nmodel = gcn; epochs = 20; hidden = [16, 32]\n",
    "%%sweep -o sw\nseed = [0, 1, 2]\nlr = 1e-2\n# said\n",
    "%%sql -o t\nSELECT rank, AVG(wait_ms) FROM r1_ranks WHERE epoch > 0 GROUP BY rank -- end\n",
    "%%check --figure 7\n\"is exact\": r1.test ~ r2.test +- 0.001\n",
    "%%ranks -n 2 --all\nlet mine = rank() * 2;\nreduce_sum(mine)\n",
    "%plot r1 curve --bare -o 'a b.svg'\nlet n = 7;\nn\n",
    "%plot \"t.clone().lazy()\" bar --x ranks --y epoch_ms\n",
    "let t = df!(\"a\" => [1, 2, 3])?;\nt.column(\"a\")?.i32()?.sum()\n",
    "for k in 0..10 { print!(\"{k} \"); }\nlet v: Vec<_> = (0..9).map(|x| { x * 2 }).filter(|x| f(x)?).collect();\n",
    "struct S<'a, T: Clone> { at: &'a [T] }\nimpl<'a, T: Clone> S<'a, T> { fn go(&self) -> Option<T> { self.at.first().cloned() } }\n",
    "let s = r#\"raw \" text\"#; let c = '\\u{1F600}'; let l: &'static str = \"\\\"\"; // été\n/* a /* nested */ one */\n",
    ":dep rand = \"0.9\"\nuse std::collections::HashMap;\nlet m: HashMap<String, u8> = HashMap::new(); m.get(\"x\").copied()\n",
];

const PIECES: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "'",
    "?",
    "|",
    "||",
    "<",
    ">",
    "\n",
    "%",
    "%%",
    "\\",
    "//",
    "/*",
    "r#\"",
    "é",
    "\u{1F600}",
    "\0",
    "=",
];

/// Texts of a seed.
struct Texts(Dice);

impl Texts {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    /// A place between two characters.
    fn place(&mut self, text: &str) -> usize {
        let at = self.below(text.len() + 1);
        (0..=at)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0)
    }

    fn text(&mut self) -> String {
        let mut text = CELLS[self.below(CELLS.len())].to_owned();
        for _ in 0..=self.below(4) {
            let (a, b) = (self.place(&text), self.place(&text));
            let (from, to) = (a.min(b), a.max(b));
            match self.below(4) {
                0 => text.replace_range(from..to, ""),
                1 => text.insert_str(from, PIECES[self.below(PIECES.len())]),
                2 => {
                    let part = text[from..to].to_owned();
                    text.insert_str(to, &part);
                }
                _ => {
                    let other = CELLS[self.below(CELLS.len())];
                    let end = self.place(other);
                    text.insert_str(from, &other[..end]);
                }
            }
        }
        text
    }
}

#[test]
fn no_text_is_too_strange_to_be_read() {
    let texts = inputs(TEXTS, MANY);
    let variables = ["t", "r1", "m"].map(|name| (name.to_owned(), "DataFrame".to_owned()));
    let names = |_| vec!["karate".to_owned()];
    for number in 0..texts {
        let mut texts = Texts(Dice::new(number));
        let cell = texts.text();
        let at = texts.place(&cell);
        // Whatever comes out, it comes: the words of errors are tested where they are made.
        let _ = magic::completeness(&cell);
        let _ = complete::at(&cell, at, &names);
        let _ = text::word_at(&cell, at);
        let blank = magic::rust_only(&cell);
        assert_eq!(blank.len(), cell.len(), "text {number}: {cell:?}");
        if depth::is_too_deep(&cell) {
            continue;
        }
        let written = rewritten(&cell, &variables);
        let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
        assert_eq!(
            lines(&written),
            lines(&cell),
            "text {number}: {cell:?} became {written:?}"
        );
    }
}
