//! Finds the package that a cuDNN belongs to, in the installers' records. Runs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::image::links;
use crate::ld_so::run_path_dirs;
use crate::library::Library;
use crate::packages::{Installer, Package, site_packages};
use crate::platform::{Opened, Os, canonicalize, is_executable, open_regular};
use crate::version::Version;

use super::RecordedFile;

/// The largest record that is read, in bytes. Debian's list of all packages has a few megabytes.
const MAX_RECORD_LEN: u64 = 32 << 20;
/// The largest RPM database that is read: it has the files and change logs of all packages.
const MAX_RPM_DB_LEN: u64 = 512 << 20;
/// The most files that are checked for being a program.
const MAX_PROGRAMS: usize = 1000;

/// The packages that the directory's libraries belong to, by the first installer with a record of this file in it. More
/// than one: they were installed over each other.
///
/// The version is the one that the libraries state. It distinguishes several packages in RPM's database.
pub(super) fn packages(
    dir: &Path,
    file: &str,
    version: Option<Version>,
    wheels: &[WheelRecord],
    host: &Host,
) -> Vec<Package> {
    let of_file = wheels.iter().filter(|record| record.files.iter().any(|recorded| recorded.name == file));
    let wheels: Vec<Package> = of_file.map(|record| record.package.clone()).collect();
    if !wheels.is_empty() {
        return wheels;
    }
    let package = conda(dir, file)
        .or_else(|| dpkg(dir, file, host))
        .or_else(|| rpm(dir, version?, host))
        .or_else(|| archive(dir))
        .or_else(|| toolkit(dir))
        .or_else(|| application(dir, host));
    package.into_iter().collect()
}

/// A wheel, and the files that it has installed into one directory.
pub(super) struct WheelRecord {
    package: Package,
    files: Vec<FileRecord>,
}

struct FileRecord {
    name: String,
    len: Option<u64>,
    sha256: Option<String>,
}

/// The sizes and hashes of a file, by the records of the wheels that list it.
pub(super) fn recorded(wheels: &[WheelRecord], file: &Path) -> Vec<RecordedFile> {
    let name = file.file_name().unwrap_or_default();
    let listed = |wheel: &WheelRecord| {
        let file = wheel.files.iter().find(|file| name == file.name.as_str())?;
        Some(RecordedFile { package: wheel.package.clone(), len: file.len?, sha256: file.sha256.clone() })
    };
    wheels.iter().filter_map(listed).collect()
}

/// The wheels with files in this directory: `ROOT/lib/python3.12/site-packages/nvidia/cudnn/lib`, or a framework's
/// directory there, such as `torch/lib`.
pub(super) fn wheels(dir: &Path, os: Os) -> Vec<WheelRecord> {
    find_wheels(dir, os).unwrap_or_default()
}

fn find_wheels(dir: &Path, os: Os) -> Option<Vec<WheelRecord>> {
    let is_site_packages = |path: &&Path| {
        path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("site-packages") || name == "dist-packages")
    };
    let environment = dir.ancestors().skip(1).take(4).find(is_site_packages);
    // The directory of `pip install --target` has any name.
    let site_packages = environment.or(dir.ancestors().nth(3))?;
    let prefix = format!("{}/", dir.strip_prefix(site_packages).ok()?.to_str()?.replace('\\', "/"));
    // ROOT/lib/python3.12/site-packages on Linux, ROOT/Lib/site-packages on Windows.
    let above = if os == Os::Windows { 2 } else { 3 };
    let root = environment.and_then(|environment| environment.ancestors().nth(above)).unwrap_or(site_packages);
    let record = |(package, text): (Package, String)| {
        let files: Vec<FileRecord> = text.lines().filter_map(|line| file_record(line.strip_prefix(&prefix)?)).collect();
        (!files.is_empty()).then_some(WheelRecord { package, files })
    };
    Some(records(site_packages, root).filter_map(record).collect())
}

/// `libcudnn_graph.so.9,sha256=47DEQ..,1234`. Hash and length may be empty.
fn file_record(line: &str) -> Option<FileRecord> {
    let [name, hash, len] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
    let sha256 = hash.strip_prefix("sha256=").map(str::to_owned);
    Some(FileRecord { name: name.to_owned(), len: len.trim().parse().ok(), sha256 })
}

