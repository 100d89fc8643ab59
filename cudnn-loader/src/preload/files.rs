//! Has the kernel read the parts of cuDNN's files that loading touches, ahead of their being touched: all but the GPU code,
//! which is most of them and of which a program needs little.
//!
//! The kernel reads the beginning of each part, as much as the disk takes in one request (some megabytes). That is meant:
//! to have it read all was measured, and is slower, since most of what lies behind is never touched.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Asks for one file. Gives the number of bytes that were asked for.
pub(super) fn read_ahead(path: &Path) -> io::Result<u64> {
    let parts = cudnn_probe::parts_without_gpu_code(path).map_err(|refusal| io::Error::other(refusal.to_string()))?;
    let file = File::open(path)?;
    let mut bytes = 0;
    for part in parts {
        let length = part.end.saturating_sub(part.start);
        let (Ok(offset), Ok(count)) = (libc::off64_t::try_from(part.start), usize::try_from(length)) else { continue };
        // SAFETY: the descriptor is open; nothing is written anywhere.
        if unsafe { libc::readahead(file.as_raw_fd(), offset, count) } == 0 {
            bytes += length;
        }
    }
    Ok(bytes)
}
