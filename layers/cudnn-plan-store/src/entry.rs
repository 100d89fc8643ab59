//! What the store keeps.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::Problem;

/// A plan, and what it was built from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// All that the plan depends on. The store compares it byte for byte.
    pub key: Vec<u8>,
    /// cuDNN's JSON.
    pub plan: Vec<u8>,
    /// For people and statistics.
    pub about: About,
}

/// What people and statistics want to know of an entry. No lookup depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// What the plan computes, for people: `conv_fwd x[8,64,56,56] .. engine 71`.
    pub label: String,
    /// The name of the device.
    pub device: String,
    /// As `cudnnGetVersion` returns it.
    pub cudnn_version: u32,
    /// How long cuDNN took to build the plan.
    pub build_time: Duration,
    /// The plan's workspace in bytes.
    pub workspace_size: i64,
}

/// Where an entry was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// In the directory.
    Directory,
    /// In this pack.
    Pack(PathBuf),
}

/// The answer to a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// The entry that was put under this key.
    Found(Entry, Source),
    /// There is none.
    Missing,
    /// There is a file for it that cannot be used. Build the plan and [put](crate::Store::put) it: that replaces the
    /// file.
    Unusable(Problem),
}

/// An entry with its place.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The entry.
    pub entry: Entry,
    /// Where it is.
    pub source: Source,
    /// The name of its file, or of the file that it would have: the SHA-256 of its key, with `.plan`.
    pub name: String,
    /// Its size in the directory or pack.
    pub bytes: u64,
    /// When it was last used, to the hour. Packs do not record it.
    pub last_use: Option<SystemTime>,
}
