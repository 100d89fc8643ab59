//! Provides real releases, fake libraries, temporary directories and child processes for the end-to-end tests.
//! Functions panic if a program or the system fails. The tests are Linux programs. On Windows, only the child process
//! (`src/bin/driver`) runs, which does not use this library.
#![cfg(unix)]

mod binutils;
mod child;
mod compiler;
mod document;
mod driver_library;
mod drop_in;
mod errata;
mod extension_dll;
mod extension_library;
mod fake_library;
mod fake_nvml;
pub mod matrix;
mod program;
mod program_file;
mod python_environment;
mod release;
mod release_facts;
mod share;
mod stand_in_driver;
mod temp_dir;
mod tuned;
mod virtual_environment;
mod wheel;
pub mod windows;

use cudnn_probe::Architecture;

/// The target triple of the tests.
pub const TARGET: &str = env!("TARGET_TRIPLE");

/// Returns cargo's arguments for the target of the tests, if that is not the host.
pub fn cross_target() -> &'static [&'static str] {
    if env!("HOST_TRIPLE") == TARGET { &[] } else { &["--target", TARGET] }
}

/// Returns whether the tests run in an emulator, and then prints that the test does not run. Emulators are slow, and
/// ignore the set-user-ID bit and limits of the address space.
pub fn is_emulated(test: &str, why: &str) -> bool {
    let is_emulated = env!("HOST_TRIPLE") != TARGET;
    if is_emulated {
        not_run(test, why);
    }
    is_emulated
}

/// Another architecture than the test machine's, and the low byte of the ELF machine number.
pub const FOREIGN: (Architecture, u8) =
    if cfg!(target_arch = "aarch64") { (Architecture::X86_64, 62) } else { (Architecture::AARCH64, 183) };

pub use binutils::{binutils, dynamic_entries, exported_symbols, load_and_jump};
pub use child::{Child, ChildOutput, Subject};
pub use compiler::{c_compiler, compile, cpp_compiler, run_compiler};
pub use cudnn_probe::{Library, Version};
pub use document::{check_document, check_rows, csv_line};
pub use driver_library::{PlanningLibraries, driver_and_compiler, nvrtc_once};
pub use drop_in::{client, drop_in, drop_in_alone, drop_in_of_profile, put_drop_in};
pub use errata::errata_for_all_releases;
pub use extension_dll::extension_dll;
pub use extension_library::ExtensionLibrary;
pub use fake_library::{FakeLibrary, copy_fake_dlls, copy_fake_set, fake_dll, graph_with};
pub use fake_nvml::FakeNvml;
pub use program::{doctor, example, example_library, lab, root, xtask};
pub use program_file::{copy_program, write_program};
pub use python_environment::{PythonEnvironment, PythonPackage};
pub use release::{OFFLINE_VARIABLE, full_releases, lib_dir, not_run, release, version};
pub use release_facts::{own_release_facts, store_release_facts};
pub use share::{Share, is_full};
pub use stand_in_driver::stand_in_driver;
pub use temp_dir::{TempDir, link_or_copy};
pub use tuned::{RANKINGS, tuned_for_all_releases};
pub use virtual_environment::{site_packages, venv_with_pip};
pub use wheel::Wheel;
