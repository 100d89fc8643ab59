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
    os: Os,
    version: Option<Version>,
    wheels: &[WheelRecord],
    host: &Host,
) -> Vec<Package> {
    let of_file = wheels.iter().filter(|record| record.files.iter().any(|recorded| recorded.name == file));
    let wheels: Vec<Package> = of_file.map(|record| record.package.clone()).collect();
    if !wheels.is_empty() {
        return wheels;
    }
    let of_system = || dpkg(dir, file, host).or_else(|| rpm(dir, version?, host));
    let package = conda(dir, file)
        .or_else(|| if os == Os::Linux { of_system() } else { windows_installer(dir) })
        .or_else(|| archive(dir))
        .or_else(|| toolkit(dir))
        .or_else(|| if os == Os::Linux { application(dir, host) } else { windows_application(dir, host) });
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
    // ROOT/lib/python3.12/site-packages on Linux, ROOT/Lib/site-packages on Windows, and ROOT/site-packages for the
    // user's packages there.
    let is_lib = |dir: &Path| dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Lib"));
    let above = match os {
        Os::Linux => 3,
        Os::Windows if site_packages.parent().is_some_and(is_lib) => 2,
        Os::Windows => 1,
    };
    let root = environment.and_then(|environment| environment.ancestors().nth(above)).unwrap_or(site_packages);
    let record = |(package, text): (Package, String)| {
        // Some tools write the separators of Windows.
        let text = if os == Os::Windows { text.replace('\\', "/") } else { text };
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

/// Does the owner of this directory's libraries list a file with this name there, whether it exists or not?
pub(super) fn is_recorded(
    dir: &Path,
    file: &str,
    os: Os,
    package: Option<&Package>,
    wheels: &[WheelRecord],
    host: &Host,
) -> bool {
    match package.map(|package| package.installer) {
        Some(Installer::Pip) => wheels.iter().any(|record| record.files.iter().any(|recorded| recorded.name == file)),
        Some(Installer::Conda) => conda(dir, file).is_some(),
        Some(Installer::Dpkg) => os == Os::Linux && dpkg(dir, file, host).is_some(),
        // Its lists of files are not read: the package for the full cuDNN has all libraries.
        Some(Installer::Rpm) => true,
        _ => false,
    }
}

/// The packages of cuDNN that are recorded in the environment at this root, by pip or by conda, and whose main library is
/// deleted. Their installer regards them as installed, and a search does not find them.
#[must_use]
pub fn deleted_packages(root: &Path) -> Vec<Package> {
    let mut found = Vec::new();
    for site_packages in site_packages(root) {
        let is_deleted = |record: &str| {
            let mut files = record.lines().filter_map(|line| line.split(',').next());
            files.any(|file| is_main(file) && is_deleted(&site_packages.join(file)))
        };
        let wheels = records(&site_packages, root).filter(|(package, _)| package.is_cudnn());
        found.extend(wheels.filter(|(_, record)| is_deleted(record)).map(|(package, _)| package));
    }
    found.extend(entries(&root.join("conda-meta"), |name| name.contains("cudnn")).filter_map(|path| {
        let (name, version) = conda_name(&path)?;
        // The record is JSON: `"lib/libcudnn_graph.so.9",`.
        let record = read(&path)?;
        let is_deleted = record.split('"').any(|file| is_main(file) && is_deleted(&root.join(file)));
        is_deleted.then(|| Package::new(Installer::Conda, &name, Some(&version), root))
    }));
    found
}

/// The same for Debian's packages of the system.
#[must_use]
pub fn deleted_system_packages(host: &Host) -> Vec<Package> {
    let lists = entries(&host.system("/var/lib/dpkg/info"), |name| name.contains("cudnn") && name.ends_with(".list"));
    let package = |path: PathBuf| {
        let is_deleted = read(&path)?.lines().any(|file| is_main(file) && is_deleted(&host.system(file)));
        let name = path.file_name()?.to_str()?.strip_suffix(".list")?.split(':').next()?.to_owned();
        is_deleted.then(|| dpkg_package(&name, host))
    };
    lists.filter_map(package).collect()
}

/// Is this path, as a record has it, that of cuDNN's main library?
fn is_main(file: &str) -> bool {
    let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_path = name.len() < file.len();
    let older = ["libcudnn.so.8", "cudnn64_8.dll"];
    is_path && (name == Library::Graph.file_name() || older.contains(&name))
}

/// One that cannot be looked at may exist: the directory may be readable to its owner alone. Nothing is behind a link that
/// leads to itself.
fn is_deleted(file: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let is_loop = || file.ancestors().skip(1).any(is_link_to_itself);
    file.symlink_metadata().is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory) || is_loop())
}

