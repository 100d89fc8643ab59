//! Stores compiled cuDNN plans in files, so that later processes can use them.
//!
//! ```
//! use cudnn_store::plans::{PlanInfo, PlanEntry, PlanLookup, Settings, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("plan-store-example-{}", std::process::id()));
//! let settings = Settings { dir: Some(dir.clone()), ..Settings::default() };
//! let (store, problems) = Store::open(&settings);
//! assert!(problems.is_empty());
//! let entry = PlanEntry { key: b"all that the plan depends on".into(), plan: b"{}".into(), about: PlanInfo::default() };
//! store.put(&entry)?;
//! assert!(matches!(store.get(&entry.key), PlanLookup::Found(found, _) if found == entry));
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), String>(())
//! ```
//!
//! A [`Store`] consists of a directory with one file per entry, and of read-only packs with many entries. Any number of
//! processes can share it. A lookup returns exactly the stored entry or nothing, even if files are damaged.
//!
//! A `Store` holds no open files or locks, so programs may fork or close descriptors at any time. Calls do not panic,
//! change `errno`, or act as cancellation points.
mod directory;
mod entry;
mod error;
mod format;
mod limit;
mod name;
mod pack;
mod settings;
mod store;
mod variables;

pub use directory::Cleared;
pub use entry::{PlanEntry, PlanInfo, PlanLookup, PlanSource, StoredPlan};
pub use error::NO_DIRECTORY;
pub use pack::{Packed, is_pack, write_pack};
pub use settings::{DEFAULT_LIMIT, Settings, parse_size};
pub use store::Store;
pub use variables::{DIR_VARIABLE, LIMIT_VARIABLE, PACK_VARIABLE};
