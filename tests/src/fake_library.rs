//! Compiles fake cuDNN libraries from C, for cases that real releases cannot show. A fake library exports the functions
//! of the real library, which return 0.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cudnn_loader::{Function, Version};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Library, Os};

use crate::compiler::{c_compiler, compile, compiled_once, describe, run_compiler};
use crate::temp_dir::TempDir;
use crate::windows;

/// A description of a fake library.
#[derive(Clone, Debug)]
pub struct FakeLibrary {
    os: Os,
    library: Library,
    version: Version,
    without: Option<&'static str>,
    needs: Vec<String>,
    imports: Vec<(String, String)>,
    undefined: Option<&'static str>,
    ptx: Option<u16>,
    code: String,
    soname: String,
    body: &'static str,
    has_rpath: bool,
    run_path: String,
}

impl FakeLibrary {
    /// Returns an intact library of this version.
    pub fn new(library: Library, version: Version) -> Self {
        FakeLibrary {
            os: Os::Linux,
            library,
            version,
            without: None,
            needs: Vec::new(),
            imports: Vec::new(),
            undefined: None,
            ptx: None,
            code: String::new(),
            soname: library.linux_name().into(),
            body: "return 0;",
            has_rpath: false,
            run_path: "$ORIGIN".into(),
        }
    }

    /// Makes it a Windows DLL, which has no run path and no name other than the file name.
    pub fn for_windows(mut self) -> Self {
        self.os = Os::Windows;
        self
    }

    /// Makes a DLL import a function from another DLL, which may be missing.
    pub fn importing(mut self, function: &str, dll: &str) -> Self {
        self.imports.push((function.into(), dll.into()));
        self
    }

    /// Omits a function.
    pub fn without(mut self, function: &'static str) -> Self {
        self.without = Some(function);
        self
    }

    /// Adds a dependency (DT_NEEDED) on a library of this name.
    pub fn needing(mut self, soname: &str) -> Self {
        self.needs.push(soname.into());
        self
    }

    /// Adds a reference to a symbol that no library defines.
    pub fn with_undefined(mut self, symbol: &'static str) -> Self {
        self.undefined = Some(symbol);
        self
    }

    /// Adds GPU code of this PTX version, such as 8 from CUDA 12 or 9 from CUDA 13.
    pub fn with_ptx(mut self, major: u16) -> Self {
        self.ptx = Some(major);
        self
    }

    /// Adds C code.
    pub fn with_code(mut self, code: &str) -> Self {
        self.code.push_str(code);
        self
    }

    /// Uses this body for all functions without C code.
    pub fn with_body(mut self, body: &'static str) -> Self {
        self.body = body;
        self
    }

    /// Writes a DT_RPATH in place of a DT_RUNPATH, like NVIDIA's shim from 9.21.1.
    pub fn with_rpath(mut self) -> Self {
        self.has_rpath = true;
        self
    }

    /// Sets a run path other than `$ORIGIN`.
    pub fn with_run_path(mut self, run_path: &str) -> Self {
        self.run_path = run_path.into();
        self
    }

    /// Sets another DT_SONAME.
    pub fn with_soname(mut self, soname: &str) -> Self {
        self.soname = soname.into();
        self
    }

    /// Compiles the library to this file.
    pub fn build(&self, file: &Path) {
        match self.os {
            Os::Windows => self.build_dll(file),
            _ => self.build_shared_object(file),
        }
    }

    fn build_dll(&self, file: &Path) {
        let mut code = self.source();
        for (number, (function, _)) in self.imports.iter().enumerate() {
            let _ = writeln!(
                code,
                "__declspec(dllimport) int {function}(void); int call_{number}(void) {{ return {function}(); }}"
            );
        }
        compiled_once(&format!("{} {:?}\n{code}", describe(&windows::c_compiler()), self.imports), file, |file| {
            let libraries = TempDir::new();
            // Build without an entry point and without the C library.
            let mut flags: Vec<String> = ["-shared", "-nostdlib", "-w", "-Wl,-e,0"].map(str::to_owned).to_vec();
            for (number, (function, dll)) in self.imports.iter().enumerate() {
                let library = libraries.path().join(format!("{number}.a"));
                windows::import_library(dll, &[function], &library);
                flags.push(library.to_str().unwrap().to_owned());
            }
            windows::compile(&code, &flags.iter().map(String::as_str).collect::<Vec<_>>(), file);
        });
    }

    fn build_shared_object(&self, file: &Path) {
        let source = self.source();
        let mut command = c_compiler();
        command.args(["-shared", "-fPIC", "-nostdlib", "-w", "-Wl,--no-as-needed"]);
        command.arg(format!("-Wl,-soname,{}", self.soname)).arg(format!("-Wl,-rpath,{}", self.run_path));
        command.arg(if self.has_rpath { "-Wl,--disable-new-dtags" } else { "-Wl,--enable-new-dtags" });
        compiled_once(&format!("{} {:?}\n{source}", describe(&command), self.needs), file, |file| {
            let stubs = TempDir::new();
            let source_file = stubs.path().join(format!("{}.c", self.library.linux_name()));
            std::fs::write(&source_file, &source).unwrap();
            command.arg(source_file).arg("-o").arg(file);
            for needed in &self.needs {
                stub(needed, &stubs.path().join(needed));
                command.arg(stubs.path().join(needed));
            }
            run_compiler(&mut command);
        });
        for needed in self.needs.iter().filter(|needed| needed.starts_with("libcudnn")) {
            let needed_file = file.with_file_name(needed);
            if !needed_file.exists() {
                stub(needed, &needed_file);
            }
        }
    }

