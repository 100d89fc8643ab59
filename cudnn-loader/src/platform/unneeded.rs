//! What needs no care where threads are not cancelled and processes do not fork: Windows, where `TerminateThread` unwinds
//! nothing, and systems on which nothing is ever loaded.

pub(crate) mod cancel {
    /// Stands for nothing here.
    #[derive(Debug)]
    pub struct CancelDisabled(());

    impl CancelDisabled {
        /// Does nothing.
        #[must_use]
        #[allow(clippy::new_without_default, reason = "only this project uses it")]
        pub fn new() -> Self {
            CancelDisabled(())
        }
    }

    impl Drop for CancelDisabled {
        fn drop(&mut self) {}
    }
}

pub(crate) mod fork {
    /// Does nothing.
    pub(crate) fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}
}
