//! Defines the search rules for Windows: Python and conda layouts, system directories, `PATH`, and NVIDIA's installers.
//!
//! Paths below a root are joined part by part to use consistent separators.

use crate::facts::{self, PathFacts, canonicalize};
use std::path::{Path, PathBuf};

use cudnn_os::files::below;

use crate::library::Library;
use crate::platform::Os;

use super::given::{CUDA_VARIABLES, Given, Stage, included_home, is_denied, python};
use super::origin::{Candidate, Origin};

/// The rules of the search, in order.
pub(super) const STAGES: &[Stage] =
    &[Given::already_loaded, adjacent, python_environments, system_dirs, path, cuda_variables, well_known];

/// The subdirectories with wheels in a package directory. PyTorch contains its own cuDNN.
const WHEELS: [&str; 3] = ["nvidia/cudnn/bin", "nvidia/cudnn/bin/x86_64", "nvidia/cudnn/bin/x64"];
const TORCH: &str = "torch/lib";

/// Windows searches the directory of the program, but not directories next to it.
fn adjacent(given: &Given) -> Vec<Candidate> {
    let mut found: Vec<Candidate> =
        given.adjacent.iter().map(|dir| Candidate::new(dir, Origin::AdjacentToLibrary)).collect();
    found.extend(given.host.program_dir().map(|dir| Candidate::new(dir, Origin::Adjacent)));
    found
}

fn python_environments(given: &Given) -> Vec<Candidate> {
    let mut found = Vec::new();
    for origin in environments(given) {
        if let Some(root) = origin.root() {
            found.extend(wheels(root, &origin));
            if let Origin::Conda(root) = &origin {
                found.push(Candidate::new(below(root, "Library/bin"), origin.clone()));
            }
        }
    }
    found
}

pub(super) fn environments(given: &Given) -> Vec<Origin> {
    let active = given.absolute("VIRTUAL_ENV");
    let mut found: Vec<Origin> = active.clone().map(Origin::VirtualEnvironment).into_iter().collect();
    if let Some(root) = &active {
        add_base_python(given, root, &mut found);
    }
    let conda = given.absolute("CONDA_PREFIX");
    found.extend(conda.clone().map(Origin::Conda));
    match python_on_path(given) {
        Some(OnPath::Environment(root, is_virtual)) => {
            if active.as_ref() != Some(&root) && conda.as_ref() != Some(&root) {
                found.push(Origin::Python(root.clone()));
                add_base_python(given, &root, &mut found);
            }
            // A virtual environment includes packages of the user only together with packages of the base Python.
            if active.is_none() && !is_virtual {
                found.extend(user_roots(given, &root).into_iter().map(|user| python(user, None)));
            }
        }
        Some(OnPath::Store(roots)) if active.is_none() => found.extend(roots.into_iter().map(Origin::Python)),
        _ => {}
    }
    found
}

/// Adds further package roots of a virtual environment that was created with `--system-site-packages`, in Python's
/// order.
fn add_base_python(given: &Given, environment: &Path, found: &mut Vec<Origin>) {
    if let Some(base) = included_home(environment).and_then(base_of_home) {
        found.extend(user_roots(given, &base).into_iter().map(|root| python(root, Some(environment))));
        found.push(python(base, Some(environment)));
    }
}

/// Returns the roots of `pip install --user` for the Python with this root, such as `%APPDATA%\Python\Python312`.
fn user_roots(given: &Given, base: &Path) -> Vec<PathBuf> {
    let Some(all) = given.host.user_base(Os::Windows) else { return Vec::new() };
    let versions = python_versions(base);
    let is_of_base = |name: &str| versions.is_empty() || versions.iter().any(|version| version == name);
    numbered(&all, |name| name.strip_prefix("Python").filter(|version| is_of_base(version)).and_then(nodot))
}

/// Returns the versions of a Python from the names of the DLLs, such as `312` for `python312.dll`.
fn python_versions(root: &Path) -> Vec<String> {
    let entries = facts::read_dir(root).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let version = |name: String| {
        let name = name.to_ascii_lowercase();
        // `python3.dll` supports all versions.
        let version = name.strip_prefix("python")?.strip_suffix(".dll")?;
        nodot(version).filter(|_| version.len() > 1).map(|_| version.to_owned())
    };
    names.filter_map(version).collect()
}

