//! Breaks environments, follows the plan, and checks that all problems are solved. The installers are real, but most
//! wheels are small stand-ins.
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

/// A directory that all tests of this program share.
type Shared = std::sync::OnceLock<support::TempDir>;
