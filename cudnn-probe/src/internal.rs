//! Exports functions for other tools of this workspace. They are unstable.

pub use crate::image::{
    Links, damaged_symbol_table, dll_version, elf_interpreter, links, loaded_parts, main_gpu_code, missing_exports,
    missing_symbols_for, parts_without_gpu_code_any,
};
pub use crate::ld_so::is_candidate;
pub use crate::library::older_shim;
pub use crate::platform::PYTHON;
pub use crate::search::{UnderRoot, base_python, environment_of};
