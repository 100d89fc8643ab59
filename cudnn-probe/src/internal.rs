//! Exports functions for other tools of this workspace. They are unstable.

#[cfg(feature = "windows")]
pub use crate::image::dll_version;
pub use crate::image::{Links, damaged_symbol_table, links};
#[cfg(feature = "inspect")]
pub use crate::image::{
    elf_interpreter, loaded_parts, main_gpu_code, missing_exports, missing_symbols_for, parts_without_gpu_code_any,
};
pub use crate::ld_so::is_candidate;
pub use crate::library::older_shim;
pub use crate::platform::PYTHON;
#[cfg(feature = "inspect")]
pub use crate::search::{UnderRoot, base_python, environment_of};