    fn source(&self) -> String {
        let mut text = self.code.clone();
        let Version { major, minor, patch } = self.version;
        if matches!(self.library, Library::Graph | Library::Shim) {
            let number = major * 10000 + minor * 100 + patch;
            let _ = writeln!(text, "unsigned long long cudnnGetVersion(void) {{ return {number}; }}");
            text.push_str("const char *cudnnGetErrorString(int status) { return \"CUDNN_STATUS_SUCCESS\"; }\n");
            text.push_str(
                "void cudnnGetLastErrorString(char *message, unsigned long long size) { if (size) *message = 0; }\n",
            );
        }
        if let Some(symbol) = self.library.version_symbol() {
            let _ = writeln!(text, "const unsigned char {symbol}[4] = {{{patch}, {minor}, {major}, 0}};");
        }
        if let Some(symbol) = self.undefined {
            let _ = writeln!(text, "extern int {symbol}(void); int use_{symbol}(void) {{ return {symbol}(); }}");
        }
        if let Some(major) = self.ptx {
            // One container with one PTX entry: two headers and no code. DLLs limit section names to eight bytes.
            let section = if self.os == Os::Windows { ".nv_fatb" } else { ".nv_fatbin" };
            let _ = writeln!(
                text,
                "__attribute__((section(\"{section}\"), used)) const unsigned short fatbin[40] = \
                 {{0xed50, 0xba55, 1, 16, 64,0,0,0, 1, 0x101, 64, 0, 0,0,0,0, 0,0,0,0, 0, {major}, 50, 0}};"
            );
        }
        for function in Function::ALL {
            let name = function.name();
            // The functions of NVIDIA's shim reveal the release.
            let in_shim = self.library == Library::Shim && function.since() <= self.version;
            let here = function.library() == self.library || in_shim;
            if here && Some(name) != self.without && !text.contains(&format!("{name}(")) {
                let _ = writeln!(text, "unsigned long long {name}(void) {{ {} }}", self.body);
            }
        }
        text
    }
}

fn stub(soname: &str, file: &Path) {
    compile("", &["-shared", "-nostdlib", "-w", &format!("-Wl,-soname,{soname}")], file);
}

/// Returns a directory with a fake graph library of release 9.19.0 that contains this C code.
pub fn graph_with(code: &str) -> TempDir {
    let dir = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).build(&dir.file(Library::Graph));
    dir
}

/// Copies a complete fake cuDNN of this version for CUDA 12 into a directory.
pub fn copy_fake_set(version: Version, to: &Path) {
    copy_set(Os::Linux, version, 8, to);
}

/// Copies the DLLs of a complete fake cuDNN of this version into a directory, with NVIDIA's imports and GPU code of
/// this PTX version: 8 for CUDA 12, 9 for CUDA 13.
pub fn copy_fake_dlls(version: Version, ptx: u16, to: &Path) {
    copy_set(Os::Windows, version, ptx, to);
}

fn copy_set(os: Os, version: Version, ptx: u16, to: &Path) {
    type Set = ((Os, Version, u16), TempDir);
    static SETS: Mutex<Vec<Set>> = Mutex::new(Vec::new());
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = (os, version, ptx);
    if !sets.iter().any(|(known, _)| *known == wanted) {
        let dir = TempDir::new();
        for library in Library::ALL.iter().filter(|library| has_library(version, **library)) {
            let fake = match os {
                Os::Windows => fake_dll(*library, version),
                _ => FakeLibrary::new(*library, version),
            };
            fake.with_ptx(ptx).build(&dir.path().join(library.name_on(os)));
        }
        sets.push((wanted, dir));
    }
    let (_, from) = sets.iter().find(|(known, _)| *known == wanted).unwrap();
    for entry in std::fs::read_dir(from.path()).unwrap().flatten() {
        let file = to.join(entry.file_name());
        // Copying into the existing file would change the library of a running process.
        let _ = std::fs::remove_file(&file);
        std::fs::copy(entry.path(), file).unwrap();
    }
}

/// Returns a fake DLL with the same imports as NVIDIA's.
pub fn fake_dll(library: Library, version: Version) -> FakeLibrary {
    let mut fake = FakeLibrary::new(library, version).for_windows();
    for dependency in library.dependencies() {
        let function = Function::ALL.iter().find(|function| function.library() == *dependency);
        fake = fake.importing(function.unwrap().name(), dependency.windows_name());
    }
    fake
}
