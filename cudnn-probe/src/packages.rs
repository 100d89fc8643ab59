//! The one source of advice: which package contains which library, and the command that installs or reinstalls it. It
//! reads which pip an environment has, and runs nothing.
//!
//! NVIDIA distributes cuDNN, and the CUDA libraries that cuDNN needs, as wheels, conda packages, Debian packages and
//! RPMs, under different names. A command that helps must be the one of the installer that owns the files.
//!
//! ```
//! use cudnn_probe::packages::{Component, Installer, install, wheel_for};
//! assert_eq!(wheel_for("libcublasLt.so.13").as_deref(), Some("nvidia-cublas"));
//! let command = install(Component::Cudnn, 13, Installer::Conda).unwrap();
//! assert_eq!(command.to_string(), "conda install --channel conda-forge cudnn cuda-version=13");
//! ```

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::escape::is_unprintable;
use crate::platform::bytes_of;

/// The CUDA major version to advise if the program's is unknown.
pub const DEFAULT_CUDA_MAJOR: u32 = 12;

/// The tool, or the way, by which a cuDNN was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Installer {
    /// A wheel: pip, uv and others.
    Pip,
    /// conda, mamba or pixi.
    Conda,
    /// Debian's and Ubuntu's packages.
    Dpkg,
    /// RPM packages: Fedora, RHEL, SUSE.
    Rpm,
    /// NVIDIA's archive, unpacked by hand.
    Archive,
    /// An application that ships its own cuDNN.
    Application,
    /// Files copied into a CUDA toolkit, which comes without cuDNN.
    Toolkit,
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Installer::Pip => "pip",
            Installer::Conda => "conda",
            Installer::Dpkg => "dpkg",
            Installer::Rpm => "rpm",
            Installer::Archive => "archive",
            Installer::Application => "application",
            Installer::Toolkit => "CUDA toolkit directory",
        })
    }
}

/// The package that a cuDNN belongs to, by its installer's records. Displayed as `pip nvidia-cudnn-cu12 9.28.0.42`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// The tool that installed it.
    pub installer: Installer,
    /// The package's name: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The package's full version: `9.28.0.42`. Some records have none.
    pub version: Option<String>,
    /// The environment that it is installed in, or the root of the system or application.
    pub root: PathBuf,
}

impl Package {
    /// A package, by its installer's records.
    #[must_use]
    pub fn new(installer: Installer, name: &str, version: Option<&str>, root: impl Into<PathBuf>) -> Self {
        Package { installer, name: name.to_owned(), version: version.map(str::to_owned), root: root.into() }
    }

    /// Is this NVIDIA's package of cuDNN, and not a framework or an application that ships it?
    #[must_use]
    pub fn is_cudnn(&self) -> bool {
        match self.installer {
            Installer::Pip => self.name.starts_with("nvidia-cudnn"),
            Installer::Conda | Installer::Dpkg | Installer::Rpm => self.name.contains("cudnn"),
            Installer::Archive | Installer::Application | Installer::Toolkit => false,
        }
    }

    /// The part of cuDNN that this package contains, if it is NVIDIA's package of cuDNN.
    #[must_use]
    pub fn component(&self) -> Option<Component> {
        let component = if self.name.contains("-jit") { Component::CudnnJit } else { Component::Cudnn };
        self.is_cudnn().then_some(component)
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.installer, self.name)?;
        match &self.version {
            Some(version) => write!(f, " {version}"),
            None => Ok(()),
        }
    }
}

/// A library, or a set of libraries, that comes as one package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Component {
    /// All libraries of cuDNN.
    Cudnn,
    /// cuDNN with the engines that compile their kernels at run time, and no others.
    CudnnJit,
    /// cuBLAS: `libcublas` and `libcublasLt`.
    Cublas,
    /// NVRTC, the run-time compiler: `libnvrtc` and `libnvrtc-builtins`.
    Nvrtc,
    /// The CUDA runtime: `libcudart`.
    Cudart,
}

impl Component {
    /// All components.
    pub const ALL: &[Component] =
        &[Component::Cudnn, Component::CudnnJit, Component::Cublas, Component::Nvrtc, Component::Cudart];

