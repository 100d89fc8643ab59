//! The pinned releases: which wheel, and what its bytes must hash to. The one list of them.

use std::path::{Path, PathBuf};

/// One wheel, pinned.
#[derive(Debug)]
pub struct Release {
    /// A short name: CUDA major and version (`cu12-9.28.0`), with `jit-` before it for a JIT wheel.
    pub id: &'static str,
    /// The package's name.
    pub package: &'static str,
    /// The package's version, all of it.
    pub version: &'static str,
    /// The accepted sha256 of the wheel, one for each platform that is pinned: x86-64 first, then aarch64.
    pub sha256: &'static [&'static str],
    /// The platform, as pip calls it, of a wheel that is not for this machine: to be read, not to be used.
    pub platform: Option<&'static str>,
    /// How much there is to download, in 10^6 bytes.
    pub megabytes: u32,
}

impl Release {
    /// cuDNN's folder inside the unpacked wheel. A JIT wheel has one of its own.
    fn product_dir(&self, unpacked: &Path) -> PathBuf {
        unpacked.join(if self.package.contains("-jit-") { "nvidia/cudnn_jit" } else { "nvidia/cudnn" })
    }

    /// The folder with the libraries.
    #[must_use]
    pub fn lib_dir(&self, unpacked: &Path) -> PathBuf {
        let is_windows = self.platform.is_some_and(|platform| platform.starts_with("win"));
        self.product_dir(unpacked).join(if is_windows { "bin" } else { "lib" })
    }

    /// The folder with the headers.
    #[must_use]
    pub fn include_dir(&self, unpacked: &Path) -> PathBuf {
        self.product_dir(unpacked).join("include")
    }

    pub(crate) fn folder_name(&self) -> String {
        match self.platform {
            Some(platform) => format!("{}-{}-{platform}", self.package, self.version),
            None => format!("{}-{}", self.package, self.version),
        }
    }

    /// The line of a requirements file, with all hashes.
    pub(crate) fn requirement(&self) -> String {
        let hashes: String = self.sha256.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        format!("{}=={}{hashes}\n", self.package, self.version)
    }
}

/// Every pinned wheel. Two JIT wheels are small and serve the quick tests and the demo; the full ones serve CI.
pub const RELEASES: &[Release] = &[
    Release {
        id: "jit-cu12-9.19.0",
        package: "nvidia-cudnn-jit-cu12",
        version: "9.19.0.56",
        sha256: &[
            "767aba2e2e35d160de2678c8ad4fbe5ceb3aa2820ed1bc20f04fb93dcdcf6312",
            "c0ed642e365fb727cf8ac981e1caff8a58eae9591cde17d64876bbdc48b73d0b",
        ],
        platform: None,
        megabytes: 19,
    },
    Release {
        id: "jit-cu13-9.27.0",
        package: "nvidia-cudnn-jit-cu13",
        version: "9.27.0.42",
        sha256: &[
            "d78f193e03ae0d884101d50e9019bffb9f99dabc5a58f50e069d145b84730c35",
            "7038db95da99d2c38bbabfe357b09e99d1a11694f1649cc3189c77b0dcf7e628",
        ],
        platform: None,
        megabytes: 75,
    },
    Release {
        id: "cu12-9.0.0",
        package: "nvidia-cudnn-cu12",
        version: "9.0.0.312",
        sha256: &["8d440a94da2f7e729d375d5a03e0f423f2bc03a27ee87d5817c1068f69de9828"],
        platform: None,
        megabytes: 670,
    },
    Release {
        id: "cu12-9.10.2",
        package: "nvidia-cudnn-cu12",
        version: "9.10.2.21",
        sha256: &["949452be657fa16687d0930933f032835951ef0892b37d2d53824d1a84dc97a8"],
        platform: None,
        megabytes: 707,
    },
    Release {
        id: "cu12-9.28.0",
        package: "nvidia-cudnn-cu12",
        version: "9.28.0.42",
        sha256: &["9ff58b7f36dacd0a93e89f8f2957b52466889217963701daa15e577317cfa375"],
        platform: None,
        megabytes: 717,
    },
    Release {
        id: "cu13-9.28.0",
        package: "nvidia-cudnn-cu13",
        version: "9.28.0.42",
        sha256: &["7358353c75bb121a58e5f7712fe6d588883dc1df8ba00f428237e44e97543c4d"],
        platform: None,
        megabytes: 517,
    },
    Release {
        id: "cuda-runtime-cu12",
        package: "nvidia-cuda-runtime-cu12",
        version: "12.9.79",
        sha256: &["25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3"],
        platform: None,
        megabytes: 4,
    },
    Release {
        id: "libclang",
        package: "libclang",
        version: "18.1.1",
        sha256: &["c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b"],
        platform: None,
        megabytes: 25,
    },
    Release {
        id: "cmake",
        package: "cmake",
        version: "3.31.6",
        sha256: &["1c8b05df0602365da91ee6a3336fe57525b137706c4ab5675498f662ae1dbcec"],
        platform: None,
        megabytes: 28,
    },
    Release {
        id: "aarch64-jit-cu12-9.19.0",
        package: "nvidia-cudnn-jit-cu12",
        version: "9.19.0.56",
        sha256: &["c0ed642e365fb727cf8ac981e1caff8a58eae9591cde17d64876bbdc48b73d0b"],
        platform: Some("manylinux_2_27_aarch64"),
        megabytes: 19,
    },
    Release {
        id: "windows-cu13-9.28.0",
        package: "nvidia-cudnn-cu13",
        version: "9.28.0.42",
        sha256: &["fdddb1a8be28b5c95893bb1646822c53b3cf4a762e957c74ee1dd8f411993f05"],
        platform: Some("win_amd64"),
        megabytes: 406,
    },
];
