//! Makes the kernel read the parts of cuDNN's files that loading touches ahead of time: all but the GPU code, which is
//! most of a file, and of which a program needs little.
//!
//! Of each part only the start is read. That is intended: reading complete parts was measured and is slower, because
//! programs never touch most of the rest.

use std::io;
use std::path::Path;

use cudnn_os::readahead;

/// Requests one file. Returns the number of bytes requested.
pub(super) fn read_ahead(path: &Path) -> io::Result<u64> {
    let parts = cudnn_probe::parts_without_gpu_code(path).map_err(|error| io::Error::other(error.to_string()))?;
    readahead::request(path, parts)
}