    /// The component that a library belongs to, and the CUDA major version in its name: `libcublasLt.so.12` is
    /// cuBLAS for CUDA 12. The names of cuDNN's libraries have no CUDA version.
    #[must_use]
    pub fn from_soname(soname: &str) -> Option<(Component, Option<u32>)> {
        let (stem, version) = soname.split_once(".so").unwrap_or((soname, ""));
        let major = || version.strip_prefix('.')?.split('.').next()?.parse().ok();
        match stem {
            "libcublas" | "libcublasLt" => Some((Component::Cublas, major())),
            "libnvrtc" | "libnvrtc-builtins" => Some((Component::Nvrtc, major())),
            "libcudart" => Some((Component::Cudart, major())),
            _ if stem == "libcudnn" || stem.starts_with("libcudnn_") => Some((Component::Cudnn, None)),
            _ => None,
        }
    }

    /// The wheel on the Python package index. From CUDA 13 on, the names of the wheels of CUDA itself have no suffix.
    #[must_use]
    pub fn wheel(self, cuda_major: u32) -> String {
        match self {
            Component::Cudnn => format!("nvidia-cudnn-cu{cuda_major}"),
            Component::CudnnJit => format!("nvidia-cudnn-jit-cu{cuda_major}"),
            Component::Cublas | Component::Nvrtc | Component::Cudart => {
                let name = match self {
                    Component::Cublas => "nvidia-cublas",
                    Component::Nvrtc => "nvidia-cuda-nvrtc",
                    _ => "nvidia-cuda-runtime",
                };
                if cuda_major >= 13 { name.to_owned() } else { format!("{name}-cu{cuda_major}") }
            }
        }
    }

    /// The wheel as pip's requirement. A wheel whose name does not state the CUDA version is held to it by its own.
    #[must_use]
    pub fn requirement(self, cuda_major: u32) -> String {
        let wheel = self.wheel(cuda_major);
        if wheel.ends_with(&format!("-cu{cuda_major}")) { wheel } else { format!("{wheel}=={cuda_major}.*") }
    }

    /// The directory of the wheel's libraries, relative to the directory of packages.
    #[must_use]
    pub fn wheel_dir(self, cuda_major: u32) -> PathBuf {
        let of_cuda = |name: &str| {
            if cuda_major >= 13 { format!("nvidia/cu{cuda_major}/lib") } else { format!("nvidia/{name}/lib") }
        };
        PathBuf::from(match self {
            Component::Cudnn => "nvidia/cudnn/lib".to_owned(),
            Component::CudnnJit => "nvidia/cudnn_jit/lib".to_owned(),
            Component::Cublas => of_cuda("cublas"),
            Component::Nvrtc => of_cuda("cuda_nvrtc"),
            Component::Cudart => of_cuda("cuda_runtime"),
        })
    }

    /// The conda package on conda-forge, or on the channel before `::`. The package `cuda-version` selects the CUDA
    /// release that it is for.
    #[must_use]
    pub const fn conda_package(self) -> &'static str {
        match self {
            Component::Cudnn => "cudnn",
            Component::CudnnJit => "nvidia::libcudnn-jit",
            Component::Cublas => "libcublas",
            Component::Nvrtc => "cuda-nvrtc",
            Component::Cudart => "cuda-cudart",
        }
    }

    /// The package in NVIDIA's repositories for Debian, Ubuntu, Fedora, RHEL and SUSE. Packages of CUDA itself have
    /// a full CUDA release in their names, 12.9 for example; the result is `None` without the minor version.
    #[must_use]
    pub fn system_package(self, cuda_major: u32, cuda_minor: Option<u32>) -> Option<String> {
        let name = match self {
            Component::Cudnn => return Some(format!("libcudnn9-cuda-{cuda_major}")),
            Component::CudnnJit => return Some(format!("libcudnn9-jit-cuda-{cuda_major}")),
            Component::Cublas => "libcublas",
            Component::Nvrtc => "cuda-nvrtc",
            Component::Cudart => "cuda-cudart",
        };
        Some(format!("{name}-{cuda_major}-{}", cuda_minor?))
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Component::Cudnn => "cuDNN",
            Component::CudnnJit => "cuDNN (JIT only)",
            Component::Cublas => "cuBLAS",
            Component::Nvrtc => "NVRTC",
            Component::Cudart => "the CUDA runtime",
        })
    }
}

/// The wheel that contains this library: `nvidia-cublas-cu12` for `libcublasLt.so.12`. `None` for a library of neither
/// cuDNN nor CUDA, and for one of CUDA without a version in its name. For cuDNN's libraries the CUDA version is
/// unknown: see [`Component::wheel`].
#[must_use]
pub fn wheel_for(soname: &str) -> Option<String> {
    let (component, cuda_major) = Component::from_soname(soname)?;
    Some(component.wheel(cuda_major?))
}

