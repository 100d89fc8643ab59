//! The entries of a store and the results of lookups.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A plan with its cache key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanEntry {
    /// All inputs of the plan, which the store compares byte for byte.
    pub key: Vec<u8>,
    /// cuDNN's JSON for the plan.
    pub plan: Vec<u8>,
    /// Information for display and statistics.
    pub about: PlanInfo,
}

/// Information about an entry for display and statistics. Lookups ignore it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanInfo {
    /// A description of the plan, such as `conv_fwd x[8,64,56,56] .. engine 71`.
    pub label: String,
    /// The name of the device.
    pub device: String,
    /// The cuDNN version, as returned by `cudnnGetVersion`.
    pub cudnn_version: u32,
    /// The time that cuDNN took to build the plan.
    pub build_time: Duration,
    /// The plan's workspace in bytes.
    pub workspace_size: i64,
}

/// The place where an entry was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanSource {
    /// The store's directory.
    Directory,
    /// The pack with this path.
    Pack(PathBuf),
}

/// The result of a lookup.
#[derive(Debug)]
pub enum PlanLookup {
    /// The entry that was stored under this key.
    Found(PlanEntry, PlanSource),
    /// There is no entry with this key.
    Missing,
    /// The file of the entry cannot be used. Build the plan and [store](crate::plans::Store::put) it, which replaces the file.
    Unusable(String),
}

/// An entry with the place where it is stored.
#[derive(Clone, Debug)]
pub struct StoredPlan {
    /// The entry.
    pub entry: PlanEntry,
    /// The place where the entry is stored.
    pub source: PlanSource,
    /// The file name in a directory: the SHA-256 of the key, followed by `.plan`.
    pub name: String,
    /// The size in the directory or pack, in bytes.
    pub bytes: u64,
    /// The time of the last use, with a resolution of one hour. `None` for packs.
    pub last_use: Option<SystemTime>,
}
