//! Every file compiles for every architecture.

use super::skip;
use crate::cuda::nvrtc::{ARCHITECTURES, Nvrtc, Target};
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
    let known = nvrtc.architectures().expect("the compiler answers");
    crate::Par::new(2).run(FAMILIES.iter().collect(), |family| {
        for sm in ARCHITECTURES.into_iter().filter(|sm| known.contains(sm)) {
            let code = nvrtc.compile(family, Target::Machine(sm));
            let code = code.unwrap_or_else(|e| panic!("{e}"));
            assert!(code.starts_with(b"\x7fELF"), "{} for sm_{sm}", family.name);
            for kernel in family.kernels {
                let name = format!(".text.{kernel}\0");
                let found = code.windows(name.len()).any(|w| w == name.as_bytes());
                assert!(found, "no {kernel} in {}.cu for sm_{sm}", family.name);
            }
        }
    });
}

/// What a driver translates for a GPU that came after the compiler.
#[test]
fn a_newer_gpu_gets_every_kernel_as_portable_code() {
    let Some(nvrtc) = compiler() else { return };
    let known = nvrtc.architectures().expect("the compiler answers");
    let newest = *known.last().expect("it knows some");
    let target = nvrtc.target(newest + 1).expect("newer than all");
    assert_eq!(target, Target::Portable(newest));
    for family in FAMILIES {
        let text = nvrtc
            .compile(family, target)
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(text.last(), Some(&0));
        let text = String::from_utf8(text).expect("a text");
        assert!(
            text.contains(&format!(".target sm_{newest}")),
            "{}",
            family.name
        );
        for kernel in family.kernels {
            assert!(text.contains(&format!(".entry {kernel}(")), "no {kernel}");
        }
    }
    let too_old = nvrtc.target(10).expect_err("older than all");
    assert!(
        too_old.to_string().contains("nvidia-cuda-nvrtc-cu12"),
        "{too_old}"
    );
}

#[test]
fn a_target_is_a_gpus_own_code_or_what_its_driver_translates() {
    let known = [75, 80, 90];
    let of = |sm| Target::of(sm, &known).map(|target| target.to_string());
    assert_eq!(of(80).as_deref(), Some("sm_80"));
    assert_eq!(of(86).as_deref(), Some("compute_80"));
    assert_eq!(of(120).as_deref(), Some("compute_90"));
    assert_eq!(of(70), None);
}

#[test]
fn a_mistake_is_shown_in_the_compilers_words() {
    let Some(nvrtc) = compiler() else { return };
    let family = Family {
        name: "wrong",
        text: "extern \"C\" __global__ void f() { undeclared = 1; }",
        kernels: &["f"],
    };
    match nvrtc.compile(&family, Target::Machine(90)) {
        Err(Error::Compile { log, .. }) => {
            assert!(
                log.contains("undeclared") && log.contains("wrong.cu(1)"),
                "{log}"
            );
        }
        other => panic!("{other:?}"),
    }
}
