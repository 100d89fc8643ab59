//! Reads files ahead of time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Makes the kernel read the start of each part of a file, limited to one disk request (several megabytes). Returns
/// the number of requested bytes.
///
/// # Errors
/// Returns an error if the system call fails.
pub fn request(path: &Path, parts: Vec<Range<u64>>) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut bytes = 0;
    for part in parts {
        let length = part.end.saturating_sub(part.start);
        let (Ok(offset), Ok(count)) = (libc::off64_t::try_from(part.start), usize::try_from(length)) else { continue };
        // SAFETY: the descriptor is open, and the call only reads.
        if unsafe { libc::readahead(file.as_raw_fd(), offset, count) } == 0 {
            bytes += length;
        }
    }
    Ok(bytes)
}