/// A command for a person to run. `Display` renders it for a POSIX shell, with each argument quoted where necessary.
///
/// ```
/// use cudnn_probe::packages::Command;
/// let command = Command::new("pip", ["install", "nvidia-cudnn-cu12>=9.10"]);
/// assert_eq!(command.to_string(), "pip install 'nvidia-cudnn-cu12>=9.10'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Command {
    /// The program: a name to find on `PATH`, or a path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Command {
    /// A command.
    #[must_use]
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Command { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Does it need the rights of the administrator, as commands for the system's packages do?
    #[must_use]
    pub fn needs_root(&self) -> bool {
        self.program == "apt-get" || self.program == "dnf"
    }

    fn and<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.program))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Commands as one line for a POSIX shell: each runs only if the one before it succeeded.
#[must_use]
pub fn command_line(commands: &[Command]) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(" && ")
}

/// Text or a path as one word of a POSIX shell. The word is on one line and harmless on a terminal: `printf` makes
/// control characters, characters that change the direction of writing, and bytes that are not UTF-8.
///
/// `$(..)` drops line breaks at the end, and no other word of a POSIX shell is on one line. A trailing `/` keeps
/// them, so the word for such a name means a directory.
#[must_use]
pub fn quoted(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref();
    let Some(text) = text.to_str().filter(|text| !text.chars().any(is_unprintable)) else {
        let bytes = bytes_of(text);
        let end: &[u8] = if bytes.ends_with(b"\n") { b"/" } else { b"" };
        let escaped = |(index, byte): (usize, &u8)| match byte {
            // `%` and `\` are special to printf, `-` may begin an option, and `!` may recall a command.
            b'\'' | b'\\' | b'%' | b'!' => format!("\\{byte:03o}"),
            b' '..=b'~' if (index, byte) != (0, &b'-') => char::from(*byte).to_string(),
            other => format!("\\{other:03o}"),
        };
        return format!("\"$(printf '{}')\"", bytes.iter().chain(end).enumerate().map(escaped).collect::<String>());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    // A `=` in the first word of a command would be an assignment.
    let is_word = !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain);
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The command that installs a component into the active environment. `None` for an installer that has no such command
/// or whose package name needs more than the CUDA major version: see [`Component::system_package`].
#[must_use]
pub fn install(component: Component, cuda_major: u32, installer: Installer) -> Option<Command> {
    install_into(component, cuda_major, None, installer, None, None)
}

/// The command that installs a component next to this package: with the same installer, into the same environment. The
/// minor version of CUDA is needed for system packages of CUDA itself.
///
/// If pip has a record of the component, its files are installed again: a plain `install` would do nothing.
#[must_use]
pub fn install_beside(
    package: &Package,
    component: Component,
    cuda_major: u32,
    cuda_minor: Option<u32>,
) -> Option<Command> {
    if package.installer == Installer::Pip {
        let wheel = component.wheel(cuda_major);
        let is_for_this_cuda = |version: &String| {
            wheel.ends_with(&format!("-cu{cuda_major}")) || version.starts_with(&format!("{cuda_major}."))
        };
        if let Some(version) = recorded_version(&package.root, &wheel).filter(is_for_this_cuda) {
            return reinstall(&Package::new(Installer::Pip, &wheel, Some(&version), &package.root));
        }
    }
    install_into(component, cuda_major, cuda_minor, package.installer, Some(&package.root), None)
}

/// The commands that install a component into a directory that pip has not written to yet, and the directory's
/// subdirectory that then contains the libraries. For a cuDNN that no package manager owns.
#[must_use]
pub fn install_apart(component: Component, cuda_major: u32, target: &Path) -> (Command, PathBuf) {
    let command = Command::new("pip", ["install", "--no-deps", "--target"])
        .and([target])
        .and([component.requirement(cuda_major)]);
    (command, target.join(component.wheel_dir(cuda_major)))
}

fn install_into(
    component: Component,
    cuda_major: u32,
    cuda_minor: Option<u32>,
    installer: Installer,
    root: Option<&Path>,
    version: Option<&str>,
) -> Option<Command> {
    let pinned = |name: String, separator: &str| match version {
        Some(version) => format!("{name}{separator}{version}"),
        None => name,
    };
    let system = |separator: &str| Some(pinned(component.system_package(cuda_major, cuda_minor)?, separator));
    Some(match installer {
        Installer::Pip => {
            let requirement = match version {
                Some(version) => format!("{}=={version}", component.wheel(cuda_major)),
                None => component.requirement(cuda_major),
            };
            pip(root, "install", [requirement])?
        }
        Installer::Conda => {
            let specs = [pinned(component.conda_package().to_owned(), "="), format!("cuda-version={cuda_major}")];
            conda(root, specs, &[])
        }
        Installer::Dpkg => Command::new("apt-get", ["install".to_owned(), system("=")?]),
        Installer::Rpm => Command::new("dnf", ["install".to_owned(), system("-")?]),
        Installer::Archive | Installer::Application | Installer::Toolkit => return None,
    })
}

/// The command that replaces the files of a package by those of the same version: for damaged or deleted files. A plain
/// `install` would not touch them, since the installer's records list them as present.
///
/// `None` if no command can do it: for an archive or an application, for a package from a private index (a local
/// version such as `2.2.0+cu121`), for one outside of an environment (`pip install --target`), and for a record with a
/// name or version that the installer would not write. If several packages own the files, see [`replace`].
#[must_use]
pub fn reinstall(package: &Package) -> Option<Command> {
    if !is_plain_name(&package.name) {
        return None;
    }
    let pinned = |separator: &str| match &package.version {
        Some(version) if is_plain_name(version) => Some(format!("{}{separator}{version}", package.name)),
        Some(_) => None,
        None => Some(package.name.clone()),
    };
    let is_local = package.version.as_ref().is_some_and(|version| version.contains('+'));
    let root = Some(package.root.as_path());
    Some(match package.installer {
        Installer::Pip if is_local => return None,
        Installer::Pip => {
            pip(root, "install", ["--force-reinstall".to_owned(), "--no-deps".to_owned(), pinned("==")?])?
        }
        Installer::Conda => conda(root, [pinned("=")?], &["--force-reinstall"]),
        // Without the version: apt-get knows which one is installed.
        Installer::Dpkg => Command::new("apt-get", ["install", "--reinstall", &package.name]),
        Installer::Rpm => Command::new("dnf", ["reinstall", &package.name]),
        Installer::Archive | Installer::Application | Installer::Toolkit => return None,
    })
}

/// The command that brings a package to this cuDNN version or a newer one: `9.10.2`. `None` if the package is not
/// NVIDIA's: a framework's package decides which cuDNN it ships.
#[must_use]
pub fn upgrade(package: &Package, minimum: &str) -> Option<Command> {
    if !package.is_cudnn() || !is_plain_name(&package.name) {
        return None;
    }
    let root = Some(package.root.as_path());
    let at_least = format!("{}>={minimum}", package.name);
    Some(match package.installer {
        Installer::Pip => pip(root, "install", ["--upgrade".to_owned(), at_least])?,
        Installer::Conda => conda(root, [at_least], &[]),
        Installer::Dpkg => Command::new("apt-get", ["install", "--only-upgrade", &package.name]),
        Installer::Rpm => Command::new("dnf", ["upgrade", &package.name]),
        Installer::Archive | Installer::Application | Installer::Toolkit => return None,
    })
}

/// The commands that replace these packages, which own the same directory, by one. They repair a mix of two releases or
/// two CUDA versions, and change the CUDA version. pip silently overwrites the files of other packages, so the commands
/// remove all packages first. If the one to install is among them, it keeps its version, which a framework may require.
///
/// Empty if no command can do it.
#[must_use]
pub fn replace(packages: &[Package], component: Component, cuda_major: u32) -> Vec<Command> {
    let wheel = component.wheel(cuda_major);
    let same = packages.iter().filter(|package| package.installer == Installer::Pip && package.name == wheel);
    let version = same.filter_map(|package| package.version.as_deref()).rfind(|version| is_plain_name(version));
    replace_by(packages, component, cuda_major, version)
}

/// Like [`replace`], with the version to install: `9.10.2.21`.
#[must_use]
pub fn replace_by(packages: &[Package], component: Component, cuda_major: u32, version: Option<&str>) -> Vec<Command> {
    let is_plain = |package: &Package| package.is_cudnn() && is_plain_name(&package.name);
    let Some(first) = packages.first().filter(|_| packages.iter().all(is_plain)) else { return Vec::new() };
    let root = Some(first.root.as_path());
    // NVIDIA's packages for Debian and RPM have the version of the wheel, and a release number.
    let system_version = version.map(|version| format!("{version}-1"));
    let version = if first.installer == Installer::Pip || first.installer == Installer::Conda {
        version
    } else {
        system_version.as_deref()
    };
    let install = install_into(component, cuda_major, None, first.installer, root, version);
    let Some(install) = install else { return Vec::new() };
    let names = || packages.iter().map(|package| package.name.clone());
    let removal = match first.installer {
        Installer::Pip => pip_removals(&first.root, names().collect()),
        // conda solves for the environment and removes what does not fit.
        Installer::Conda => Vec::new(),
        Installer::Dpkg => vec![Command::new("apt-get", ["remove".to_owned()].into_iter().chain(names()))],
        Installer::Rpm => vec![Command::new("dnf", ["remove".to_owned()].into_iter().chain(names()))],
        Installer::Archive | Installer::Application | Installer::Toolkit => return Vec::new(),
    };
    removal.into_iter().chain([install]).collect()
}

/// Removes each package. An interrupted upgrade leaves two records of one package, of which pip removes one at a time.
fn pip_removals(root: &Path, mut names: Vec<String>) -> Vec<Command> {
    let mut commands = Vec::new();
    while !names.is_empty() {
        let mut now: Vec<String> = Vec::new();
        let mut later = Vec::new();
        for name in names {
            if now.contains(&name) { later.push(name) } else { now.push(name) }
        }
        commands.extend(pip(Some(root), "uninstall", ["--yes".to_owned()].into_iter().chain(now)));
        names = later;
    }
    commands
}

/// pip with these arguments, for the environment at this root: by its Python, since programs in `bin` do not survive every path, and not with
/// the modules of the working directory (`-I`). An environment without pip is served by the pip on `PATH`, or by uv if
/// uv made it. `None` for a directory that is no environment: pip cannot change what `pip install --target` wrote.
#[must_use]
pub fn pip(root: Option<&Path>, action: &str, arguments: impl IntoIterator<Item = String>) -> Option<Command> {
    let on_path = || Command::new("pip", [action]);
    let Some(root) = root.filter(|root| root.is_dir()) else { return Some(on_path().and(arguments)) };
    let python = root.join("bin/python3");
    let settings = std::fs::read_to_string(root.join("pyvenv.cfg")).ok();
    if !python.is_file() {
        let mut pythons = python_dirs(root).peekable();
        pythons.peek()?;
        let is_managed = pythons.any(|dir| is_externally_managed(Path::new("/usr/lib"), &dir));
        let user = (action == "install" && root.ends_with(".local")).then_some("--user");
        return Some(on_path().and(managed_option(is_managed)).and(user).and(arguments));
    }
    let is_managed = settings.is_none() && python_dirs(root).any(|dir| is_externally_managed(&root.join("lib"), &dir));
    let has_pip = site_packages(root).any(|dir| dir.join("pip").is_dir());
    let is_of_uv =
        settings.is_some_and(|text| text.lines().any(|line| line.split('=').next().unwrap_or("").trim() == "uv"));
    Some(if has_pip {
        Command::new(python, ["-I", "-m", "pip", action]).and(managed_option(is_managed)).and(arguments)
    } else if is_of_uv {
        // uv asks nothing.
        let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
        Command::new("uv", ["pip", action, "--python"]).and([python]).and(arguments)
    } else {
        Command::new("pip", ["--python"]).and([python]).and([action]).and(arguments)
    })
}

/// Distributions forbid pip to change their Python, unless asked like this.
fn managed_option(is_managed: bool) -> Option<&'static str> {
    is_managed.then_some("--break-system-packages")
}

