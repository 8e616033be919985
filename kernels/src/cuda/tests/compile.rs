//! Every file compiles for every architecture.

use super::skip;
use crate::cuda::nvrtc::{ARCHITECTURES, Nvrtc};
use crate::cuda::{Error, FAMILIES, Family};

fn compiler() -> Option<Nvrtc> {
    match Nvrtc::find() {
        Ok(found) => Some(found),
        Err(e) => {
            skip("nvrtc", &e.to_string());
            None
        }
    }
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    let Some(nvrtc) = compiler() else { return };
    crate::Par::new(2).run(FAMILIES.iter().collect(), |family| {
        for sm in ARCHITECTURES.into_iter().filter(|&sm| nvrtc.knows(sm)) {
            let code = nvrtc.compile(family, sm).unwrap_or_else(|e| panic!("{e}"));
            assert!(code.starts_with(b"\x7fELF"), "{} for sm_{sm}", family.name);
            for kernel in family.kernels {
                let name = format!(".text.{kernel}\0");
                let found = code.windows(name.len()).any(|w| w == name.as_bytes());
                assert!(found, "no {kernel} in {}.cu for sm_{sm}", family.name);
            }
        }
    });
}

#[test]
fn a_mistake_is_shown_in_the_compilers_words() {
    let Some(nvrtc) = compiler() else { return };
    let family = Family {
        name: "wrong",
        text: "extern \"C\" __global__ void f() { undeclared = 1; }",
        kernels: &["f"],
    };
    match nvrtc.compile(&family, 90) {
        Err(Error::Compile { log, .. }) => {
            assert!(
                log.contains("undeclared") && log.contains("wrong.cu(1)"),
                "{log}"
            );
        }
        other => panic!("{other:?}"),
    }
}