/// Parses the major and minor version in `312`, `313t` or `312-32`.
fn nodot(version: &str) -> Option<(u32, u32)> {
    let digits = version.split('-').next()?.trim_end_matches('t');
    let (major, minor) = digits.split_at_checked(1)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A Python on `PATH`.
enum OnPath {
    /// The root of the environment, and whether it is a virtual environment.
    Environment(PathBuf, bool),
    /// A Python from the Microsoft Store with these package roots. The interpreter is not a file that can be resolved.
    Store(Vec<PathBuf>),
}

/// Returns the first Python on `PATH` without executing it.
fn python_on_path(given: &Given) -> Option<OnPath> {
    let path = given.host.variable("PATH")?;
    for dir in std::env::split_paths(&path).filter(|dir| dir.is_absolute()) {
        if dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("WindowsApps")) {
            // Windows also has this program if Python is not installed, to open the Store.
            let roots = store_roots(given);
            if dir.join("python.exe").path_exists() && !roots.is_empty() {
                return Some(OnPath::Store(roots));
            }
        } else if dir.join("python.exe").leads_to_file() {
            let (root, is_virtual) = environment_of(&dir.join("python.exe"))?;
            return Some(OnPath::Environment(root, is_virtual));
        }
    }
    None
}

/// Returns directories like
/// `%LOCALAPPDATA%\Packages\PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0\LocalCache\local-packages\Python312`.
fn store_roots(given: &Given) -> Vec<PathBuf> {
    let Some(all) = given.absolute("LOCALAPPDATA").map(|data| data.join("Packages")) else { return Vec::new() };
    let version = |name: &str| dotted(name.strip_prefix("PythonSoftwareFoundation.Python.")?.split('_').next()?);
    let packages = numbered(&all, version).into_iter().map(|package| below(&package, "LocalCache/local-packages"));
    packages.flat_map(|packages| numbered(&packages, |name| nodot(name.strip_prefix("Python")?))).collect()
}

/// Returns the environment of a Python interpreter, and whether it is a virtual environment. The environment is the
/// directory above `Scripts`, or the directory of the interpreter for an installed Python or conda.
pub(super) fn environment_of(python: &Path) -> Option<(PathBuf, bool)> {
    let dir = python.parent()?;
    let is_scripts = dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Scripts"));
    let above = dir.parent().filter(|_| is_scripts);
    if let Some(root) = above.filter(|root| root.join("pyvenv.cfg").target_exists()) {
        return Some((root.to_owned(), true));
    }
    let program = canonicalize(python).ok()?;
    let real = program.parent()?;
    let is_same = canonicalize(dir).is_ok_and(|dir| dir == real);
    Some((if is_same { dir.to_owned() } else { real.to_owned() }, false))
}

/// Returns the root of the Python with this program directory, which is the same directory.
pub(super) fn base_of_home(home: PathBuf) -> Option<PathBuf> {
    canonicalize(home).ok()
}

/// Returns the directories of cuDNN wheels below the root of an environment, followed by PyTorch's directory if it
/// contains cuDNN.
pub(super) fn wheels(root: &Path, origin: &Origin) -> Vec<Candidate> {
    let mut found = Vec::new();
    // The package roots of a user do not have a `Lib` directory.
    for packages in ["Lib/site-packages", "site-packages"] {
        let packages = below(root, packages);
        if matches!(origin, Origin::VirtualEnvironment(_)) && is_denied(&packages.join(".")) {
            found.push(Candidate::new(packages, origin.clone()));
            continue;
        }
        for wheel in WHEELS {
            let dir = below(&packages, wheel);
            if dir.leads_to_dir() || is_denied(&dir) {
                found.push(Candidate::new(dir, origin.clone()));
            }
        }
        let torch = below(&packages, TORCH);
        let shims = [Library::Shim.windows_name(), Library::Graph.windows_name(), "cudnn64_8.dll"];
        if shims.iter().any(|shim| torch.join(shim).target_exists()) {
            found.push(Candidate::new(torch, origin.clone()));
        }
    }
    found
}