/// Is this a symbolic link that leads to itself, maybe through others? No program can follow it.
#[must_use]
pub fn is_link_to_itself(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let kind = || path.metadata().err().map(|error| error.kind());
    path.is_symlink() && kind().is_some_and(|kind| ![NotFound, NotADirectory, PermissionDenied].contains(&kind))
}

/// `ROOT/lib`, or `ROOT/Library/bin` on Windows, next to `ROOT/conda-meta/libcudnn-9.10.1.4-h1.json`.
fn conda(dir: &Path, file: &str) -> Option<Package> {
    let above = dir.parent()?;
    let is_library = above.file_name().is_some_and(|name| name.eq_ignore_ascii_case("Library"));
    let (root, listed) = match above.parent().filter(|_| is_library) {
        Some(root) => (root, format!("Library/bin/{file}")),
        None => (above, format!("lib/{file}")),
    };
    let mut records = entries(&root.join("conda-meta"), |name| name.contains("cudnn"))
        .filter_map(|path| read(&path)?.contains(&listed).then(|| conda_name(&path)).flatten());
    let (name, version) = records.next()?;
    Some(Package::new(Installer::Conda, &name, Some(&version), root))
}

/// Name and version of the package with this record: `libcudnn-9.10.1.4-h1.json`.
fn conda_name(record: &Path) -> Option<(String, String)> {
    let name = record.file_name()?.to_str()?.strip_suffix(".json")?;
    let (rest, _build) = name.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    Some((name.to_owned(), version.to_owned()))
}

/// The Debian package whose list of files has the graph library.
fn dpkg(dir: &Path, file: &str, host: &Host) -> Option<Package> {
    let below = host.strip_root(dir)?;
    // /lib is a link to /usr/lib on most systems, and the list may have either.
    let file = below.join(file);
    let lists = |list: &str| is_listed(list, &file);
    let info = host.system("/var/lib/dpkg/info");
    let mut names = entries(&info, |name| name.contains("cudnn")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".list")?.to_owned();
        lists(&read(&path)?).then_some(name)
    });
    // With packages for two architectures: `libcudnn9-cuda-13:amd64`.
    let name = names.next()?.split(':').next()?.to_owned();
    Some(dpkg_package(&name, host))
}

/// The Debian package with this name, with what the list of all packages states of it.
fn dpkg_package(name: &str, host: &Host) -> Package {
    let status = read(&host.system("/var/lib/dpkg/status")).unwrap_or_default();
    let mut paragraphs = status.split("\n\n").filter(|text| text.lines().next() == Some(&format!("Package: {name}")));
    let paragraph = paragraphs.next().unwrap_or_default();
    let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
    let mut package = Package::new(Installer::Dpkg, name, field("Version: "), host.system("/"));
    // `hold ok installed`.
    package.is_held = field("Status: ").is_some_and(|status| status.starts_with("hold "));
    package
}

/// Does this list of a Debian package have this file?
fn is_listed(list: &str, file: &Path) -> bool {
    let other = Path::new("/").join(file.strip_prefix("/usr").unwrap_or(file));
    list.lines().any(|line| Path::new(line) == file || Path::new(line) == other)
}

