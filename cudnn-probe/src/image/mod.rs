//! Reads what a library file says about itself: identity, dependencies, symbols, GPU code, and layout.
//!
//! ```no_run
//! use cudnn_probe::image::links;
//!
//! let links = links("/opt/app/lib/libplugin.so".as_ref())?;
//! println!("needs {:?}, searches {:?}", links.needed, links.runpath);
//! # Ok::<(), cudnn_probe::ProbeError>(())
//! ```
//!
//! Only headers, tables and a few bytes of data are read. This takes several tens of kilobytes even for a library of
//! half a gigabyte, and little more for a malicious file. For the imports of a DLL, see
//! [`dll_search::imports`](crate::dll_search::imports).

// `file_data` ─► `elf`, `pe` (formats) ─► `file` ─► `identify`, `symbols`, `dlls`, `gpu_code`, `inspect` (questions)

#[cfg(feature = "windows")]
pub(crate) mod dlls;
mod elf;
#[cfg(all(test, feature = "windows"))]
pub(crate) mod fake_dll;
mod fatbin;
mod file;
mod file_data;
mod format;
#[cfg(feature = "inspect")]
mod gpu_code;
mod identify;
pub(crate) mod imports;
#[cfg(feature = "inspect")]
mod inspect;
#[cfg(feature = "windows")]
mod pe;
#[cfg(feature = "inspect")]
mod run_path;
mod symbols;
mod tables;
mod wheel_metadata;

#[cfg(feature = "windows")]
pub use dlls::dll_version;
#[cfg(feature = "windows")]
pub(crate) use dlls::{dll_links, missing_imports};
#[cfg(feature = "inspect")]
pub use gpu_code::{GpuCode, gpu_code, main_gpu_code};
pub use identify::{Identity, identify, identify_for};
pub(crate) use imports::Symbol;
#[cfg(feature = "windows")]
pub(crate) use imports::{DllLinks, Import};
#[cfg(feature = "inspect")]
pub use inspect::{
    elf_interpreter, identify_any, loaded_parts, missing_exports, missing_versions, parts_without_gpu_code_any,
};
#[cfg(feature = "inspect")]
pub use symbols::missing_symbols_for;
pub use symbols::{damaged_symbol_table, exports, links, missing_symbols, parts_without_gpu_code};
pub use tables::Links;
