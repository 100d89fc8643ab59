//! Makes the kernel read ahead the parts of cuDNN's files that loading needs. This excludes GPU code, which is most of
//! a file and largely unused by any one program.
//!
//! The kernel reads only the start of a part. This is intentional: measurements showed that reading complete parts is
//! slower, because programs never use most of the rest.

use std::io;
use std::path::Path;

use cudnn_os::readahead;

/// Requests a file and returns the number of bytes requested.
pub(super) fn read_ahead(path: &Path) -> io::Result<u64> {
    let parts = cudnn_probe::parts_without_gpu_code(path).map_err(|error| io::Error::other(error.to_string()))?;
    readahead::request(path, parts)
}