/// The wheels in a directory of packages, each with the list of its files.
fn records(site_packages: &Path, root: &Path) -> impl Iterator<Item = (Package, String)> {
    // pip renames what it is about to remove, and ignores what it has renamed.
    let is_record = |name: &str| name.ends_with(".dist-info") && !name.starts_with('~');
    entries(site_packages, is_record).filter_map(move |path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".dist-info")?.to_owned();
        let (name, version) = name.rsplit_once('-')?;
        let package = Package::new(Installer::Pip, &name.replace('_', "-"), Some(version), root);
        Some((package, read(&path.join("RECORD"))?))
    })
}

/// The wheels of cuDNN that are recorded in the environment at this root, and whose main library is deleted. pip regards
/// them as installed, and a search does not find them.
#[must_use]
pub fn deleted_wheels(root: &Path) -> Vec<Package> {
    let is_main = |file: &&str| {
        let name = file.rsplit('/').next().unwrap_or_default();
        name == Library::Graph.file_name() || name == "libcudnn.so.8"
    };
    let mut found = Vec::new();
    for site_packages in site_packages(root) {
        let is_deleted = |record: &str| {
            let files = record.lines().filter_map(|line| line.split(',').next());
            // One that cannot be looked at may exist: the directory may be readable to its owner alone.
            let is_deleted = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            files.filter(is_main).any(|file| site_packages.join(file).symlink_metadata().is_err_and(is_deleted))
        };
        let wheels = records(&site_packages, root).filter(|(package, _)| package.is_cudnn());
        found.extend(wheels.filter(|(_, record)| is_deleted(record)).map(|(package, _)| package));
    }
    found
}

/// `ROOT/lib`, next to `ROOT/conda-meta/libcudnn-9.10.1.4-h1.json`.
fn conda(dir: &Path, file: &str) -> Option<Package> {
    let root = dir.parent()?;
    let listed = format!("lib/{file}");
    let mut records = entries(&root.join("conda-meta"), |name| name.contains("cudnn")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
        let (rest, _build) = name.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        read(&path)?.contains(&listed).then(|| (name.to_owned(), version.to_owned()))
    });
    let (name, version) = records.next()?;
    Some(Package::new(Installer::Conda, &name, Some(&version), root))
}

/// The Debian package whose list of files has the graph library.
fn dpkg(dir: &Path, file: &str, host: &Host) -> Option<Package> {
    let below = host.strip_root(dir)?;
    // /lib is a link to /usr/lib on most systems, and the list may have either.
    let file = below.join(file);
    let other = Path::new("/").join(file.strip_prefix("/usr").unwrap_or(&file));
    let lists = |list: &str| list.lines().any(|line| Path::new(line) == file || Path::new(line) == other);
    let info = host.system("/var/lib/dpkg/info");
    let mut names = entries(&info, |name| name.contains("cudnn")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".list")?.to_owned();
        lists(&read(&path)?).then_some(name)
    });
    // With packages for two architectures: `libcudnn9-cuda-13:amd64`.
    let name = names.next()?.split(':').next()?.to_owned();
    let status = read(&host.system("/var/lib/dpkg/status")).unwrap_or_default();
    let mut paragraphs = status.split("\n\n").filter(|text| text.lines().next() == Some(&format!("Package: {name}")));
    let paragraph = paragraphs.next().unwrap_or_default();
    let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
    let mut package = Package::new(Installer::Dpkg, &name, field("Version: "), host.system("/"));
    // `hold ok installed`.
    package.is_held = field("Status: ").is_some_and(|status| status.starts_with("hold "));
    Some(package)
}

/// The RPM package of a system directory. The database is SQLite, Berkeley DB or ndb, and is searched without parsing
/// it: in each of them a package's name, version and release follow each other, each with a zero byte at its end,
/// because that is how a package's header begins (`rpm-4.x/lib/header`, tags 1000 to 1002).
fn rpm(dir: &Path, version: Version, host: &Host) -> Option<Package> {
    const DATABASES: [&str; 6] = [
        "/usr/lib/sysimage/rpm/rpmdb.sqlite",
        "/var/lib/rpm/rpmdb.sqlite",
        "/usr/lib/sysimage/rpm/Packages.db",
        "/var/lib/rpm/Packages.db",
        "/usr/lib/sysimage/rpm/Packages",
        "/var/lib/rpm/Packages",
    ];
    let below = host.strip_root(dir)?;
    if !["/usr/lib64", "/usr/lib", "/lib64"].iter().any(|system| below.starts_with(system)) {
        return None;
    }
    let database = DATABASES.iter().find_map(|database| bytes(&host.system(database), MAX_RPM_DB_LEN))?;
    let found = database.windows(6).enumerate().filter(|(_, window)| *window == b"cudnn9").map(|(at, _)| at);
    let of_release = |found: &(String, String)| found.1.starts_with(&format!("{version}."));
    let mut packages: Vec<(String, String)> =
        found.filter_map(|at| rpm_header(&database, at)).filter(of_release).collect();
    packages.dedup();
    // One release may be installed for two CUDA major versions, and nothing shows which one this is.
    let [(name, version)] = packages.try_into().ok()?;
    Some(Package::new(Installer::Rpm, &name, Some(&version), host.system("/")))
}

