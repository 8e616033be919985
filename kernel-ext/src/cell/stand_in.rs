//! A library that stands in for the prelude's while a cell is linked.
//!
//! The prelude's library exports some hundred thousand symbols, which a linker reads every time: five
//! sixths of what linking a cell takes. The stand-in has the same name and the same description of its
//! crate, and exports nothing; what a cell uses is found when the cell is loaded beside the real one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};

/// Where a dynamic Rust library describes its crate.
const SECTION: &str = ".rustc";

/// Makes the stand-in for `library` in `dir` and gives its path; `linker` is the C compiler.
///
/// # Errors
/// When the library cannot be read, or the C compiler fails.
pub fn make(library: &Path, dir: &Path, linker: &str) -> Result<PathBuf> {
    let name = library.file_name().context("a library has a name")?;
    fs::create_dir_all(dir)?;
    fs::write(dir.join("crate"), described(library)?)?;
    let source = format!(".section {SECTION},\"\",@progbits\n.incbin \"crate\"\n");
    fs::write(dir.join("crate.s"), source)?;
    let said = Command::new(linker)
        .args(["-shared", "-nostdlib", "crate.s", "-o"])
        .arg(name)
        .arg(format!("-Wl,-soname,{}", name.to_string_lossy()))
        .current_dir(dir)
        .output()
        .with_context(|| format!("cannot start {linker}"))?;
    ensure!(
        said.status.success(),
        "{linker} makes no library: {}",
        String::from_utf8_lossy(&said.stderr).trim()
    );
    Ok(dir.join(name))
}

/// The description of its crate in a dynamic Rust library.
fn described(library: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(library)?;
    let file = object::File::parse(&*bytes)?;
    let section = file
        .section_by_name(SECTION)
        .with_context(|| format!("{} describes no crate", library.display()))?;
    Ok(section.data()?.to_vec())
}
