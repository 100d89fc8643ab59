//! Finds the package that owns a cuDNN in the installers' records, without running anything.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cudnn_probe::facts::{self, Changes, PathFacts, entries_named, is_executable};
use cudnn_probe::image::links;
use cudnn_probe::python::{is_package_dir, root_of_packages};
use cudnn_probe::{Host, Library, Origin, Os, Search, Version, canonicalize, dir_of_wheel, ld_so, read_bounded};
use memchr::memmem;

use super::libraries::RecordedFile;
use super::package::{Installer, Package};
use crate::environment::layout::site_packages;
use crate::files::{file_name, read_text, real_path};
use crate::package::names::{PackageRecord, name_before_aside};
use crate::package::{conda, record};

/// The maximum size of a record in bytes. Debian's list of packages has a few megabytes.
const MAX_RECORD_LEN: u64 = 32 << 20;
/// The maximum size of an RPM database in bytes, which includes the files and change logs of all packages.
const MAX_RPM_DB_LEN: u64 = 512 << 20;
/// dpkg's list of packages, which changes whenever one is installed or removed.
pub const DPKG_STATUS: &str = "/var/lib/dpkg/status";
/// The question about a package in Debian's list.
const DEBIAN_PACKAGE: &str = "Debian package";
/// The maximum number of files that could be programs.
const MAX_PROGRAMS: usize = 1000;

/// The installers' records about a directory.
pub(super) struct InstallerRecords<'a> {
    dir: &'a Path,
    os: Os,
    host: &'a Host,
    wheels: Vec<WheelRecord>,
}

impl<'a> InstallerRecords<'a> {
    /// Reads the records of wheels. Other records are read on demand.
    pub(super) fn read(dir: &'a Path, os: Os, host: &'a Host) -> Self {
        let mut read = HashSet::new();
        let wheels = names_of(dir, host).into_iter().filter_map(|name| wheels(&name, os)).flatten();
        let wheels = wheels.filter(|wheel| read.insert(real_path(&wheel.info_dir))).collect();
        InstallerRecords { dir, os, host, wheels }
    }

    /// Returns the packages with this file, from the first installer that recorded it. Several packages were installed
    /// over one another. `version`, the version of the libraries, selects one of several packages in RPM's database.
    pub(super) fn packages(&self, file: &str, version: Option<Version>) -> Vec<Package> {
        let (dir, host) = (self.dir, self.host);
        let wheels = self.wheels.iter().filter(|wheel| wheel.has(file));
        let mut wheels: Vec<Package> = wheels.map(|wheel| wheel.package.clone()).collect();
        // If an environment's directory is a link to another environment, both may have the record.
        let mut known = HashSet::new();
        wheels.retain(|package| known.insert((package.name.clone(), package.version.clone())));
        if !wheels.is_empty() {
            return wheels;
        }
        let package = conda_owner(dir, file);
        let package = match self.os {
            Os::Linux => package.or_else(|| dpkg(dir, file, host)).or_else(|| rpm(dir, version?, host)),
            _ => package.or_else(|| windows_installer(dir)),
        };
        let package = package.or_else(|| archive(dir)).or_else(|| toolkit(dir));
        let package = match self.os {
            Os::Linux => package.or_else(|| application(dir, host)),
            _ => package.or_else(|| windows_application(dir, host)),
        };
        package.into_iter().collect()
    }

    /// Returns a file's sizes and hashes in the records of wheels.
    pub(super) fn recorded(&self, file: &Path) -> Vec<RecordedFile> {
        let listed = |wheel: &WheelRecord| {
            let (len, sha256) = wheel.files.get(file_name(file))?.clone();
            Some(RecordedFile { package: wheel.package.clone(), len: len?, sha256 })
        };
        self.wheels.iter().filter_map(listed).collect()
    }

