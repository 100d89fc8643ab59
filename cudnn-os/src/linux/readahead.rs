//! Reads files ahead of time.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::files::open_without_blocking;

/// Makes the kernel read the start of each part of a file. It limits a request to the read-ahead size of the disk (128
/// KiB by default), or to its largest request.
pub fn request(path: &Path, parts: impl IntoIterator<Item = Range<u64>>) -> io::Result<()> {
    // Opening a pipe or terminal must not block this thread, because another file may have replaced this one.
    let file = open_without_blocking(path)?;
    for part in parts {
        let length = part.end.saturating_sub(part.start);
        let (Ok(offset), Ok(count)) = (libc::off64_t::try_from(part.start), usize::try_from(length)) else { continue };
        // SAFETY: the descriptor is open, and the call only reads.
        if unsafe { libc::readahead(file.as_raw_fd(), offset, count) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
