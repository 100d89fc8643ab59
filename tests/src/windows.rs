//! Compiles programs and DLLs for Windows with MinGW, and runs them under Wine. The tests themselves run on Linux,
//! because they start compilers and cargo.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::compiler::run_compiler;
use crate::{Child, ChildOutput, version, xtask};

/// The target triple of the programs for Windows.
pub const TARGET: &str = "x86_64-pc-windows-gnu";

/// The newest pinned release of cuDNN for Windows.
pub const RELEASE: &str = "windows-cu13";

/// Replaces placeholders in a text: `VERSION` by the version of [`RELEASE`] (9.28.1), `NUMBER` by the result of
/// `cudnnGetVersion` (92801), and `WHEEL` by the version of the wheel (9.28.1.4).
pub fn fill_in_release(text: &str) -> String {
    let (version, wheel) = (version(RELEASE), cudnn_fetch::release(RELEASE).unwrap().version);
    let number = version.major * 10_000 + version.minor * 100 + version.patch;
    text.replace("VERSION", &version.to_string()).replace("NUMBER", &number.to_string()).replace("WHEEL", wheel)
}

/// Returns MinGW's C compiler.
pub fn c_compiler() -> Command {
    Command::new("x86_64-w64-mingw32-gcc")
}

/// Returns MinGW's C++ compiler.
pub fn cpp_compiler() -> Command {
    Command::new("x86_64-w64-mingw32-g++")
}

/// Compiles C code to this file: a program, or a DLL with the flag `-shared`.
pub fn compile(code: &str, flags: &[&str], file: &Path) {
    let source = file.with_extension("c");
    std::fs::write(&source, code).unwrap();
    // Flags follow the source, because the linker only searches libraries for symbols of preceding files.
    run_compiler(c_compiler().arg(&source).arg("-o").arg(file).args(flags));
    std::fs::remove_file(source).unwrap();
}

/// Writes the import library of a DLL with these functions. The DLL may be missing.
pub fn import_library(dll: &str, functions: &[&str], file: &Path) {
    let definitions = file.with_extension("def");
    std::fs::write(&definitions, format!("LIBRARY \"{dll}\"\nEXPORTS\n{}\n", functions.join("\n"))).unwrap();
    let mut dlltool = Command::new("x86_64-w64-mingw32-dlltool");
    run_compiler(dlltool.arg("-d").arg(&definitions).arg("-l").arg(file));
}

/// Returns a child process that runs a Windows program, without variables of this machine that affect a search. Convert
/// paths in variables and arguments with [`path`].
pub fn child(program: &Path) -> Child {
    let mut child = Child::bare(concat!(env!("CARGO_MANIFEST_DIR"), "/wine")).argument(program).again_if(wine_failed);
    // Without this variable, Wine converts non-ASCII names incorrectly.
    child = child.env("LC_ALL", "C.UTF-8");
    // The script, Wine and the compiler use these variables.
    for name in ["PATH", "HOME", "CARGO_TARGET_DIR"] {
        if let Some(value) = std::env::var_os(name) {
            child = child.env(name, value);
        }
    }
    child
}

/// Returns whether Wine exited by itself. When several programs start at the same time, Wine 8 exits silently with 1
/// before one of some 3,000 programs begins. No program of the tests does this.
fn wine_failed(output: &ChildOutput) -> bool {
    output.code == Some(1) && output.stdout.is_empty() && output.stderr.is_empty()
}

/// Returns the value of `WINEPATH`, which becomes the start of `PATH`.
pub fn path_list(dirs: &[&Path]) -> OsString {
    let dirs: Vec<String> = dirs.iter().map(|dir| path(dir)).collect();
    dirs.join(";").into()
}

/// Returns the name of a local file under Wine, such as `Z:\tmp\x` for `/tmp/x`.
pub fn path(file: &Path) -> String {
    format!("Z:{}", file.to_str().expect("a path in UTF-8").replace('/', "\\"))
}

/// Returns the DLLs that a program or DLL imports, sorted by name.
pub fn imports(file: &Path) -> Vec<String> {
    let output = Command::new("x86_64-w64-mingw32-objdump").arg("-p").arg(file).output().expect("objdump starts");
    assert!(output.status.success(), "{file:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> =
        text.lines().filter_map(|line| Some(line.split_once("DLL Name: ")?.1.trim().to_owned())).collect();
    names.sort_unstable();
    names
}

/// Returns the directory that `cargo xtask dist` builds for Windows, with `bin/cudnn64_9.dll` in it.
pub fn drop_in() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let output = xtask().args(["dist", "--target", TARGET]).output().expect("it starts");
            assert!(output.status.success(), "cargo xtask dist: {}", String::from_utf8_lossy(&output.stderr));
            PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
        })
        .clone()
}

/// Compiles one of `tests/clients` against NVIDIA's headers in this directory, and links it to the drop-in.
pub fn client(source: &str, headers: &Path, flags: &[&str], file: &Path) {
    let mut compiler = if source.ends_with(".cpp") { cpp_compiler() } else { c_compiler() };
    compiler
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(source))
        .args(["-Wall", "-Werror", "-Wno-deprecated-declarations", "-Wno-cast-function-type", "-O1", "-static", "-o"])
        .arg(file)
        .arg("-isystem")
        .arg(headers)
        .args(["-isystem", concat!(env!("CARGO_MANIFEST_DIR"), "/../headers/cuda"), "-I"])
        .arg(drop_in().join("include"))
        .arg("-L")
        .arg(drop_in().join("lib"))
        .args(flags)
        .arg("-l:libcudnn.dll.a");
    run_compiler(&mut compiler);
}

/// Builds a program of this workspace for Windows, once per test program: `build("cudnn-tests", "driver", &[])`.
pub fn build(package: &str, program: &str, arguments: &[&str]) -> PathBuf {
    cargo_build(package, &[&["--bin", program], arguments].concat());
    target_dir().join(TARGET).join("debug").join(program).with_extension("exe")
}

/// Builds an example of a package of this workspace for Windows.
pub fn build_example(package: &str, example: &str) -> PathBuf {
    cargo_build(package, &["--example", example]);
    target_dir().join(TARGET).join("debug/examples").join(example).with_extension("exe")
}

fn cargo_build(package: &str, arguments: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--target", TARGET, "--package", package])
        .args(arguments)
        .current_dir(&root)
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{package} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn target_dir() -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()).clone()
}