    /// Returns whether the package lists a file with this name, even if the file is missing.
    pub(super) fn has(&self, file: &str, package: Option<&Package>) -> bool {
        match package.map(|package| package.installer) {
            Some(Installer::Pip) => self.wheels.iter().any(|wheel| wheel.has(file)),
            Some(Installer::Conda) => conda_owner(self.dir, file).is_some(),
            Some(Installer::Dpkg) => dpkg(self.dir, file, self.host).is_some(),
            // RPM's file lists are not read, because the full cuDNN package contains all libraries.
            Some(Installer::Rpm) => true,
            _ => false,
        }
    }

    /// Returns the targets of these files that are outside the Debian package of the others.
    pub(super) fn unowned<'f>(&self, package: Option<&Package>, files: impl Iterator<Item = &'f Path>) -> Vec<PathBuf> {
        if package.is_none_or(|package| package.installer != Installer::Dpkg) {
            return Vec::new();
        }
        let lists = dpkg_lists(self.host);
        let is_unowned = |file: &PathBuf| {
            self.host.strip_root(file).is_some_and(|file| !lists.iter().any(|(_, list)| is_listed(list, &file)))
        };
        let mut found: Vec<PathBuf> = files.filter_map(|file| canonicalize(file).ok()).filter(is_unowned).collect();
        found.sort();
        found.dedup();
        found
    }
}

/// A wheel and the files in one directory, with lengths and sha256 hashes. If the record is missing or damaged, there
/// are no files, and this is the wheel that fills the directory.
struct WheelRecord {
    package: Package,
    info_dir: PathBuf,
    files: HashMap<String, (Option<u64>, Option<String>)>,
}

impl WheelRecord {
    fn has(&self, file: &str) -> bool {
        self.files.is_empty() || self.files.contains_key(file)
    }
}

/// Returns the directory that a cuDNN wheel fills.
fn own_dir(package: &Package) -> Option<String> {
    Some(format!("nvidia/{}", dir_of_wheel(&package.name).filter(|_| package.is_cudnn())?))
}

/// Returns the directory's names below the packages of environments, which may contain links, and then the directory.
fn names_of(dir: &Path, host: &Host) -> Vec<PathBuf> {
    let environments = Search::new(host.clone()).environments();
    let sites = environments.iter().filter_map(Origin::root).flat_map(site_packages);
    let places = sites.flat_map(|site| [site.join("nvidia"), site]);
    let named = places.filter_map(|place| Some(place.join(dir.strip_prefix(real_path(&place)).ok()?)));
    let mut names: Vec<PathBuf> = named.chain([dir.to_owned()]).collect();
    names.dedup();
    names
}

/// Returns the wheels with files in a directory such as `ROOT/lib/python3.12/site-packages/nvidia/cudnn/lib`.
fn wheels(dir: &Path, os: Os) -> Option<Vec<WheelRecord>> {
    let environment = dir.ancestors().skip(1).take(4).find(|dir| is_package_dir(dir));
    // Directories of `pip install --target` have any name.
    let site_packages = environment.or(dir.ancestors().nth(3))?;
    let prefix = format!("{}/", dir.strip_prefix(site_packages).ok()?.to_str()?.replace('\\', "/"));
    let root = environment.and_then(|environment| root_of_packages(environment, os)).unwrap_or(site_packages);
    let read = |(package, info_dir): (Package, PathBuf)| {
        let lines = record::lines_with(&info_dir, &prefix);
        let file = |line: &String| {
            let (path, hash, len) = record::parse(line)?;
            let sha256 = hash.strip_prefix("sha256=").map(str::to_owned);
            Some((path.strip_prefix(&prefix)?.to_owned(), (len.parse().ok(), sha256)))
        };
        let files: HashMap<_, _> = lines.iter().filter_map(file).collect();
        let below = || prefix.strip_prefix(&own_dir(&package)?);
        let is_its_own = || matches!(below(), Some("/lib/" | "/bin/")) && record::record_damage(&info_dir).is_some();
        (!files.is_empty() || is_its_own()).then_some(WheelRecord { package, info_dir, files })
    };
    let installed: Vec<WheelRecord> = installed_wheels(site_packages, root).filter_map(read).collect();
    // Records under another name count only if no other package has the files.
    let interrupted = || interrupted_wheels(site_packages, root).filter_map(read).collect();
    Some(if installed.is_empty() { interrupted() } else { installed })
}

