//! Reads the captured values of tensors.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use cudnn_os::files::{Opened, open_regular_without_links};
use cudnn_store::captures::{DataRecord, is_file_name};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TensorValues {
    pub(crate) before: BTreeMap<i64, Vec<u8>>,
    pub(crate) after: BTreeMap<i64, Vec<u8>>,
}

impl TensorValues {
    /// Reads the files of these records, which must have these sizes. The error names the first unusable file.
    pub(crate) fn read<'a>(
        dir: &Path,
        records: impl IntoIterator<Item = (&'a DataRecord, usize)>,
    ) -> Result<Self, String> {
        let mut values = TensorValues::default();
        for (DataRecord { file, uid, is_after, .. }, size) in records {
            let bytes =
                read(dir, file, size).map_err(|reason| format!("the file {file:?} for tensor {uid}: {reason}"))?;
            let side = if *is_after { &mut values.after } else { &mut values.before };
            side.insert(*uid, bytes);
        }
        Ok(values)
    }
}

/// Opens a file in the directory with values, and returns the size. The name comes from a capture, which may be
/// hostile. Links are refused, because they could lead to a private file.
///
/// # Errors
/// Returns the reason why the file is not opened.
pub fn open_values(dir: &Path, name: &str) -> Result<(File, u64), String> {
    if !is_file_name(name) {
        return Err("the name contains a directory".to_owned());
    }
    if !dir.symlink_metadata().map_err(|error| error.to_string())?.is_dir() {
        return Err("the directory of values is a link or a file".to_owned());
    }
    match open_regular_without_links(&dir.join(name)) {
        Ok(Opened::Regular(file, size)) => Ok((file, size)),
        Ok(Opened::Other(kind)) => Err(format!("it is {kind}")),
        Err(error) => Err(error.to_string()),
    }
}

fn read(dir: &Path, name: &str, size: usize) -> Result<Vec<u8>, String> {
    let (file, length) = open_values(dir, name)?;
    if length != size as u64 {
        return Err(format!("it has {length} bytes, and the tensor has {size}"));
    }
    let mut bytes = Vec::with_capacity(size);
    match file.take(size as u64).read_to_end(&mut bytes) {
        Ok(read) if read == size => Ok(bytes),
        Ok(_) => Err("it was truncated".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_directory_with_the_right_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("app.data");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("a.bin"), [1, 2, 3, 4]).unwrap();
        std::fs::write(dir.path().join("secret"), [1, 2, 3, 4]).unwrap();
        assert_eq!(read(&inside, "a.bin", 4).unwrap(), [1, 2, 3, 4]);
        let secret = dir.path().join("secret");
        for (name, size, reason) in [
            ("a.bin", 3, "it has 4 bytes, and the tensor has 3"),
            ("a.bin", 5, "it has 4 bytes, and the tensor has 5"),
            ("../secret", 4, "contains a directory"),
            (secret.to_str().unwrap(), 4, "contains a directory"),
            ("a.bin/", 4, "contains a directory"),
            ("..", 4, "contains a directory"),
            ("", 0, "contains a directory"),
            ("b\\c", 4, "contains a directory"),
            ("b.bin", 4, "o such file"),
        ] {
            let refused = read(&inside, name, size).unwrap_err();
            assert!(refused.contains(reason), "{name}: {refused}");
        }
        #[cfg(all(test, unix))]
        {
            std::os::unix::fs::symlink(&secret, inside.join("link.bin")).unwrap();
            assert_eq!(read(&inside, "link.bin", 4).unwrap_err(), "it is a link");
            let linked = dir.path().join("linked.data");
            std::os::unix::fs::symlink(&inside, &linked).unwrap();
            assert_eq!(read(&linked, "a.bin", 4).unwrap_err(), "the directory of values is a link or a file");
        }
    }
}