fn is_externally_managed(lib: &Path, python_dir: &Path) -> bool {
    python_dir.file_name().is_some_and(|name| lib.join(name).join("EXTERNALLY-MANAGED").exists())
}

/// `lib/python3.12` below the root of an environment, for each Python.
fn python_dirs(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    // In most environments lib64 is a link to lib.
    let dirs = ["lib", "lib64"].map(|lib| root.join(lib)).into_iter().filter(|dir| !dir.is_symlink());
    let entries = dirs.flat_map(std::fs::read_dir).flatten();
    let is_python = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("python3");
    entries.flatten().filter(is_python).map(|entry| entry.path())
}

/// The directories of packages below the root of an environment.
pub fn site_packages(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    python_dirs(root).flat_map(|dir| ["site-packages", "dist-packages"].map(|name| dir.join(name)))
}

/// The version of a wheel that pip has a record of in this environment.
fn recorded_version(root: &Path, wheel: &str) -> Option<String> {
    let prefix = format!("{}-", wheel.replace('-', "_"));
    site_packages(root).flat_map(std::fs::read_dir).flatten().flatten().find_map(|entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix(&prefix)?.strip_suffix(".dist-info")?;
        is_plain_name(version).then(|| version.to_owned())
    })
}

fn conda(root: Option<&Path>, specs: impl IntoIterator<Item = String>, flags: &[&str]) -> Command {
    let prefix = root.map(|root| [OsString::from("--prefix"), root.as_os_str().to_owned()]);
    Command::new("conda", ["install"])
        .and(prefix.into_iter().flatten())
        .and(["--channel", "conda-forge"])
        .and(flags.iter().copied())
        .and(specs)
}

