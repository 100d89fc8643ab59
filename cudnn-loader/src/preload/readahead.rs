//! Makes the kernel read the parts of cuDNN's files that loading touches ahead of time: all but the GPU code, which is
//! most of a file, and of which a program needs little.
//!
//! The kernel reads the start of each part, as much as the disk takes in one request (some megabytes). That is
//! intended: reading complete parts was measured and is slower, because programs never touch most of the rest.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Requests one file. Returns the number of bytes requested.
pub(super) fn read_ahead(path: &Path) -> io::Result<u64> {
    let parts = cudnn_probe::parts_without_gpu_code(path).map_err(|error| io::Error::other(error.to_string()))?;
    let file = File::open(path)?;
    let mut bytes = 0;
    for part in parts {
        let length = part.end.saturating_sub(part.start);
        let (Ok(offset), Ok(count)) = (libc::off64_t::try_from(part.start), usize::try_from(length)) else { continue };
        // SAFETY: the descriptor is open, and the call writes nothing.
        if unsafe { libc::readahead(file.as_raw_fd(), offset, count) } == 0 {
            bytes += length;
        }
    }
    Ok(bytes)
}
