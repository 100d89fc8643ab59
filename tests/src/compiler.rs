//! Finds the C and C++ compilers through the crate `cc`, which respects `CC`, `CFLAGS` and cross compilers.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::copy_program;
use crate::program::{profile_dir, root};

/// Returns the command that compiles C for the target of the tests.
pub fn c_compiler() -> Command {
    compiler(false)
}

/// Returns the command that compiles C++ for the target of the tests.
pub fn cpp_compiler() -> Command {
    compiler(true)
}

fn compiler(is_cpp: bool) -> Command {
    // `cc` runs the compiler to recognize it.
    static FOUND: [OnceLock<cc::Tool>; 2] = [const { OnceLock::new() }; 2];
    let find = || {
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
    };
    FOUND[usize::from(is_cpp)].get_or_init(find).to_command()
}

/// Runs a compiler, which must succeed.
pub fn run_compiler(command: &mut Command) {
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles C code to this file.
pub fn compile(code: &str, flags: &[&str], file: &Path) {
    let mut compiler = c_compiler();
    compiler.args(flags);
    compiled_once(&format!("{}\n{code}", describe(&compiler)), file, |file| {
        let source = file.with_extension("c");
        std::fs::write(&source, code).unwrap();
        run_compiler(compiler.arg(&source).arg("-o").arg(file));
        std::fs::remove_file(source).unwrap();
    });
}

const HARNESS: &[&str] = &[
    include_str!("compiler.rs"),
    include_str!("driver_library.rs"),
    include_str!("extension_dll.rs"),
    include_str!("extension_library.rs"),
    include_str!("fake_library.rs"),
    include_str!("windows.rs"),
];

/// Describes a compiler with its arguments, directories and version, as an input of [`compiled_once`].
pub(crate) fn describe(compiler: &Command) -> String {
    static VERSIONS: Mutex<Option<HashMap<OsString, String>>> = Mutex::new(None);
    let program = compiler.get_program();
    let mut versions = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let version = versions.get_or_insert_default().entry(program.to_owned()).or_insert_with(|| {
        let output = Command::new(program).arg("--version").output();
        output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    let args: Vec<_> = compiler.get_args().collect();
    // The command also has all other variables of this process.
    let directories = ["COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH"];
    let directories = directories.map(std::env::var_os);
    format!("{program:?} {args:?} {directories:?} {version}")
}

/// Makes a file from these inputs, or copies the result of an earlier test program. Results are not stored if the
/// inputs name a file of this checkout or a temporary file, because the contents may change.
pub(crate) fn compiled_once(inputs: &str, file: &Path, build: impl FnOnce(&Path)) {
    let name_file_in = |dir: PathBuf| inputs.contains(dir.to_str().unwrap());
    if name_file_in(std::env::temp_dir()) || name_file_in(root().canonicalize().unwrap()) {
        return build(file);
    }
    let dir = profile_dir().join("compiled");
    let mut hasher = DefaultHasher::new();
    // A DLL contains its name.
    (inputs, file.file_name(), HARNESS).hash(&mut hasher);
    let kept = dir.join(format!("{:016x}", hasher.finish()));
    if !kept.exists() {
        std::fs::create_dir_all(&dir).unwrap();
        let unfinished = tempfile::tempdir_in(&dir).unwrap();
        let new = unfinished.path().join(file.file_name().unwrap());
        build(&new);
        std::fs::rename(new, &kept).unwrap();
    }
    // Replace the file, because copying into it would change the library of a running process.
    copy_program(kept, file);
}