fn installed_wheels(site_packages: &Path, root: &Path) -> impl Iterator<Item = (Package, PathBuf)> {
    let dirs = entries_named(site_packages, "*.dist-info", |name| name.ends_with(".dist-info"));
    dirs.into_iter().filter_map(|dir| wheel(PackageRecord::from_dist_info(dir)?, root))
}

fn wheel(record: PackageRecord, root: &Path) -> Option<(Package, PathBuf)> {
    Some((Package::new(Installer::Pip, &record.name, Some(&record.version?), root), record.path))
}

/// Returns the wheels with records that an interrupted pip or `fix` has renamed, unless they are installed again:
/// `~vidia_cudnn_cu12-9.19.0.56.dist-info` or `nvidia_cudnn_cu12-9.19.0.56.dist-info.aside-1`.
fn interrupted_wheels(site_packages: &Path, root: &Path) -> impl Iterator<Item = (Package, PathBuf)> {
    let before = |name: &str| match name.strip_prefix("~vidia_") {
        Some(rest) => Some(format!("nvidia_{rest}")),
        None => name_before_aside(name).map(str::to_owned),
    };
    let installed: Vec<Package> = installed_wheels(site_packages, root).map(|(package, _)| package).collect();
    let of_pip = entries_named(site_packages, "~*.dist-info", |name| name.starts_with("~vidia_"));
    let aside = entries_named(site_packages, "*.dist-info.aside-*", |name| name_before_aside(name).is_some());
    of_pip.into_iter().chain(aside).filter_map(move |path| {
        let record = PackageRecord::from_dist_info(before(file_name(&path))?.into())?;
        let is_new = installed.iter().all(|package| package.name != record.name);
        wheel(PackageRecord { path, ..record }, root).filter(|_| is_new)
    })
}

/// Returns the cuDNN packages with a deleted main library that pip or conda recorded in this environment.
pub fn deleted_packages(root: &Path) -> Vec<Package> {
    let mut found = Vec::new();
    for site_packages in site_packages(root) {
        let wheels = installed_wheels(&site_packages, root).chain(interrupted_wheels(&site_packages, root));
        let wheels = wheels.filter(|(package, _)| package.is_cudnn());
        let is_deleted = |package: &Package, info_dir: &Path| {
            let lines = record::lines_with(info_dir, "cudnn");
            let files = lines.iter().filter_map(|line| record::parse(line)).map(|(file, ..)| file.to_owned());
            let mut files: Vec<String> = files.filter(|file| is_main(file)).collect();
            // If the record is damaged, assume the usual path.
            let is_of_9 = package.version.as_ref().is_some_and(|version| version.starts_with("9."));
            if let Some(dir) = own_dir(package).filter(|_| files.is_empty() && is_of_9) {
                let (inner, os) = if Os::HOST == Os::Windows { ("bin", Os::Windows) } else { ("lib", Os::Linux) };
                files.push(format!("{dir}/{inner}/{}", Library::Graph.name_on(os)));
            }
            files.iter().any(|file| is_deleted(&site_packages.join(file)))
        };
        found.extend(wheels.filter(|(package, info_dir)| is_deleted(package, info_dir)).map(|(package, _)| package));
    }
    let is_deleted = |file: &String| is_main(file) && is_deleted(&root.join(file));
    let deleted = records_of_conda(root).into_iter().filter(|record| record.files.iter().any(is_deleted));
    found.extend(deleted.map(|record| Package::new(Installer::Conda, &record.name, Some(&record.version), root)));
    found
}

