//! Which CUDA major a library was built with, without loading it. Two witnesses are heard, in this order:
//!
//! 1. The GPU code in `.nv_fatbin`: each entry's header states the version of its code. PTX 7.x comes with CUDA 11, 8.x
//!    with 12 and 9.x with 13. Machine code for processors up to 9.0 is in one format up to CUDA 12, and in another from
//!    13 on. (Seen in every library with GPU code of 9.0.0, 9.10.2, 9.12, 9.19, 9.20, 9.27 and 9.28, cu12 and cu13.)
//! 2. The folder: a wheel's record beside it (`nvidia_cudnn_cu13-9.28.0.42.dist-info`).
//!
//! Only the first few entries are looked at: each is megabytes away from the one before, on a disk that may be slow. They
//! may hold no PTX; then CUDA 12 is told from 13, but not from 11.
//!
//! `libcudnn_graph.so.9` carries no GPU code of its own, so its folder is all there is; once loaded, it says.

use std::ops::Range;
use std::path::Path;

use object::read::ReadRef;

/// How many code entries are looked at. In most libraries the first PTX is among the first ten.
const ENTRIES: usize = 16;

/// What is known of the CUDA major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuda {
    pub(crate) major: Option<u32>,
    pub(crate) at_most: Option<u32>,
}

/// From the GPU code in this part of the file, if it has any, else from what stands beside the file.
pub(crate) fn built_with<'a>(path: &Path, gpu_code: Option<Range<u64>>, data: impl ReadRef<'a>) -> Cuda {
    let mut cuda = Cuda::default();
    if let Some(range) = gpu_code {
        // What was learnt before the end of what can be read stands.
        let _ = read_fatbin(range, data, &mut cuda);
    }
    cuda.major = cuda.major.or_else(|| from_record(path));
    cuda
}

fn read_fatbin<'a>(range: Range<u64>, data: impl ReadRef<'a>, cuda: &mut Cuda) -> Option<()> {
    const MAGIC: u64 = 0xba55_ed50;
    const PTX: u64 = 1;
    const MACHINE_CODE: u64 = 2;
    // A header in one piece, and the numbers in it, little-endian.
    let header = |offset: u64, length: u64| -> Option<&[u8]> { data.read_bytes_at(offset, length).ok() };
    let number = |header: &[u8], bytes: Range<usize>| -> Option<u64> {
        Some(header.get(bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let mut offset = range.start;
    let mut container_end = offset;
    for _ in 0..ENTRIES {
        if offset >= container_end {
            // Containers lie one behind the other, on multiples of eight.
            offset = container_end.checked_next_multiple_of(8)?;
            if offset >= range.end {
                break;
            }
            let container = header(offset, 16)?;
            if number(container, 0..4)? != MAGIC {
                break;
            }
            container_end = offset.checked_add(16)?.checked_add(number(container, 8..16)?)?;
            offset = offset.checked_add(number(container, 6..8)?)?;
        }
        let entry = header(offset, 32)?;
        let (minor, major, processor) = (number(entry, 24..26)?, number(entry, 26..28)?, number(entry, 28..32)?);
        match (number(entry, 0..2)?, major, minor) {
            (PTX, 7..=9, _) => {
                cuda.major = u32::try_from(major + 4).ok();
                break;
            }
            (MACHINE_CODE, 1, 8) if processor <= 90 => {
                cuda.major = Some(13);
                break;
            }
            (MACHINE_CODE, 1, 0..8) => cuda.at_most = Some(12),
            _ => {}
        }
        offset = offset.checked_add(number(entry, 4..8)?.max(16))?.checked_add(number(entry, 8..16)?)?;
    }
    Some(())
}

fn from_record(path: &Path) -> Option<u32> {
    // site-packages/nvidia/cudnn/lib/libcudnn_graph.so.9
    let site_packages = path.ancestors().nth(4)?;
    if path.ancestors().nth(3)?.file_name()? != "nvidia" {
        return None;
    }
    // A JIT wheel's folder has a record of its own.
    let package = match path.ancestors().nth(2)?.file_name()?.to_str()? {
        "cudnn_jit" => "nvidia_cudnn_jit_cu",
        _ => "nvidia_cudnn_cu",
    };
    let majors: Vec<u32> = std::fs::read_dir(site_packages)
        .ok()?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let name = name.to_str()?.strip_prefix(package)?.strip_suffix(".dist-info")?;
            name.split('-').next()?.parse().ok()
        })
        .collect();
    // With the records of two, as after one wheel was installed over another, neither is believed.
    match majors.as_slice() {
        [major] => Some(*major),
        _ => None,
    }
}
