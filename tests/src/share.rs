//! Selects the cases that an ordinary run of the tests tries.

/// The cases of a list that a run tries.
pub trait Share: Iterator + Sized {
    /// Returns every `n`th case of a list, beginning with the first. Returns all with `CUDNN_TESTS_ALL`, as in
    /// `.ci/run publish`, or with `CUDNN_TESTS_WRITE`.
    fn share(self, n: usize) -> impl Iterator<Item = Self::Item> {
        self.step_by(if is_full() { 1 } else { n })
    }
}

impl<I: Iterator> Share for I {}

/// Returns whether this run tries all cases.
#[must_use]
pub fn is_full() -> bool {
    ["CUDNN_TESTS_ALL", "CUDNN_TESTS_WRITE"].iter().any(|name| std::env::var_os(name).is_some())
}
