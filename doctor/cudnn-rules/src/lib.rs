//! Derives findings and plans from facts about a machine, for the command `cudnn-doctor`.
//!
//! The rules read the machine only through `cudnn_probe::facts`, which records the answers, replays saved ones, and
//! simulates the machine after a step. The crate's `clippy.toml` forbids functions that read files or the environment,
//! start processes, or load libraries. Observations of processes are passed in, as values of
//! [`check::machine::Machine`], [`check::load_test::LoadTest`] and [`framework_run::Run`].
//!
//! ```text
//! facts, processes ─► Observations ─► findings ─► Plan
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "tests write the files that the rules read, and fail by panicking"
    )
)]

pub mod as_installed;
pub mod check;
pub mod context;
pub mod cudnn_file;
pub mod cudnn_status;
pub mod dependencies;
pub mod drop_in;
pub mod framework_run;
mod lost_environment;
pub mod packages;
pub mod plan;
pub mod python;
pub mod refusal;
pub mod release_facts;
pub mod remedy;
mod runnable;
pub mod shell;
pub mod system;
