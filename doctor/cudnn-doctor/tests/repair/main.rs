//! Breaks environments, follows the doctor's plan, and checks that all problems are solved. pip, uv, apt-get and dpkg
//! are the real ones. Most wheels are small stand-ins with NVIDIA's names.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod debian;
mod frameworks;
mod page;
mod pythons;
mod real;
mod shells;
mod situation;
mod uv;
mod venv;
mod wheels;
#[path = "../advice/world.rs"]
#[allow(dead_code, reason = "the other tests of the advice use all of it")]
mod world;

/// Holds a directory that all tests of this program share.
type Shared = std::sync::OnceLock<support::TempDir>;