/// Returns the directories that Windows searches before `PATH`.
fn system_dirs(given: &Given) -> Vec<Candidate> {
    let root = given.absolute("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    let dirs = [root.join("System32"), root].into_iter().filter(|dir| dir.is_absolute());
    dirs.map(|dir| Candidate::new(dir, Origin::SystemDir)).collect()
}

/// Returns the absolute directories in `PATH`. Relative ones would depend on the working directory.
fn path(given: &Given) -> Vec<Candidate> {
    let path = given.host.variable("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| Candidate::new(dir, Origin::Path)).collect()
}

fn cuda_variables(given: &Given) -> Vec<Candidate> {
    let mut found = Vec::new();
    for name in CUDA_VARIABLES {
        let Some(root) = given.absolute(name) else { continue };
        found.push(Candidate::new(root.join("bin"), Origin::CudaVariable(name.into())));
        let further = bin_dirs(&root).into_iter().skip(1);
        found.extend(further.map(|dir| Candidate::new(dir, Origin::CudaVariable(name.into()))));
    }
    found
}

/// Returns the directories that NVIDIA's installers of cuDNN and CUDA create, newest first.
fn well_known(given: &Given) -> Vec<Candidate> {
    let programs = given.absolute("ProgramFiles").unwrap_or_else(|| r"C:\Program Files".into());
    let version = |name: &str| dotted(name.strip_prefix('v').or_else(|| name.strip_prefix('V'))?);
    let mut found = Vec::new();
    for products in ["NVIDIA/CUDNN", "NVIDIA GPU Computing Toolkit/CUDA"] {
        for root in numbered(&below(&programs, products), version) {
            let dirs = bin_dirs(&root).into_iter().filter(|dir| dir.leads_to_dir());
            found.extend(dirs.map(|dir| Candidate::new(dir, Origin::WellKnown)));
        }
    }
    found
}

/// Returns the DLL directories below the root of a cuDNN or toolkit: `bin` (even if it does not exist), `bin\x64`, and
/// the directories per CUDA release of NVIDIA's cuDNN installer (`bin\12.9`, `bin\13.0\x64`), newest first.
fn bin_dirs(root: &Path) -> Vec<PathBuf> {
    let bin = root.join("bin");
    let mut found = vec![bin.clone()];
    let below_bin = numbered(&bin, dotted);
    let with_processor = |dir: PathBuf| [dir.join("x64"), dir];
    let further = [bin.join("x64")].into_iter().chain(below_bin.into_iter().flat_map(with_processor));
    found.extend(further.filter(|dir| dir.leads_to_dir()));
    found
}

/// Parses the numbers in `12.9` or `13`.
fn dotted(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the entries of a directory with version numbers as names, newest first.
fn numbered(dir: &Path, version: impl Fn(&str) -> Option<(u32, u32)>) -> Vec<PathBuf> {
    let entries = facts::read_dir(dir).into_iter().flatten();
    let entry = |entry: facts::DirEntry| Some((version(entry.file_name().to_str()?)?, entry.path()));
    let mut found: Vec<((u32, u32), PathBuf)> = entries.filter_map(entry).collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::host::Host;

    /// A directory that simulates a Windows machine on any system. Paths use the syntax of the current system.
    struct World(PathBuf);

    impl World {
        /// The name contains a space and non-ASCII characters.
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("cudnn probe größe {test} {}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            World(root)
        }

        fn file(&self, path: &str) -> PathBuf {
            let file = below(&self.0, path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            file
        }

        fn path(&self, path: &str) -> PathBuf {
            below(&self.0, path)
        }

        fn found(&self, given: &Given) -> Vec<(String, Origin)> {
            let candidates = STAGES.iter().flat_map(|stage| stage(given));
            let shown = |dir: &Path| dir.strip_prefix(&self.0).unwrap_or(dir).to_string_lossy().replace('\\', "/");
            candidates.map(|found| (shown(&found.dir), found.origin)).collect()
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn directories_of_windows_are_searched_in_the_documented_order() {
        let world = World::new("order");
        let venv = "venv/Lib/site-packages";
        for file in [
            "venv/Scripts/python.exe",
            "venv/Lib/site-packages/nvidia/cudnn/bin/cudnn64_9.dll",
            "venv/Lib/site-packages/nvidia/cudnn/bin/x86_64/cudnn64_9.dll",
            "venv/Lib/site-packages/torch/lib/cudnn64_9.dll",
            "conda/Library/bin/cudnn64_9.dll",
            "conda/Lib/site-packages/torch/lib/torch_cpu.dll",
            "conda/Lib/site-packages/nvidia/cudnn/bin/x",
            "Python312/python.exe",
            "Python312/python312.dll",
            "Python312/python3.dll",
            "Python312/Lib/site-packages/nvidia/cudnn/bin/x",
            "roaming/Python/Python312/site-packages/nvidia/cudnn/bin/x",
            "roaming/Python/Python313/site-packages/nvidia/cudnn/bin/x",
            "programs/NVIDIA/CUDNN/v9.9/bin/12.8/cudnn64_9.dll",
            "programs/NVIDIA/CUDNN/v9.28/bin/12.9/x64/cudnn64_9.dll",
            "programs/NVIDIA/CUDNN/v9.28/bin/13.0/x64/cudnn64_9.dll",
            "programs/NVIDIA GPU Computing Toolkit/CUDA/v12.9/bin/cudart64_12.dll",
            "programs/NVIDIA GPU Computing Toolkit/CUDA/v13.0/bin/x64/cudart64_13.dll",
            "programs/NVIDIA GPU Computing Toolkit/CUDA/v9.2/bin/cudart64_92.dll",
            "programs/NVIDIA GPU Computing Toolkit/CUDA/extras/bin/x",
            "cuda/bin/x64/cudart64_13.dll",
        ] {
            world.file(file);
        }
        std::fs::write(
            world.path("venv/pyvenv.cfg"),
            format!("home = {}\r\ninclude-system-site-packages = true\r\n", world.path("Python312").display()),
        )
        .unwrap();
        let path = std::env::join_paths([
            PathBuf::from("."),
            PathBuf::from("relative"),
            world.path("venv/Scripts"),
            world.path("tools"),
        ]);
        let host = Host::sandbox(&world.0)
            .executable(world.path("app/program.exe"))
            .env("VIRTUAL_ENV", world.path("venv"))
            .env("CONDA_PREFIX", world.path("conda"))
            .env("APPDATA", world.path("roaming"))
            .env("PATH", path.unwrap())
            .env("SystemRoot", world.path("windows"))
            .env("ProgramFiles", world.path("programs"))
            .env("CUDNN_PATH", world.path("programs/NVIDIA/CUDNN/v9.28"))
            .env("CUDA_PATH", world.path("cuda"));
        let mut given = Given::new(host);
        given.adjacent.push(world.path("shim"));
        given.loaded.push(world.path("loaded"));
        let in_venv = Origin::VirtualEnvironment(world.path("venv"));
        let of_base = |root: PathBuf| Origin::BasePython { root, environment: world.path("venv") };
        let base = canonicalize(world.path("Python312")).unwrap();
        let toolkits = "programs/NVIDIA GPU Computing Toolkit/CUDA";
        let expected = [
            ("loaded".to_owned(), Origin::Loaded),
            ("shim".to_owned(), Origin::AdjacentToLibrary),
            ("app".to_owned(), Origin::Adjacent),
            (format!("{venv}/nvidia/cudnn/bin"), in_venv.clone()),
            (format!("{venv}/nvidia/cudnn/bin/x86_64"), in_venv.clone()),
            (format!("{venv}/torch/lib"), in_venv),
            (
                "roaming/Python/Python312/site-packages/nvidia/cudnn/bin".to_owned(),
                of_base(world.path("roaming/Python/Python312")),
            ),
            ("Python312/Lib/site-packages/nvidia/cudnn/bin".to_owned(), of_base(base)),
            ("conda/Lib/site-packages/nvidia/cudnn/bin".to_owned(), Origin::Conda(world.path("conda"))),
            ("conda/Library/bin".to_owned(), Origin::Conda(world.path("conda"))),
            ("windows/System32".to_owned(), Origin::SystemDir),
            ("windows".to_owned(), Origin::SystemDir),
            ("venv/Scripts".to_owned(), Origin::Path),
            ("tools".to_owned(), Origin::Path),
            ("programs/NVIDIA/CUDNN/v9.28/bin".to_owned(), Origin::CudaVariable("CUDNN_PATH".into())),
            ("programs/NVIDIA/CUDNN/v9.28/bin/13.0/x64".to_owned(), Origin::CudaVariable("CUDNN_PATH".into())),
            ("programs/NVIDIA/CUDNN/v9.28/bin/13.0".to_owned(), Origin::CudaVariable("CUDNN_PATH".into())),
            ("programs/NVIDIA/CUDNN/v9.28/bin/12.9/x64".to_owned(), Origin::CudaVariable("CUDNN_PATH".into())),
            ("programs/NVIDIA/CUDNN/v9.28/bin/12.9".to_owned(), Origin::CudaVariable("CUDNN_PATH".into())),
            ("cuda/bin".to_owned(), Origin::CudaVariable("CUDA_PATH".into())),
            ("cuda/bin/x64".to_owned(), Origin::CudaVariable("CUDA_PATH".into())),
            ("programs/NVIDIA/CUDNN/v9.28/bin".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.28/bin/13.0/x64".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.28/bin/13.0".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.28/bin/12.9/x64".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.28/bin/12.9".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.9/bin".to_owned(), Origin::WellKnown),
            ("programs/NVIDIA/CUDNN/v9.9/bin/12.8".to_owned(), Origin::WellKnown),
            (format!("{toolkits}/v13.0/bin"), Origin::WellKnown),
            (format!("{toolkits}/v13.0/bin/x64"), Origin::WellKnown),
            (format!("{toolkits}/v12.9/bin"), Origin::WellKnown),
            (format!("{toolkits}/v9.2/bin"), Origin::WellKnown),
        ];
        let found = world.found(&given);
        for (index, expected) in expected.iter().enumerate() {
            assert_eq!(found.get(index), Some(expected), "{index} of {found:#?}");
        }
        assert_eq!(found.len(), expected.len(), "{found:#?}");
    }

    #[test]
    fn the_python_on_path_is_followed_to_its_packages() {
        let world = World::new("python");
        for file in [
            "Python313/python.exe",
            "Python313/python313.dll",
            "roaming/Python/Python313/site-packages/torch/lib/cudnn64_9.dll",
            "roaming/Python/Python312/site-packages/torch/lib/cudnn64_9.dll",
            "Apps/WindowsApps/python.exe",
            "alone/venv/Scripts/python.exe",
            "alone/venv/pyvenv.cfg",
            "alone/venv/Lib/site-packages/torch/lib/cudnn64_8.dll",
        ] {
            world.file(file);
        }
        let found = |path: &[&str]| {
            let path = std::env::join_paths(path.iter().map(|dir| world.path(dir))).unwrap();
            let host = Host::sandbox(&world.0)
                .env("PATH", path)
                .env("APPDATA", world.path("roaming"))
                .env("LOCALAPPDATA", world.path("local"));
            environments(&Given::new(host))
        };
        let python = |root: &str| Origin::Python(world.path(root));
        let installed = [python("Python313"), python("roaming/Python/Python313")];
        assert_eq!(found(&["Python313"]), installed);
        // If Python from the Store is not installed, the program only opens the Store.
        assert_eq!(found(&["Apps/WindowsApps", "Python313"]), installed);
        assert_eq!(found(&["alone/venv/Scripts", "Python313"]), [python("alone/venv")]);
        let torch = wheels(&world.path("alone/venv"), &Origin::Explicit);
        assert_eq!(torch.len(), 1, "{torch:?}");
        let store = "local/Packages/PythonSoftwareFoundation.Python.3.12_qbz5/LocalCache/local-packages/Python312";
        world.file(&format!("{store}/site-packages/nvidia/cudnn/bin/x"));
        assert_eq!(found(&["Apps/WindowsApps", "Python313"]), [python(store)]);
        assert_eq!(wheels(&world.path(store), &Origin::Explicit).len(), 1);
    }
}
