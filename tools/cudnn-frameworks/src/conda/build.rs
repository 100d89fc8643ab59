//! conda's build strings: `cuda126_mkl_py312_h1a2b3c4_300`, `py3.11_cuda12.1_cudnn8.9.2_0`, `cpu_mkl_py312_h1a2b3c4_100`.

use cudnn_probe::Version;

/// Whether a build is for CUDA or for the CPU alone.
pub(super) fn uses_cuda(build: &str) -> Option<bool> {
    let mut parts = build.split('_');
    parts.find_map(|part| match part {
        _ if part.starts_with("cuda") => Some(true),
        _ if part.starts_with("cpu") || part.starts_with("rocm") => Some(false),
        _ => None,
    })
}

/// The CUDA release: 12.6 of `cuda126`, 12.1 of `cuda12.1`.
pub(super) fn cuda(build: &str) -> Option<(u32, Option<u32>)> {
    build.split('_').find_map(|part| {
        let text = part.strip_prefix("cuda")?;
        if let Some((major, minor)) = text.split_once('.') {
            return Some((major.parse().ok()?, number(minor)));
        }
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        Some((digits.get(..2)?.parse().ok()?, number(digits.get(2..)?)))
    })
}

/// The release of cuDNN: `cudnn8.9.2`.
pub(super) fn cudnn(build: &str) -> Option<Version> {
    build.split('_').find_map(|part| part.strip_prefix("cudnn")?.parse().ok())
}

fn number(text: &str) -> Option<u32> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_strings_of_each_channel_are_read() {
        for (build, expected) in [
            ("cuda126_mkl_py312_h1a2b3c4_300", (Some(true), Some((12, Some(6))), None)),
            ("cuda129_py312h1a2b3c4_200", (Some(true), Some((12, Some(9))), None)),
            ("cuda126py312h1a2b3c4_1", (Some(true), Some((12, Some(6))), None)),
            ("cuda12_py312h1a2b3c4_1", (Some(true), Some((12, None)), None)),
            ("py312h1a2b3c4_200_cuda", (Some(true), None, None)),
            ("py3.11_cuda12.1_cudnn8.9.2_0", (Some(true), Some((12, Some(1))), Some(Version::new(8, 9, 2)))),
            ("cpu_mkl_py312_h1a2b3c4_100", (Some(false), None, None)),
            ("py3.11_cpu_0", (Some(false), None, None)),
            ("py312h1a2b3c4_0", (None, None, None)),
            ("", (None, None, None)),
            ("cuda", (Some(true), None, None)),
            ("cudnn_cudaß", (Some(true), None, None)),
        ] {
            assert_eq!((uses_cuda(build), cuda(build), cudnn(build)), expected, "{build}");
        }
    }
}
