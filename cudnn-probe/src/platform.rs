//! Defines operating systems and processor architectures of cuDNN libraries.

use std::fmt;

/// The file name of the Python interpreter.
pub(crate) const PYTHON: &str = cudnn_os::windows_or!("python.exe", "python3");

/// The operating system that a library was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Os {
    /// Linux, which uses ELF files.
    Linux,
    /// Windows, which uses PE files.
    Windows,
}

impl Os {
    /// The current system, or Linux on systems that cuDNN 9 does not support.
    pub const HOST: Os = if cudnn_os::IS_WINDOWS { Os::Windows } else { Os::Linux };
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Os::Linux => "Linux",
            Os::Windows => "Windows",
        })
    }
}

/// A processor architecture, identified by ELF machine number. Windows machine numbers are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Architecture {
    elf_machine: u16,
}

impl Architecture {
    /// 64-bit x86.
    pub const X86_64: Architecture = Architecture { elf_machine: 62 };
    /// 64-bit Arm.
    pub const AARCH64: Architecture = Architecture { elf_machine: 183 };
    /// 32-bit x86.
    pub const X86: Architecture = Architecture { elf_machine: 3 };
    /// 32-bit Arm.
    pub const ARM: Architecture = Architecture { elf_machine: 40 };
    /// 64-bit Arm code that x86-64 programs on Windows can call. ELF has no number for it, so this is the Windows
    /// number.
    pub const ARM64EC: Architecture = Architecture { elf_machine: 0xa641 };
    /// The architecture of this program.
    pub const HOST: Architecture =
        if cfg!(target_arch = "aarch64") { Architecture::AARCH64 } else { Architecture::X86_64 };

    /// Returns the architecture with this name in Rust (`CARGO_CFG_TARGET_ARCH`), if cuDNN supports it.
    #[must_use]
    pub fn from_rust(name: &str) -> Option<Architecture> {
        match name {
            "x86_64" => Some(Architecture::X86_64),
            "aarch64" => Some(Architecture::AARCH64),
            _ => None,
        }
    }

    /// Returns whether this is one of the 32-bit architectures of Windows files.
    pub(crate) const fn is_32_bit(self) -> bool {
        self.elf_machine == Architecture::X86.elf_machine || self.elf_machine == Architecture::ARM.elf_machine
    }

    /// Returns the architecture with this number in an ELF header (`e_machine`).
    #[must_use]
    pub const fn from_elf_machine(elf_machine: u16) -> Architecture {
        Architecture { elf_machine }
    }

    /// Returns the number in an ELF header (`e_machine`), such as 62 for x86-64 and 183 for aarch64.
    #[must_use]
    pub const fn elf_machine(self) -> u16 {
        self.elf_machine
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elf_machine {
            62 => f.write_str("x86-64"),
            183 => f.write_str("aarch64"),
            3 => f.write_str("32-bit x86"),
            40 => f.write_str("32-bit Arm"),
            0xa641 => f.write_str("ARM64EC (Windows on Arm)"),
            21 => f.write_str("ppc64le"),
            other => write!(f, "ELF machine {other}"),
        }
    }
}

/// The library directories of a CUDA toolkit for this architecture. On aarch64, `sbsa-linux` is for servers, and also
/// for Jetson from CUDA 13 on. `aarch64-linux` is for Jetson with older CUDA versions.
pub(crate) const CUDA_LIB_DIRS: &[&str] = if cfg!(target_arch = "aarch64") {
    &["lib64", "lib", "targets/sbsa-linux/lib", "targets/aarch64-linux/lib"]
} else {
    &["lib64", "lib", "targets/x86_64-linux/lib"]
};

/// Debian's name for this architecture (multiarch triple).
pub(crate) const TRIPLE: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

/// The value that ld.so substitutes for `$PLATFORM`.
pub(crate) const LD_PLATFORM: &str = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };

/// The flags of entries in `/etc/ld.so.cache` for 64-bit glibc libraries of this architecture.
pub(crate) const LD_CACHE_FLAGS: u32 = if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 };

/// Returns the `glibc-hwcaps` subdirectories that this processor supports, best first.
pub(crate) fn hwcaps() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let v2 = is_x86_feature_detected!("sse4.2")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("popcnt");
        let v3 = v2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("fma");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")]
            .into_iter()
            .filter_map(|(is_supported, name)| is_supported.then_some(name))
            .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_named_as_people_name_it() {
        for (machine, rust, name) in [
            (62, Some("x86_64"), "x86-64"),
            (183, Some("aarch64"), "aarch64"),
            (3, None, "32-bit x86"),
            (40, None, "32-bit Arm"),
            (0xa641, None, "ARM64EC (Windows on Arm)"),
            (21, None, "ppc64le"),
            (243, None, "ELF machine 243"),
        ] {
            let architecture = Architecture::from_elf_machine(machine);
            assert_eq!(architecture.to_string(), name);
            assert_eq!(rust.and_then(Architecture::from_rust), rust.map(|_| architecture));
        }
        assert_eq!(Architecture::from_rust("powerpc64"), None);
    }
}
