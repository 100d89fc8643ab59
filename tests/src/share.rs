//! Selects the cases that an ordinary run of the tests tries.

/// Returns the step from one case of a long list to the next: 1 with `CUDNN_TESTS_ALL`, as in `.ci/run release`, or with
/// `CUDNN_TESTS_WRITE`, and otherwise 3.
pub fn share() -> usize {
    let is_full = ["CUDNN_TESTS_ALL", "CUDNN_TESTS_WRITE"].iter().any(|name| std::env::var_os(name).is_some());
    if is_full { 1 } else { 3 }
}
