use cudnn_probe::facts::Facts;

use super::*;

#[test]
fn saved_facts_contain_the_sha256_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("libcudnn.so.9");
    std::fs::write(&file, "a library").unwrap();
    let recorder = Facts::recorder();
    let sum = recorder.within(|| sha256(&file));
    drop(dir);
    let saved = Facts::from_value(recorder.to_value()).unwrap();
    assert!(sum.is_some() && sha256(&file).is_none());
    assert_eq!(saved.within(|| sha256(&file)), sum);
}
