//! There is no `fork`.

/// Never calls these.
pub(crate) fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}