/// Is this a name or a version as package indexes have them? Names come from files, and one that begins with `-` would
/// be an option of the installer.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~:!".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(installer: Installer, name: &str, version: &str) -> Package {
        Package::new(installer, name, Some(version), "/env")
    }

    fn line(command: Option<Command>) -> String {
        command.map_or(String::new(), |command| command.to_string())
    }

    #[test]
    fn any_text_is_one_word_of_the_shell() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("~/x"), "'~/x'");
        assert_eq!(quoted("/größe"), "'/größe'");
        assert_eq!(quoted("\u{1b}[31m it's\n1"), r#""$(printf '\033[31m it\047s\0121')""#);
        assert_eq!(quoted("\u{202e}x%"), r#""$(printf '\342\200\256x\045')""#);
        assert_eq!(quoted("-n-\u{7f}"), r#""$(printf '\055n-\177')""#);
        assert_eq!(quoted("/x\n"), r#""$(printf '/x\012/')""#);
    }

    #[test]
    fn each_library_is_in_the_wheel_that_nvidia_publishes_for_its_cuda() {
        for (soname, wheel) in [
            ("libcublas.so.12", "nvidia-cublas-cu12"),
            ("libcublasLt.so.13", "nvidia-cublas"),
            ("libnvrtc.so.11.2", "nvidia-cuda-nvrtc-cu11"),
            ("libnvrtc-builtins.so.13.0", "nvidia-cuda-nvrtc"),
            ("libcudart.so.12", "nvidia-cuda-runtime-cu12"),
        ] {
            assert_eq!(wheel_for(soname).as_deref(), Some(wheel), "{soname}");
        }
        for soname in ["libcudnn_ops.so.9", "libcublas.so", "libcublasish.so.12", "libz.so.1", ""] {
            assert_eq!(wheel_for(soname), None, "{soname}");
        }
        assert_eq!(Component::from_soname("libcudnn_ops.so.9"), Some((Component::Cudnn, None)));
        assert_eq!(Component::Cudnn.wheel(13), "nvidia-cudnn-cu13");
        assert_eq!(Component::CudnnJit.wheel(12), "nvidia-cudnn-jit-cu12");
    }

    #[test]
    fn a_reinstallation_replaces_files_that_the_installer_has_recorded() {
        for (installer, name, expected) in [
            (
                Installer::Pip,
                "nvidia-cudnn-cu12",
                "pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.28.0.42",
            ),
            (
                Installer::Conda,
                "libcudnn",
                "conda install --prefix /env --channel conda-forge --force-reinstall libcudnn=9.28.0.42",
            ),
            (Installer::Dpkg, "libcudnn9-cuda-12", "apt-get install --reinstall libcudnn9-cuda-12"),
            (Installer::Rpm, "libcudnn9-cuda-12", "dnf reinstall libcudnn9-cuda-12"),
            (Installer::Archive, "cudnn-linux-x86_64-9.28.0.42_cuda12-archive", ""),
            (Installer::Application, "koharu", ""),
        ] {
            assert_eq!(line(reinstall(&package(installer, name, "9.28.0.42"))), expected);
        }
        assert_eq!(reinstall(&package(Installer::Pip, "torch", "2.2.0+cu121")), None);
    }

    #[test]
    fn a_hostile_record_gives_no_command() {
        for (name, version) in [
            ("nvidia-cudnn-cu12;touch X;#", "9"),
            ("--index-url=http://x", "9"),
            ("nvidia-cudnn-cu12", "9 --index-url=x"),
            ("", "9"),
        ] {
            let package = package(Installer::Pip, name, version);
            assert_eq!(reinstall(&package), None, "{name} {version}");
            assert!(name == "nvidia-cudnn-cu12" || replace(&[package], Component::Cudnn, 12).is_empty());
        }
    }

    #[test]
    fn packages_that_share_a_directory_are_all_removed_before_one_is_installed() {
        let two = [
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.10"),
            package(Installer::Pip, "nvidia-cudnn-cu13", "9.28"),
        ];
        assert_eq!(
            command_line(&replace(&two, Component::Cudnn, 13)),
            "pip uninstall --yes nvidia-cudnn-cu12 nvidia-cudnn-cu13 && pip install nvidia-cudnn-cu13==9.28"
        );
        // An interrupted upgrade left the record of the older version.
        let twice = [
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.10"),
            package(Installer::Pip, "nvidia-cudnn-cu12", "9.28"),
        ];
        assert_eq!(
            command_line(&replace(&twice, Component::Cudnn, 12)),
            "pip uninstall --yes nvidia-cudnn-cu12 && pip uninstall --yes nvidia-cudnn-cu12 && \
             pip install nvidia-cudnn-cu12==9.28"
        );
        let debian = [package(Installer::Dpkg, "libcudnn9-cuda-13", "9.28.0.42-1")];
        assert_eq!(
            command_line(&replace_by(&debian, Component::Cudnn, 12, Some("9.10.2.21"))),
            "apt-get remove libcudnn9-cuda-13 && apt-get install libcudnn9-cuda-12=9.10.2.21-1"
        );
        assert!(replace(&[package(Installer::Pip, "torch", "2.2.0")], Component::Cudnn, 13).is_empty());
        assert!(replace(&[], Component::Cudnn, 13).is_empty());
    }

    #[test]
    fn other_libraries_are_installed_where_cudnn_is() {
        let conda = package(Installer::Conda, "libcudnn", "9.10.1.4");
        assert_eq!(
            line(install_beside(&conda, Component::Cublas, 12, None)),
            "conda install --prefix /env --channel conda-forge libcublas cuda-version=12"
        );
        let debian = package(Installer::Dpkg, "libcudnn9-cuda-12", "9.10.1.4-1");
        assert_eq!(install_beside(&debian, Component::Nvrtc, 12, None), None);
        assert_eq!(line(install_beside(&debian, Component::Nvrtc, 12, Some(9))), "apt-get install cuda-nvrtc-12-9");
        assert_eq!(line(upgrade(&conda, "9.12")), "conda install --prefix /env --channel conda-forge 'libcudnn>=9.12'");
    }

    /// Each environment has another pip; a directory that is no environment has none.
    #[test]
    fn pip_is_that_of_the_environment() {
        let world = std::env::temp_dir().join(format!("cudnn-probe-pip-{}", std::process::id()));
        for (files, root, expected) in [
            (
                &["bin/python3", "pyvenv.cfg", "lib/python3.12/site-packages/pip/x"][..],
                "",
                "$/bin/python3 -I -m pip install x",
            ),
            (&["bin/python3", "pyvenv.cfg", "lib/python3.12/x"], "", "pip --python $/bin/python3 install x"),
            (
                &["bin/python3", "lib/python3.12/EXTERNALLY-MANAGED", "lib/python3.12/site-packages/pip/x"],
                "",
                "$/bin/python3 -I -m pip install --break-system-packages x",
            ),
            // The user's packages, and those of a Python elsewhere.
            (&[".local/lib/python3.99/site-packages/x"], ".local", "pip install --user x"),
            (&["lib/python3.99/dist-packages/x"], "", "pip install x"),
            (&["nvidia/cudnn/lib/x"], "", ""),
        ] {
            for file in files {
                let file = world.join(file);
                std::fs::create_dir_all(file.parent().unwrap_or(&world)).unwrap_or_default();
                std::fs::write(file, "").unwrap_or_default();
            }
            let root = if root.is_empty() { world.clone() } else { world.join(root) };
            let command = line(pip(Some(&root), "install", ["x".to_owned()]));
            let _ = std::fs::remove_dir_all(&world);
            assert_eq!(command.replace(world.to_str().unwrap_or_default(), "$"), expected, "{files:?}");
        }
    }
}
