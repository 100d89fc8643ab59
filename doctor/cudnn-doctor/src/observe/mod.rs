//! Observes what only processes show: whether the driver answers, cuDNN loads, and frameworks run.

pub(crate) mod diagnosis;
pub(crate) mod driver;
mod framework_run;
pub(crate) mod load_test;
pub(crate) mod machine;