/// Like [`deleted_packages`], for Debian packages of the system.
pub fn deleted_system_packages(host: &Host) -> Vec<Package> {
    let is_deleted = |file: &str| is_main(file) && is_deleted(&host.system(file));
    let lists = dpkg_lists(host).into_iter().filter(|(_, list)| list.lines().any(is_deleted));
    lists.map(|(name, _)| dpkg_package(&name, host)).collect()
}

fn is_main(file: &str) -> bool {
    let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_path = name.len() < file.len();
    let older = ["libcudnn.so.8", "cudnn64_8.dll"];
    is_path && (name == Library::Graph.file_name() || older.contains(&name))
}

/// Returns whether a file is deleted, or below a link that leads to itself. An inaccessible file may exist.
fn is_deleted(file: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let is_loop = || file.ancestors().skip(1).any(is_link_to_itself);
    facts::symlink_metadata(file).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory) || is_loop())
}

/// Returns whether no program can follow this symbolic link, because it leads to itself, possibly through others.
fn is_link_to_itself(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let kind = || facts::metadata(path).err().map(|error| error.kind());
    path.is_link() && kind().is_some_and(|kind| ![NotFound, NotADirectory, PermissionDenied].contains(&kind))
}

fn records_of_conda(root: &Path) -> Vec<conda::CondaRecord> {
    conda::records(root, "cudnn", |name| name.contains("cudnn"))
}

/// Returns the conda package with this file in `ROOT/lib`, or in `ROOT/Library/bin` on Windows.
fn conda_owner(dir: &Path, file: &str) -> Option<Package> {
    let above = dir.parent()?;
    let (root, listed) = match above.parent().filter(|_| file_name(above).eq_ignore_ascii_case("Library")) {
        Some(root) => (root, format!("Library/bin/{file}")),
        None => (above, format!("lib/{file}")),
    };
    let record = records_of_conda(root).into_iter().find(|record| record.files.contains(&listed))?;
    Some(Package::new(Installer::Conda, &record.name, Some(&record.version), root))
}

fn dpkg_lists(host: &Host) -> Vec<(String, String)> {
    let is_list = |name: &str| name.contains("cudnn") && name.ends_with(".list");
    let list = |path: PathBuf| {
        // The list may be called `libcudnn9-cuda-13:amd64.list`.
        let name = file_name(&path).strip_suffix(".list")?.split(':').next()?.to_owned();
        Some((name, read_text(&path, MAX_RECORD_LEN)?))
    };
    entries_named(&host.system("/var/lib/dpkg/info"), "lists of cuDNN", is_list).into_iter().filter_map(list).collect()
}

fn dpkg(dir: &Path, file: &str, host: &Host) -> Option<Package> {
    let file = host.strip_root(dir)?.join(file);
    let (name, _) = dpkg_lists(host).into_iter().find(|(_, list)| is_listed(list, &file))?;
    Some(dpkg_package(&name, host))
}

/// Returns the path of an installed Debian package's file list.
fn dpkg_list(name: &str, host: &Host) -> Option<PathBuf> {
    let info = host.system("/var/lib/dpkg/info");
    let lists = ["", ":amd64", ":arm64"].map(|architecture| info.join(format!("{name}{architecture}.list")));
    lists.into_iter().find(|list| list.leads_to_file())
}

/// Returns an installed Debian package and the path of the file list, if there is one.
pub fn system_package(name: &str, host: &Host) -> Option<(Package, PathBuf)> {
    dpkg_list(name, host).map(|list| (dpkg_package(name, host), list))
}

/// Returns the records of all installed Debian packages, or `None` if dpkg's list of packages is unreadable.
pub fn system_packages(host: &Host) -> Option<Vec<PackageRecord>> {
    let status = read_text(&host.system(DPKG_STATUS), MAX_RECORD_LEN)?;
    let record = |paragraph: &str| {
        let field = |name| field(paragraph, name);
        field("Status:").filter(|status| status.ends_with(" installed"))?;
        let (name, version) = (field("Package:")?.to_owned(), Some(field("Version:")?.to_owned()));
        Some(PackageRecord { path: dpkg_list(&name, host).unwrap_or_default(), name, version })
    };
    Some(status.split("\n\n").filter_map(record).collect())
}

fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Changes the version of a Debian package in the list of packages. `None` removes the package.
pub fn set_system_package(changes: &mut Changes, name: &str, version: Option<&str>) {
    let paragraph = version.map(|version| format!("Package: {name}\nStatus: install ok installed\nVersion: {version}"));
    changes.set_answer(DEBIAN_PACKAGE, name, &paragraph.unwrap_or_default());
}

fn dpkg_package(name: &str, host: &Host) -> Package {
    let paragraph: String = facts::ask(DEBIAN_PACKAGE, name, || {
        let status = read_text(&host.system(DPKG_STATUS), MAX_RECORD_LEN).unwrap_or_default();
        let mut paragraphs = status.split("\n\n");
        let first = format!("Package: {name}");
        paragraphs.find(|text| text.lines().next() == Some(&first)).unwrap_or_default().to_owned()
    });
    let mut package = Package::new(Installer::Dpkg, name, field(&paragraph, "Version:"), host.system("/"));
    // For example, `hold ok installed`.
    package.is_held = field(&paragraph, "Status:").is_some_and(|status| status.starts_with("hold "));
    package
}

/// Returns whether a Debian package's file list contains this file, directly or through the link /lib to /usr/lib.
fn is_listed(list: &str, file: &Path) -> bool {
    let other = Path::new("/").join(file.strip_prefix("/usr").unwrap_or(file));
    list.lines().any(|line| Path::new(line) == file || Path::new(line) == other)
}

/// Returns the RPM package of a system directory. The database (SQLite, Berkeley DB or ndb) is searched without
/// parsing: in all formats, package headers begin with the name, version and release as NUL-terminated strings
/// (`rpm-4.x/lib/header`, tags 1000 to 1002).
fn rpm(dir: &Path, version: Version, host: &Host) -> Option<Package> {
    let below = host.strip_root(dir)?;
    if !["/usr/lib64", "/usr/lib", "/lib64"].iter().any(|system| below.starts_with(system)) {
        return None;
    }
    let names = ["rpmdb.sqlite", "Packages.db", "Packages"].into_iter();
    let mut files = names.flat_map(|name| ["/usr/lib/sysimage/rpm", "/var/lib/rpm"].map(|dir| format!("{dir}/{name}")));
    let database = files.find_map(|file| read_bounded(&host.system(file), MAX_RPM_DB_LEN).ok())?;
    let header = |at| {
        let mut texts = database.get(at..)?.get(..160)?.split(|byte| *byte == 0);
        let [name, found, release] = [texts.next()?, texts.next()?, texts.next()?].map(String::from_utf8_lossy);
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        let is_release = found.starts_with(&format!("{version}.")) && release.starts_with(|c: char| c.is_ascii_digit());
        let is_libraries = name.chars().all(is_of_name) && !name.contains("devel") && !name.contains("static");
        (is_libraries && is_release).then(|| (name.into_owned(), format!("{found}-{release}")))
    };
    let mut packages: Vec<(String, String)> = memmem::find_iter(&database, b"libcudnn9-").filter_map(header).collect();
    packages.dedup();
    // The release may be installed for two CUDA major versions.
    let [(name, version)] = packages.try_into().ok()?;
    Some(Package::new(Installer::Rpm, &name, Some(&version), host.system("/")))
}

