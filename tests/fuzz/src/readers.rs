//! libFuzzer's entry: `HALOBOOK_FUZZ=TARGET readers CORPUS …`. `HALOBOOK_FUZZ_SEEDS=FOLDER readers`
//! writes what is valid of every target to `FOLDER/TARGET/seed` and prints the targets' names, one a
//! line.
//!
//! Unsafe: an allocator that ends the process at an allocation larger than reading may ask for.
#![no_main]
#![allow(unsafe_code)]

mod formats;
mod npy;
mod target;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npy::{array, ints};
use target::Target;

struct Bounded;

// SAFETY: every call is handed to the system's allocator as it came, or ends the process.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > target::ALLOCATION {
            eprintln!("an allocation of {} bytes", layout.size());
            std::process::abort();
        }
        // SAFETY: the caller's promise about `layout`, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `at` and `layout`, unchanged.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

static TARGET: OnceLock<(Target, PathBuf)> = OnceLock::new();

fn chosen() -> (Target, PathBuf) {
    if let Some(folder) = std::env::var_os("HALOBOOK_FUZZ_SEEDS") {
        seeds(Path::new(&folder));
        std::process::exit(0);
    }
    let name = std::env::var("HALOBOOK_FUZZ").unwrap_or_default();
    let found = target::all().into_iter().find(|t| t.name == name);
    let Some(target) = found else {
        eprintln!(
            "error: HALOBOOK_FUZZ={name} is no target; HALOBOOK_FUZZ_SEEDS=FOLDER names them"
        );
        std::process::exit(2);
    };
    let folder = target.prepare();
    (target, folder)
}

fn seeds(folder: &Path) {
    for target in target::all() {
        let to = folder.join(&target.name);
        std::fs::create_dir_all(&to).expect("a folder that can be written");
        std::fs::write(to.join("seed"), target.seed()).expect("a folder that can be written");
        println!("{}", target.name);
    }
}

// Chosen before the fuzzer runs anything: from then on it takes every exit for a finding.
fuzz_target!(
    init: {
        TARGET.get_or_init(chosen);
    },
    |input: &[u8]| {
        let (target, folder) = TARGET.get().expect("the fuzzer was initialised");
        target.run(folder, input);
    }
);
