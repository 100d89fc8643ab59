//! cuDNN's compiled plans in files, kept across processes.
//!
//! ```
//! use cudnn_plan_store::{About, Entry, Lookup, Settings, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("plan-store-example-{}", std::process::id()));
//! let settings = Settings { dir: Some(dir.clone()), ..Settings::default() };
//! let (store, problems) = Store::open(&settings);
//! assert!(problems.is_empty());
//! let entry = Entry { key: b"all that the plan depends on".into(), plan: b"{}".into(), about: About::default() };
//! store.put(&entry)?;
//! assert!(matches!(store.get(&entry.key), Lookup::Found(found, _) if found == entry));
//! # std::fs::remove_dir_all(dir).ok();
//! # Ok::<(), cudnn_plan_store::Problem>(())
//! ```
//!
//! A [`Store`] is a directory with one file an entry, and packs: read-only files with many entries. Any number of
//! processes use them at the same time. Whatever happens to the files, a lookup returns the entry that was put under
//! exactly this key, or none. The design note 0019 gives the format and the reasons.
//!
//! A `Store` has no open file and no lock, so programs may fork and close descriptors at any time. No call panics,
//! changes `errno`, or is a cancellation point.
//!
//! This crate knows files only: nothing of cuDNN's functions, of layers, or of the loader.

mod directory;
mod entry;
mod format;
mod limit;
mod name;
mod pack;
mod problem;
mod settings;
mod store;
mod variables;

pub use directory::Cleared;
pub use entry::{About, Entry, Lookup, Source, Stored};
pub use limit::Scan;
pub use pack::{Packed, write_pack};
pub use problem::{Damage, Problem, ProblemKind};
pub use settings::{DEFAULT_LIMIT, Settings, parse_size};
pub use store::{Entries, Store, write_pages};
pub use variables::{DIR_VARIABLE, LIMIT_VARIABLE, PACK_VARIABLE};