/// What these files lead to, where it belongs to no Debian package although the files beside it do.
pub(super) fn unowned<'a>(
    package: Option<&Package>,
    files: impl Iterator<Item = &'a Path>,
    host: &Host,
) -> Vec<PathBuf> {
    if package.is_none_or(|package| package.installer != Installer::Dpkg) {
        return Vec::new();
    }
    let lists = entries(&host.system("/var/lib/dpkg/info"), |name| name.contains("cudnn") && name.ends_with(".list"));
    let lists: Vec<String> = lists.filter_map(|list| read(&list)).collect();
    let is_unowned =
        |file: &PathBuf| host.strip_root(file).is_some_and(|file| !lists.iter().any(|list| is_listed(list, &file)));
    let mut found: Vec<PathBuf> = files.filter_map(|file| canonicalize(file).ok()).filter(is_unowned).collect();
    found.sort();
    found.dedup();
    found
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

/// `C:\Program Files\NVIDIA\CUDNN\v9.28\bin\12.9\x64`, with or without the directories below `bin`.
fn windows_installer(dir: &Path) -> Option<Package> {
    let named = |dir: &Path, wanted: &str| dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
    let is_root = |root: &&Path| {
        let above = root.parent();
        above.is_some_and(|cudnn| named(cudnn, "CUDNN") && cudnn.parent().is_some_and(|above| named(above, "NVIDIA")))
    };
    let root = dir.ancestors().skip(1).take(3).find(is_root)?;
    let version = root.file_name()?.to_str()?.strip_prefix(['v', 'V']);
    Some(Package::new(Installer::WindowsInstaller, "cuDNN", version, root))
}

/// A directory with a program beside the DLLs, to which an application's installer has copied them: Windows has no run
/// paths. Below the system's directory there are programs of others.
fn windows_application(dir: &Path, host: &Host) -> Option<Package> {
    let system = host.variable("SystemRoot").and_then(|root| canonicalize(root).ok());
    if system.is_some_and(|system| dir.starts_with(system)) {
        return None;
    }
    let program = entries(dir, |name| name.to_ascii_lowercase().ends_with(".exe")).next()?;
    Some(Package::new(Installer::Application, &program.file_stem()?.to_string_lossy(), None, dir))
}

/// `cudnn-linux-x86_64-9.28.0.42_cuda12-archive/lib`, `cudnn-windows-x86_64-9.28.0.42_cuda13-archive/bin/x64`.
fn archive(dir: &Path) -> Option<Package> {
    let is_archive = |root: &&Path| {
        let name = root.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("cudnn-") && name.ends_with("-archive"))
    };
    let root = dir.ancestors().skip(1).take(2).find(is_archive)?;
    let name = root.file_name()?.to_str()?;
    let inner = name.strip_prefix("cudnn-")?.strip_suffix("-archive")?;
    let version = inner.rsplit('-').next().and_then(|last| last.split('_').next());
    Some(Package::new(Installer::Archive, name, version, root))
}

