//! Recognizes Windows errors that are caused by system limits.

use std::io::{Error, ErrorKind};

use windows_sys::Win32::Foundation;

pub fn is_lack_of_resources(error: &Error) -> bool {
    let limits = [
        Foundation::ERROR_TOO_MANY_OPEN_FILES,
        Foundation::ERROR_NOT_ENOUGH_MEMORY,
        Foundation::ERROR_OUTOFMEMORY,
        Foundation::ERROR_NO_SYSTEM_RESOURCES,
        Foundation::ERROR_COMMITMENT_LIMIT,
        Foundation::ERROR_NOT_ENOUGH_QUOTA,
    ];
    number(error).is_some_and(|number| limits.contains(&number))
}

pub fn is_lack_of_files(error: &Error) -> bool {
    number(error) == Some(Foundation::ERROR_TOO_MANY_OPEN_FILES)
}

// Windows does not limit the number of open handles.
pub fn limit_of_open_files(_error: &Error) -> Option<u64> {
    None
}

pub fn is_closed_pipe(error: &Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
        || matches!(number(error), Some(Foundation::ERROR_PIPE_NOT_CONNECTED | Foundation::ERROR_NO_DATA))
}

fn number(error: &Error) -> Option<u32> {
    error.raw_os_error().and_then(|number| u32::try_from(number).ok())
}
