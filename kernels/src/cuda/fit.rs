//! Whether a machine's GPU software fits together: driver, NVRTC, cuBLAS, NCCL and the GPUs themselves.

#[cfg(feature = "cuda")]
use super::nvrtc::Nvrtc;
use super::nvrtc::Target;

/// A version of CUDA, as 12 and 8.
pub type Version = (u32, u32);

/// What there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The newest CUDA that the driver executes.
    pub driver: Option<Version>,
    /// NVRTC's version, and the architectures that it compiles for, ascending.
    pub nvrtc: Option<(Version, Vec<u32>)>,
    /// cuBLAS's version.
    pub cublas: Option<Version>,
    /// The CUDA that NCCL was built with.
    pub nccl: Option<Version>,
    /// The GPUs' architectures, 90 for `sm_90`.
    pub gpus: Vec<u32>,
}

/// Two parts that do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Which, and why.
    pub what: String,
    /// What to install.
    pub install: String,
}

/// The oldest driver of a CUDA's first number.
fn oldest_driver(cuda: u32) -> Option<u32> {
    match cuda {
        11 => Some(450),
        12 => Some(525),
        13 => Some(580),
        _ => None,
    }
}

impl Parts {
    /// Those of this machine. Loads the libraries, starts nothing on the GPUs.
    #[cfg(feature = "cuda")]
    pub fn found() -> Parts {
        let nvrtc = Nvrtc::find().ok();
        Parts {
            nvrtc: nvrtc.and_then(|n| Some((n.cuda(), n.architectures().ok()?))),
            nccl: super::nccl::built_with(),
            ..super::nvidia::parts()
        }
    }

    /// The pairs that do not fit; none where a part is not there.
    pub fn clashes(&self) -> Vec<Clash> {
        let mut all = Vec::new();
        let libraries = [
            ("NVRTC", "nvrtc", self.nvrtc.as_ref().map(|n| n.0)),
            ("cuBLAS", "cublas", self.cublas),
            ("NCCL", "nccl", self.nccl),
        ];
        for (name, package, version) in libraries {
            let Some((driver, (major, minor))) = self.driver.zip(version) else {
                continue;
            };
            // Within one first number, what is newer than the driver runs too.
            if major <= driver.0 {
                continue;
            }
            let newer = match oldest_driver(major) {
                Some(least) => format!("a driver {least} or newer"),
                None => format!("a driver for CUDA {major}"),
            };
            let of = match package {
                "nvrtc" => "nvidia-cuda-nvrtc".into(),
                _ => format!("nvidia-{package}"),
            };
            all.push(Clash {
                what: format!(
                    "{name} is of CUDA {major}.{minor}, and the driver executes up to {}.{}",
                    driver.0, driver.1
                ),
                install: format!("the package {of}-cu{}, or {newer}", driver.0),
            });
        }
        let Some((version, known)) = &self.nvrtc else {
            return all;
        };
        let mut gpus = self.gpus.clone();
        gpus.sort_unstable();
        gpus.dedup();
        for sm in gpus {
            if Target::of(sm, known).is_none() {
                let least = known.first().copied().unwrap_or(0);
                all.push(Clash {
                    what: format!(
                        "NVRTC {}.{} compiles for sm_{least} and newer, and there is a GPU of sm_{sm}",
                        version.0, version.1
                    ),
                    install: "an older NVRTC: the package nvidia-cuda-nvrtc-cu12 knows sm_50 to sm_120"
                        .into(),
                });
            }
        }
        all
    }
}

impl std::fmt::Display for Parts {
    /// What there is, on a line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let versions = [
            ("driver for CUDA", self.driver),
            ("NVRTC", self.nvrtc.as_ref().map(|n| n.0)),
            ("cuBLAS", self.cublas),
            ("NCCL of CUDA", self.nccl),
        ];
        let word = |(name, v): &(&str, Option<Version>)| {
            v.map(|(major, minor)| format!("{name} {major}.{minor}"))
        };
        let words: Vec<String> = versions.iter().filter_map(word).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts {
            driver: Some((12, 4)),
            nvrtc: Some(((12, 9), vec![50, 70, 75, 80, 90, 120])),
            cublas: Some((12, 1)),
            nccl: Some((12, 9)),
            gpus: vec![90, 70],
        }
    }

    #[test]
    fn what_fits_is_not_spoken_of() {
        assert_eq!(parts().clashes(), []);
        assert_eq!(Parts::default().clashes(), []);
        let line = "driver for CUDA 12.4, NVRTC 12.9, cuBLAS 12.1, NCCL of CUDA 12.9";
        assert_eq!(parts().to_string(), line);
        // A GPU that is newer than the compiler: the driver compiles for it.
        let newer = Parts {
            gpus: vec![130],
            ..parts()
        };
        assert_eq!(newer.clashes(), []);
    }

    #[test]
    fn a_library_of_a_newer_cuda_names_itself_the_driver_and_both_ways_out() {
        let clashing = Parts {
            nccl: Some((13, 0)),
            cublas: Some((14, 0)),
            ..parts()
        };
        let [cublas, nccl] = &clashing.clashes()[..] else {
            panic!("{:?}", clashing.clashes());
        };
        let what = "NCCL is of CUDA 13.0, and the driver executes up to 12.4";
        assert_eq!(nccl.what, what);
        let install = "the package nvidia-nccl-cu12, or a driver 580 or newer";
        assert_eq!(nccl.install, install);
        assert!(
            cublas.install.ends_with("a driver for CUDA 14"),
            "{cublas:?}"
        );
        let nvrtc = Parts {
            nvrtc: Some(((13, 0), vec![75, 80])),
            gpus: vec![75],
            ..parts()
        };
        assert_eq!(nvrtc.clashes().len(), 1);
        let install = &nvrtc.clashes()[0].install;
        assert!(install.contains("nvidia-cuda-nvrtc-cu12"), "{install}");
    }

    #[test]
    fn a_gpu_that_the_compiler_no_longer_knows_is_named_once() {
        let old = Parts {
            driver: Some((13, 0)),
            nvrtc: Some(((13, 0), vec![75, 80, 90])),
            gpus: vec![70, 70, 90],
            ..parts()
        };
        let [clash] = &old.clashes()[..] else {
            panic!("{:?}", old.clashes());
        };
        assert!(clash.what.ends_with("a GPU of sm_70"), "{clash:?}");
    }
}
