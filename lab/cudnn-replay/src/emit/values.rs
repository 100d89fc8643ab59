//! The captured values of tensors, if they are small enough to be part of a program.

use std::path::Path;

use cudnn_store::captures::DataRecord;

use crate::replay::captured::{TensorValues, read};

/// The maximum number of bytes in a program.
const LIMIT: u64 = 64 << 10;

/// Reads the values from the files in a directory.
///
/// # Errors
/// Returns the reason if the values are too large, or if a file cannot be read.
pub(super) fn read_values(dir: &Path, records: &[DataRecord]) -> Result<TensorValues, String> {
    let total = records.iter().fold(0_u64, |sum, record| sum.saturating_add(record.bytes));
    if total > LIMIT {
        return Err(format!("the captured values have {total} bytes, and a program contains at most {LIMIT}"));
    }
    let mut values = TensorValues::default();
    for record in records {
        let side = if record.is_after { &mut values.after } else { &mut values.before };
        let bytes = read(dir, &record.file, record.bytes as usize);
        side.insert(record.uid, bytes.map_err(|reason| format!("the file {:?}: {reason}", record.file))?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_of_the_directory_are_read() {
        // This crate's directory has files that no test has to write.
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let size = |name: &str| std::fs::metadata(dir.join(name)).unwrap().len();
        let record = |file: &str, bytes| {
            let file = file.to_owned();
            DataRecord { plan: 0, execution: 1, uid: 7, is_after: file == "README.md", file, bytes }
        };
        let (manifest, readme) = (size("Cargo.toml"), size("README.md"));
        let values = read_values(dir, &[record("Cargo.toml", manifest), record("README.md", readme)]).unwrap();
        assert_eq!(values.before[&7], std::fs::read(dir.join("Cargo.toml")).unwrap());
        assert_eq!(values.after[&7].len() as u64, readme);
        for (file, bytes, reason) in [
            ("src/lib.rs", size("src/lib.rs"), "contains a directory"),
            ("Cargo.toml", manifest + 1, "it has"),
            ("Cargo.toml", LIMIT + 1, "a program contains at most"),
        ] {
            let refused = read_values(dir, &[record(file, bytes)]).unwrap_err();
            assert!(refused.contains(reason), "{file}: {refused}");
        }
        let large = [record("Cargo.toml", u64::MAX), record("README.md", readme)];
        assert!(read_values(dir, &large).unwrap_err().contains("a program contains at most"));
    }
}
