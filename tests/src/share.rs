//! Selects the cases that an ordinary run of the tests tries.

/// The cases of a list that a run tries.
pub trait Share: Iterator + Sized {
    /// Returns every third case of a long list, and all cases of a short one. Returns all with `CUDNN_TESTS_ALL`, as in
    /// `.ci/run release`, or with `CUDNN_TESTS_WRITE`.
    fn share(self) -> impl Iterator<Item = Self::Item> {
        let cases: Vec<Self::Item> = self.collect();
        let step = if is_full() || cases.len() <= 3 { 1 } else { 3 };
        cases.into_iter().step_by(step)
    }
}

impl<I: Iterator> Share for I {}

/// Returns whether this run tries all cases.
#[must_use]
pub fn is_full() -> bool {
    ["CUDNN_TESTS_ALL", "CUDNN_TESTS_WRITE"].iter().any(|name| std::env::var_os(name).is_some())
}
