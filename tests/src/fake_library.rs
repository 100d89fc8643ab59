//! Stand-ins for cuDNN's libraries, compiled with `cc`: for what real releases cannot show. Every function of the
//! table that belongs to the library is in it and returns 0.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use cudnn_loader::{Function, Version};
use cudnn_probe::Library;

/// A stand-in, described.
#[derive(Clone, Debug)]
pub struct FakeLibrary {
    library: Library,
    version: Version,
    without: Option<&'static str>,
    needs: Vec<String>,
    undefined: Option<&'static str>,
    ptx: Option<u16>,
    code: String,
    soname: String,
}

impl FakeLibrary {
    /// A good one of this version.
    #[must_use]
    pub fn new(library: Library, version: Version) -> Self {
        FakeLibrary {
            library,
            version,
            without: None,
            needs: Vec::new(),
            undefined: None,
            ptx: None,
            code: String::new(),
            soname: library.file_name().into(),
        }
    }

    /// Leaves a function out.
    #[must_use]
    pub fn without(mut self, function: &'static str) -> Self {
        self.without = Some(function);
        self
    }

    /// Has it need a library of this name.
    #[must_use]
    pub fn needing(mut self, soname: &str) -> Self {
        self.needs.push(soname.into());
        self
    }

    /// Has it need a symbol that nothing has.
    #[must_use]
    pub fn with_undefined(mut self, symbol: &'static str) -> Self {
        self.undefined = Some(symbol);
        self
    }

    /// Gives it GPU code of this PTX version: 8 comes with CUDA 12, 9 with CUDA 13.
    #[must_use]
    pub fn with_ptx(mut self, major: u16) -> Self {
        self.ptx = Some(major);
        self
    }

    /// Adds C code.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        self.code.push_str(code);
        self
    }

    /// Has it call itself otherwise.
    #[must_use]
    pub fn calling_itself(mut self, soname: &str) -> Self {
        self.soname = soname.into();
        self
    }

    /// Compiles it to this file.
    ///
    /// # Panics
    /// When `cc` fails.
    pub fn build(&self, file: &Path) {
        let dir = file.parent().unwrap();
        let source = dir.join(format!("{}.c", self.library.file_name()));
        std::fs::write(&source, self.source()).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-nostdlib", "-w", "-o"]).arg(file).arg(&source);
        command.arg(format!("-Wl,-soname,{}", self.soname)).arg("-Wl,--no-as-needed").arg("-Wl,-rpath,$ORIGIN");
        for needed in &self.needs {
            let stub = dir.join(needed);
            let made_here = !stub.exists();
            if made_here {
                let made = Command::new("cc")
                    .args(["-shared", "-nostdlib", "-w", "-x", "c", "/dev/null", "-o"])
                    .arg(&stub)
                    .arg(format!("-Wl,-soname,{needed}"))
                    .status();
                assert!(made.is_ok_and(|status| status.success()), "cc cannot make {needed}");
            }
            command.arg(&stub);
        }
        let output = command.output().expect("cc, which Rust links with, can be started");
        assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
        for needed in &self.needs {
            if !needed.starts_with("libcudnn") {
                std::fs::remove_file(dir.join(needed)).unwrap();
            }
        }
        std::fs::remove_file(source).unwrap();
    }

    fn source(&self) -> String {
        let mut text = self.code.clone();
        let Version { major, minor, patch } = self.version;
        if matches!(self.library, Library::Graph | Library::Shim) {
            let number = major * 10000 + minor * 100 + patch;
            let _ = writeln!(text, "unsigned long cudnnGetVersion(void) {{ return {number}; }}");
            text.push_str("const char *cudnnGetErrorString(int status) { return \"CUDNN_STATUS_SUCCESS\"; }\n");
            text.push_str(
                "void cudnnGetLastErrorString(char *message, unsigned long size) { if (size) *message = 0; }\n",
            );
        }
        if let Some(symbol) = self.library.version_symbol() {
            let _ = writeln!(text, "const unsigned char {symbol}[4] = {{{patch}, {minor}, {major}, 0}};");
        }
        if let Some(symbol) = self.undefined {
            let _ = writeln!(text, "extern int {symbol}(void); int use_{symbol}(void) {{ return {symbol}(); }}");
        }
        if let Some(major) = self.ptx {
            // One container with one PTX entry: header, then entry header, then no code.
            let _ = writeln!(
                text,
                "__attribute__((section(\".nv_fatbin\"), used)) const unsigned short fatbin[40] = \
                 {{0xed50, 0xba55, 1, 16, 64,0,0,0, 1, 0x101, 64, 0, 0,0,0,0, 0,0,0,0, 0, {major}, 75, 0}};"
            );
        }
        for function in Function::ALL {
            let name = function.name();
            let here = function.library().library() == self.library || self.library == Library::Shim;
            if here && Some(name) != self.without && !text.contains(&format!("{name}(")) {
                let _ = writeln!(text, "unsigned long {name}(void) {{ return 0; }}");
            }
        }
        text
    }
}

/// Compiles C code to this file.
///
/// # Panics
/// When `cc` fails.
pub fn compile(code: &str, flags: &[&str], file: &Path) {
    let source = file.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let output = Command::new("cc").args(flags).arg(&source).arg("-o").arg(file).output().expect("cc can be started");
    assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(source).unwrap();
}