/// A directory of a CUDA toolkit: `version.json` above it, and the CUDA runtime next to cuDNN.
fn toolkit(dir: &Path) -> Option<Package> {
    let root = dir.ancestors().skip(1).take(3).find(|root| root.join("version.json").is_file())?;
    let is_runtime =
        |name: &str| name.starts_with("libcudart.so") || name.to_ascii_lowercase().starts_with("cudart64_");
    let is_toolkit = entries(dir, is_runtime).next().is_some();
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
    // A buffer that grows would be filled in many small pieces.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::InstallationReport;
    use super::*;
    use crate::image::fake_dll::FakeDll;
    use crate::platform::below;

    const VERSION: &[(&str, [u8; 4])] = &[("cudnn_graph_version", [0, 28, 9, 0])];

    /// The owner of the DLLs in each directory, on a machine with Windows, read on any system.
    #[test]
    fn the_owner_of_dlls_is_found_in_the_records_of_windows() {
        let world = std::env::temp_dir().join(format!("cudnn probe größe owner {}", std::process::id()));
        let _ = std::fs::remove_dir_all(&world);
        let write = |path: &str, text: &str| {
            let file = below(&world, path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let record = "nvidia_cudnn_cu13-9.28.0.42.dist-info/RECORD";
        let of_wheel = "nvidia/cudnn/bin/cudnn_graph64_9.dll,sha256=X1f6,1234\r\n";
        write(&format!("venv/Lib/site-packages/{record}"), of_wheel);
        write(&format!("Python312/site-packages/{record}"), &of_wheel.replace('/', "\\"));
        write(&format!("target/{record}"), of_wheel);
        write("venv/Lib/site-packages/torch-2.9.0+cu130.dist-info/RECORD", "torch/lib/cudnn_graph64_9.dll,,1\r\n");
        write("conda/conda-meta/cudnn-9.28.0.42-h1.json", r#"{"files": ["Library/bin/cudnn_graph64_9.dll"]}"#);
        write("CUDA/v13.0/version.json", "{}");
        write("CUDA/v13.0/bin/x64/cudart64_13.dll", "");
        write("app/Koharu.exe", "");
        let archive = "cudnn-windows-x86_64-9.28.0.42_cuda13-archive";
        for (dir, expected) in [
            ("venv/Lib/site-packages/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in venv"),
            ("venv/Lib/site-packages/torch/lib", "pip torch 2.9.0+cu130 in venv"),
            ("Python312/site-packages/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in Python312"),
            ("target/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in target"),
            ("conda/Library/bin", "conda cudnn 9.28.0.42 in conda"),
            ("NVIDIA/CUDNN/v9.28/bin/13.0/x64", "NVIDIA's installer cuDNN 9.28 in NVIDIA/CUDNN/v9.28"),
            ("NVIDIA/CUDNN/v9.9/bin/12.8", "NVIDIA's installer cuDNN 9.9 in NVIDIA/CUDNN/v9.9"),
            (&format!("{archive}/bin"), &format!("archive {archive} 9.28.0.42 in {archive}")),
            (&format!("{archive}/bin/x64"), &format!("archive {archive} 9.28.0.42 in {archive}")),
            ("CUDA/v13.0/bin/x64", "CUDA toolkit directory v13.0 in CUDA/v13.0"),
            ("app", "application Koharu in app"),
            ("copied", ""),
        ] {
            let dir = below(&world, dir);
            FakeDll { exports: VERSION, ..FakeDll::new("cudnn_graph64_9.dll") }.write(&dir.join("cudnn_graph64_9.dll"));
            let report = InstallationReport::read(&dir, &Host::sandbox(&world)).unwrap();
            let root = canonicalize(&world).unwrap();
            let shown = |package: &Package| {
                let root = package.root.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                format!("{package} in {root}")
            };
            assert_eq!(report.package.as_ref().map(shown).unwrap_or_default(), expected, "{dir:?}");
            assert_eq!((report.os, report.version.map(|version| version.minor)), (Os::Windows, Some(28)));
            let is_wheel = dir.ends_with("nvidia/cudnn/bin");
            assert_eq!(report.cuda_major.is_some(), is_wheel, "{dir:?}");
            let recorded = report.libraries.first().map(|library| library.recorded.len());
            assert_eq!(recorded, Some(usize::from(expected.starts_with("pip"))), "{dir:?}");
        }
        // cuDNN 8 has one DLL with this name, and others with `_infer` and `_train`.
        let older = world.join("older");
        FakeDll { version: Some([8, 9, 7, 29]), ..FakeDll::new("cudnn64_8.dll") }.write(&older.join("cudnn64_8.dll"));
        let report = InstallationReport::read(&older, &Host::sandbox(&world)).unwrap();
        assert_eq!((report.os, report.major), (Os::Windows, 8));
        assert_eq!(report.version, Some(Version::new(8, 9, 7)));
        std::fs::remove_dir_all(&world).unwrap();
    }
}
