//! Provides the name of the driver's library, the format of versions, and advice about faults.

use crate::system::choose;

/// The name of the driver's library.
pub const LIBRARY: &str = crate::system::DRIVER;

/// The help for a driver that crashes or hangs.
pub const HELP: &str = choose(
    "check that `nvidia-smi` works; if it fails or hangs, reboot, or reinstall the driver. If LD_LIBRARY_PATH leads to \
     another libcuda.so.1, remove that directory from it",
    "check that `nvidia-smi` works; if it fails or hangs, restart Windows, or reinstall NVIDIA's driver",
);

/// The help for a damaged driver library.
pub const DAMAGED_HELP: &str = choose(
    "cuDNN needs no change. In a container, start it with GPU access, which puts the host's library in place of that file: \
     `docker run --gpus all ...`. Elsewhere, or if the file stays: remove it, and reinstall NVIDIA's driver",
    "cuDNN needs no change: reinstall NVIDIA's driver, and remove copies of nvcuda.dll that are not in Windows' own directory",
);

/// Returns the text if it is a driver version such as `580.65.06`, which can be compared.
pub(crate) fn version(text: &str) -> Option<&str> {
    const MAX_DIGITS: usize = 5;
    let is_number =
        |part: &str| (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.split('.').count();
    ((2..=4).contains(&count) && text.split('.').all(is_number)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_is_one() {
        for text in ["580.65.06", "470.57", "535.104.5.1"] {
            assert_eq!(version(text), Some(text));
        }
        for text in
            ["", "580", "580.", ".580", "580.65.06\u{1b}[31m", "r580.65", "580.65-beta", "1.2.3.4.5", "999999.1"]
        {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
