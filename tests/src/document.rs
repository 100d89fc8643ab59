//! Compares generated documents with the repository.

use std::path::Path;

/// Asserts that a generated text equals the document in the repository. `CUDNN_TESTS_WRITE=1` writes it first.
pub fn check_document(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
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