/// Recognizes `C:\Program Files\NVIDIA\CUDNN\v9.28\bin\12.9\x64`, with or without the directories below `bin`.
fn windows_installer(dir: &Path) -> Option<Package> {
    let is_root = |root: &&Path| {
        let mut above = root.ancestors().skip(1).map(file_name);
        ["CUDNN", "NVIDIA"].iter().all(|wanted| above.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
    };
    let root = dir.ancestors().skip(1).take(3).find(is_root)?;
    let version = file_name(root).strip_prefix(['v', 'V']);
    Some(Package::new(Installer::WindowsInstaller, "cuDNN", version, root))
}

/// Recognizes a program next to the DLLs. Application installers put them there, because Windows lacks run paths. The
/// system directory contains only unrelated programs.
fn windows_application(dir: &Path, host: &Host) -> Option<Package> {
    let system = host.variable("SystemRoot").and_then(|root| canonicalize(root).ok());
    if system.is_some_and(|system| dir.starts_with(system)) {
        return None;
    }
    let program = entries_named(dir, "*.exe", |name| name.to_ascii_lowercase().ends_with(".exe")).into_iter().next()?;
    Some(Package::new(Installer::Application, &program.file_stem()?.to_string_lossy(), None, dir))
}

/// Recognizes `cudnn-linux-x86_64-9.28.0.42_cuda12-archive/lib` and
/// `cudnn-windows-x86_64-9.28.0.42_cuda13-archive/bin/x64`.
fn archive(dir: &Path) -> Option<Package> {
    dir.ancestors().skip(1).take(2).find_map(|root| {
        let inner = file_name(root).strip_prefix("cudnn-")?.strip_suffix("-archive")?;
        let version = inner.rsplit('-').next().and_then(|last| last.split('_').next());
        Some(Package::new(Installer::Archive, file_name(root), version, root))
    })
}

/// Recognizes a CUDA toolkit: `version.json` is in a parent directory, and the CUDA runtime is next to cuDNN.
fn toolkit(dir: &Path) -> Option<Package> {
    let root = dir.ancestors().skip(1).take(3).find(|root| root.join("version.json").leads_to_file())?;
    let is_runtime =
        |name: &str| name.starts_with("libcudart.so") || name.to_ascii_lowercase().starts_with("cudart64_");
    let is_toolkit = !entries_named(dir, "CUDA runtime", is_runtime).is_empty();
    is_toolkit.then(|| Package::new(Installer::Toolkit, file_name(root), None, root))
}

/// Recognizes an application that ships cuDNN outside the system directories. A program in this directory, in the
/// parent or in the neighboring `bin` has a run path that leads here. It is relative to the program, because
/// applications can be installed anywhere, unlike programs that were built on this machine.
fn application(dir: &Path, host: &Host) -> Option<Package> {
    let below = host.strip_root(dir)?;
    let above = dir.parent()?;
    if ["/usr", "/lib", "/lib64"].iter().any(|system| below.starts_with(system)) || above.parent().is_none() {
        return None;
    }
    let is_program = |path: &PathBuf| is_executable(path) && searches(path, dir, host);
    // The names of a user's other files are private, so only the answer is recorded.
    let program = |searched: &Path| -> Option<PathBuf> {
        facts::ask("application", format!("{} in {}", dir.display(), searched.display()), || {
            let files = entries_named(searched, "no library", |name| !name.contains(".so"));
            files.into_iter().take(MAX_PROGRAMS).find(is_program)
        })
    };
    let program = program(dir).or_else(|| program(above)).or_else(|| program(&above.join("bin")))?;
    let name = program.file_name()?.to_string_lossy();
    Some(Package::new(Installer::Application, &name, None, program.parent()?))
}

fn searches(program: &Path, dir: &Path, host: &Host) -> bool {
    let Ok(links) = links(program) else { return false };
    let Some(run_path) = links.runpath.or(links.rpath) else { return false };
    let text = run_path.to_string_lossy();
    let is_relative = text.contains("$ORIGIN") || text.contains("${ORIGIN}");
    let program = real_path(program);
    let leads_there = |found: &PathBuf| canonicalize(found).is_ok_and(|found| found == dir);
    is_relative && ld_so::run_path(&program, host).is_ok_and(|dirs| dirs.iter().any(leads_there))
}
