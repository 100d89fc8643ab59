//! The environment as a whole, where the system copies it.

/// The strings `NAME=value`, with a NUL behind each.
pub(crate) fn block() -> Option<Vec<u8>> {
    let entry = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat()
    };
    Some(std::env::vars_os().flat_map(entry).collect())
}
