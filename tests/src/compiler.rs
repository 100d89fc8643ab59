//! Finds the C and C++ compilers through the crate `cc`, which respects `CC`, `CFLAGS` and cross compilers.

use std::path::Path;
use std::process::Command;

/// Returns the command that compiles C for the target of the tests.
///
/// # Panics
/// Panics if there is no C compiler.
#[must_use]
pub fn c_compiler() -> Command {
    compiler(false)
}

/// Returns the command that compiles C++ for the target of the tests.
///
/// # Panics
/// Panics if there is no C++ compiler.
#[must_use]
pub fn cpp_compiler() -> Command {
    compiler(true)
}

fn compiler(is_cpp: bool) -> Command {
    cc::Build::new()
        .host(env!("HOST_TRIPLE"))
        .target(env!("TARGET_TRIPLE"))
        .opt_level(0)
        .debug(false)
        .warnings(false)
        .cargo_metadata(false)
        .cpp(is_cpp)
        .try_get_compiler()
        .unwrap_or_else(|error| panic!("no C compiler: install one, or set CC to it ({error})"))
        .to_command()
}

/// Runs a compiler, which must succeed.
///
/// # Panics
/// Panics if the compiler fails.
pub fn run_compiler(command: &mut Command) {
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles C code to this file.
///
/// # Panics
/// Panics if the compiler fails.
pub fn compile(code: &str, flags: &[&str], file: &Path) {
    let source = file.with_extension("c");
    std::fs::write(&source, code).unwrap();
    run_compiler(c_compiler().args(flags).arg(&source).arg("-o").arg(file));
    std::fs::remove_file(source).unwrap();
}