/// The name around this offset, and the version behind it, if a package's header begins here.
fn rpm_header(database: &[u8], at: usize) -> Option<(String, String)> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte);
    let before = database.get(at.saturating_sub(16)..at)?.iter().rev().take_while(|byte| is_of_name(byte)).count();
    let mut texts = database.get(at - before..)?.get(..160)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    let (name, version, release) = (text()?, text()?, text()?);
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_libraries = !name.contains("devel") && !name.contains("static") && !name.contains("samples");
    (is_libraries && name.bytes().all(|byte| is_of_name(&byte)) && is_number(&version) && is_number(&release))
        .then(|| (name, format!("{version}-{release}")))
}

/// `cudnn-linux-x86_64-9.28.0.42_cuda12-archive/lib`.
fn archive(dir: &Path) -> Option<Package> {
    let root = dir.parent()?;
    let name = root.file_name()?.to_str()?;
    let inner = name.strip_prefix("cudnn-")?.strip_suffix("-archive")?;
    let version = inner.rsplit('-').next().and_then(|last| last.split('_').next());
    Some(Package::new(Installer::Archive, name, version, root))
}

/// A directory of a CUDA toolkit: `version.json` above it, and the CUDA runtime next to cuDNN.
fn toolkit(dir: &Path) -> Option<Package> {
    let root = dir.ancestors().skip(1).take(3).find(|root| root.join("version.json").is_file())?;
    let is_toolkit = entries(dir, |name| name.starts_with("libcudart.so")).next().is_some();
    let name = root.file_name()?.to_str()?;
    is_toolkit.then(|| Package::new(Installer::Toolkit, name, None, root))
}

/// A directory outside of the system's, with a program in it, above it or in `bin` next to it whose run path leads to the
/// directory: an application that ships a cuDNN. Its run path is relative to the program, as the application can be
/// installed anywhere; that of a program which somebody has built for this machine is not.
fn application(dir: &Path, host: &Host) -> Option<Package> {
    let below = host.strip_root(dir)?;
    let above = dir.parent()?;
    if ["/usr", "/lib", "/lib64"].iter().any(|system| below.starts_with(system)) || above.parent().is_none() {
        return None;
    }
    let is_program = |path: &PathBuf| is_executable(path) && searches(path, dir, host);
    let program = |dir: &Path| entries(dir, |name| !name.contains(".so")).take(MAX_PROGRAMS).find(is_program);
    let program = program(dir).or_else(|| program(above)).or_else(|| program(&above.join("bin")))?;
    let name = program.file_name()?.to_string_lossy();
    Some(Package::new(Installer::Application, &name, None, program.parent()?))
}

/// The entries of a directory with wanted names, sorted. The directory may have many others.
pub(super) fn entries<W: Fn(&str) -> bool>(dir: &Path, wanted: W) -> impl Iterator<Item = PathBuf> + use<W> {
    let is_wanted = |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(&wanted);
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.filter(is_wanted).map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter()
}

/// Does the run path of this program lead to this directory, whatever directory the program is in?
fn searches(program: &Path, dir: &Path, host: &Host) -> bool {
    let Ok(links) = links(program) else { return false };
    let Some(run_path) = links.runpath.or(links.rpath) else { return false };
    let text = run_path.to_string_lossy();
    let is_relative = text.contains("$ORIGIN") || text.contains("${ORIGIN}");
    let program = canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let origin = program.parent().unwrap_or(Path::new("/"));
    let leads_there = |found: &PathBuf| canonicalize(found).is_ok_and(|found| found == dir);
    is_relative && run_path_dirs(host, &run_path, origin).iter().any(leads_there)
}

/// The text of a record. `None` if it is too large to be one.
pub(super) fn read(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(file, MAX_RECORD_LEN)?).into_owned())
}

fn bytes(file: &Path, limit: u64) -> Option<Vec<u8>> {
    let Opened::Regular(file, length) = open_regular(file).ok()? else { return None };
    if length > limit {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
