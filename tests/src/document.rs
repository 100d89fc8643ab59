//! Compares generated documents with the repository.

use crate::program::root;
use crate::share::is_full;

/// Like [`check_document`], for a document of which a run may make only the [`share`](crate::Share::share) of the rows that it tries.
///
/// # Panics
/// At a row that the document lacks.
pub fn check_rows(path: &str, text: &str) {
    if is_full() {
        return check_document(path, text);
    }
    let committed = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    for row in text.lines() {
        assert!(
            committed.lines().any(|known| known == row),
            "{path} lacks {row}: run this test with CUDNN_TESTS_WRITE=1"
        );
    }
}

/// Asserts that a generated text equals the document in the repository. `CUDNN_TESTS_WRITE=1` writes it first.
pub fn check_document(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    for (new, old) in text.lines().zip(committed.lines()) {
        assert_eq!(new, old, "{path} is out of date: run this test with CUDNN_TESTS_WRITE=1");
    }
    assert_eq!(
        text.lines().count(),
        committed.lines().count(),
        "{path} is out of date: run this test with CUDNN_TESTS_WRITE=1"
    );
}

/// Returns a CSV record with the end of the line.
pub fn csv_line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |field: &str| match field.contains([',', '"']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
