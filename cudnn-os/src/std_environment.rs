//! The environment as a whole, where the system copies it.

/// Returns the strings `NAME=value`, each with a NUL at its end.
pub fn block() -> Option<Vec<u8>> {
    let entry = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat()
    };
    Some(std::env::vars_os().flat_map(entry).collect())
}
