//! Creates fake Python environments: virtual environments, conda environments and system Pythons, with packages of any
//! name, metadata and files. Every call writes the files immediately.

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::extension_library::ExtensionLibrary;
use crate::fake_library::FakeLibrary;
use crate::program_file::write_program;

/// A directory that looks like a Python environment.
#[derive(Clone, Debug)]
pub struct PythonEnvironment {
    root: PathBuf,
    import_dir: PathBuf,
}

impl PythonEnvironment {
    /// Creates an isolated virtual environment of Python 3.12.
    pub fn venv(root: &Path) -> Self {
        PythonEnvironment::venv_of(root, Path::new("/usr"), false)
    }

    /// Creates a virtual environment from the Python in `bin` of this base, optionally with its packages
    /// (`--system-site-packages`).
    pub fn venv_of(root: &Path, base: &Path, includes_system: bool) -> Self {
        let environment = PythonEnvironment::at(root, "lib/python3.12/site-packages");
        let bin = base.join("bin");
        let settings =
            format!("home = {}\ninclude-system-site-packages = {includes_system}\nversion = 3.12.3\n", bin.display());
        std::fs::write(root.join("pyvenv.cfg"), settings).unwrap();
        environment.python3()
    }

    /// Creates a conda environment of Python 3.12.
    pub fn conda(root: &Path) -> Self {
        let environment = PythonEnvironment::at(root, "lib/python3.12/site-packages");
        std::fs::create_dir_all(root.join("conda-meta")).unwrap();
        std::fs::write(root.join("conda-meta/history"), "").unwrap();
        environment.python3()
    }

    /// Creates the environment of a Python installation, without `bin/python3`: see [`python3`](Self::python3). The
    /// import directory is `lib/python3.11/site-packages` for pyenv, `lib/python3/dist-packages` for Debian in `/usr`,
    /// and empty for a directory of `pip install --target`.
    pub fn at(root: &Path, import_dir: &str) -> Self {
        let environment = PythonEnvironment { root: root.to_owned(), import_dir: root.join(import_dir) };
        std::fs::create_dir_all(&environment.import_dir).unwrap();
        environment
    }

    /// Adds pip, as an empty package directory.
    pub fn pip(self) -> Self {
        std::fs::create_dir_all(self.import_dir.join("pip")).unwrap();
        self
    }

    /// Adds a `bin/python3` that exits immediately.
    pub fn python3(self) -> Self {
        write_program(self.root.join("bin/python3"), "#!/bin/sh\nexit 1\n");
        self
    }

    /// Returns the same environment with another import directory for the next packages, such as
    /// `lib64/python3.12/site-packages`.
    pub fn into_dir(&self, import_dir: &str) -> Self {
        PythonEnvironment::at(&self.root, import_dir)
    }

    /// Returns the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory with the packages.
    pub fn import_dir(&self) -> &Path {
        &self.import_dir
    }

    /// Installs a package like pip, with only the metadata.
    pub fn package(&self, name: &str, version: &str) -> PythonPackage {
        let stem = format!("{}-{version}", name.replace('-', "_"));
        let info_dir = self.import_dir.join(format!("{stem}.dist-info"));
        std::fs::create_dir_all(&info_dir).unwrap();
        let metadata = format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n");
        let package = PythonPackage { import_dir: self.import_dir.clone(), info_dir };
        // A record without files is damaged.
        let record = format!("{}/METADATA,,\n", package.info_dir.file_name().unwrap().to_string_lossy());
        package.info("METADATA", &metadata).info("INSTALLER", "pip\n").info("RECORD", &record)
    }

    /// Installs a package without files.
    pub fn with_package(self, name: &str, version: &str) -> Self {
        self.package(name, version);
        self
    }

    /// Writes a `.pth` file.
    pub fn with_pth(self, name: &str, text: &str) -> Self {
        std::fs::write(self.import_dir.join(name), text).unwrap();
        self
    }

    /// Writes a conda record. An example of `depends` is `cudnn >=9.10.1.4,<10.0a0`.
    pub fn with_conda_package(self, name: &str, version: &str, build: &str, depends: &[&str]) -> Self {
        let meta = self.root.join("conda-meta");
        std::fs::create_dir_all(&meta).unwrap();
        let record = serde_json::json!({
            "name": name, "version": version, "build": build, "depends": depends, "files": [],
            "channel": "https://conda.anaconda.org/conda-forge/linux-64",
        });
        std::fs::write(meta.join(format!("{name}-{version}-{build}.json")), record.to_string()).unwrap();
        self
    }
}

/// A package in a fake environment.
#[derive(Clone, Debug)]
pub struct PythonPackage {
    import_dir: PathBuf,
    info_dir: PathBuf,
}

impl PythonPackage {
    /// Adds a requirement (`Requires-Dist`).
    pub fn requires(self, requirement: &str) -> Self {
        self.metadata(&format!("Requires-Dist: {requirement}"))
    }

    /// Adds a line to the metadata.
    pub fn metadata(self, line: &str) -> Self {
        append(&self.info_dir.join("METADATA"), line);
        self
    }

    /// Writes or replaces a file in the metadata directory, for example `direct_url.json` or `METADATA`.
    pub fn info(self, name: &str, text: &str) -> Self {
        std::fs::write(self.info_dir.join(name), text).unwrap();
        self
    }

    /// Writes and records a file of the package. The path is relative to the import directory.
    pub fn file(self, path: &str, text: &str) -> Self {
        std::fs::write(self.place(path), text).unwrap();
        self
    }

    /// Writes and records a library that ld.so can load.
    pub fn library(self, path: &str, library: &ExtensionLibrary) -> Self {
        library.build(&self.place(path));
        self
    }

    /// Compiles and records a fake library of cuDNN.
    pub fn cudnn(self, path: &str, library: &FakeLibrary) -> Self {
        library.build(&self.place(path));
        self
    }

    /// Links and records a file.
    pub fn link(self, path: &str, target: &Path) -> Self {
        std::os::unix::fs::symlink(target, self.place(path)).unwrap();
        self
    }

    /// Marks the package as a link to this source directory (`pip install --editable`) through a `.pth` file.
    pub fn editable(self, source: &Path) -> Self {
        let mut url = String::new();
        let _ = write!(url, r#"{{"dir_info": {{"editable": true}}, "url": "file://{}"}}"#, source.display());
        let stem = self.info_dir.file_stem().unwrap().to_string_lossy().into_owned();
        let pth = self.import_dir.join(format!("__editable__.{stem}.pth"));
        std::fs::write(pth, format!("{}\n", source.display())).unwrap();
        self.info("direct_url.json", &url)
    }

    /// Returns the metadata directory.
    pub fn info_dir(&self) -> &Path {
        &self.info_dir
    }

    /// Returns the import directory that contains the package.
    pub fn import_dir(&self) -> &Path {
        &self.import_dir
    }

    /// Records a file, and creates missing directories.
    fn place(&self, path: &str) -> PathBuf {
        append(&self.info_dir.join("RECORD"), &format!("{path},,"));
        let file = self.import_dir.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }
}

fn append(file: &Path, line: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}
