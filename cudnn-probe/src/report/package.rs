//! Which package manager put a folder's cuDNN there, by the records that it keeps. Nothing is run.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Host, Library, Os, Version};

/// The most that is read of a record, in bytes. Debian's list of all packages has a few megabytes.
const MAX_RECORD_LEN: u64 = 32 << 20;
/// The most of RPM's database, which has every package's files and change logs.
const MAX_RPM_DB_LEN: u64 = 512 << 20;
/// How many files are looked at for a program.
const MAX_ENTRIES: usize = 1000;

/// Who installed a folder's cuDNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Installer {
    /// A wheel, by pip or the like.
    Pip,
    /// conda, mamba or pixi.
    Conda,
    /// Debian's and Ubuntu's packages.
    Dpkg,
    /// Packages of Red Hat's kind: Fedora, RHEL, SUSE.
    Rpm,
    /// NVIDIA's archive, unpacked by hand.
    Archive,
    /// Part of an application that brings its own.
    Application,
    /// Copied into a CUDA toolkit's folder by hand: the toolkit itself comes without cuDNN.
    Toolkit,
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Installer::Pip => "pip",
            Installer::Conda => "conda",
            Installer::Dpkg => "dpkg",
            Installer::Rpm => "rpm",
            Installer::Application => "part of",
            Installer::Archive => "archive",
            Installer::Toolkit => "CUDA toolkit folder",
        })
    }
}

/// What a package manager says of a folder's cuDNN.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// Who installed it.
    pub installer: Installer,
    /// The package's name: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The package's version, all of it: `9.28.0.42`. Not every record has one.
    pub version: Option<String>,
    /// The environment, or the root, that it is installed in.
    pub root: PathBuf,
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

/// The package that the folder's libraries came with, if a record says so.
///
/// `version` is what the libraries themselves say: of several packages in RPM's database it tells which.
pub(super) fn package(folder: &Path, system: Os, version: Option<Version>, environment: &Host) -> Option<Package> {
    wheel(folder, system)
        .or_else(|| conda(folder))
        .or_else(|| dpkg(folder, environment))
        .or_else(|| rpm(folder, version?, environment))
        .or_else(|| archive(folder))
        .or_else(|| toolkit(folder))
        .or_else(|| application(folder, environment))
}

/// `ROOT/lib/python3.12/site-packages/nvidia/cudnn/lib`, or a framework's own folder there, as torch's `torch/lib`: the
/// record that lists the graph library.
fn wheel(folder: &Path, system: Os) -> Option<Package> {
    let is_site_packages = |path: &&Path| {
        path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("site-packages") || name == "dist-packages")
    };
    // A folder that pip was told to install to (`--target`) has any name.
    let site_packages = folder.ancestors().skip(1).take(4).find(is_site_packages).or(folder.ancestors().nth(3))?;
    let listed = folder.strip_prefix(site_packages).ok()?.join(Library::Graph.name_on(system));
    let listed = listed.to_str()?.replace('\\', "/");
    let mut records = entries(site_packages, |name| name.ends_with(".dist-info")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".dist-info")?.to_owned();
        let (name, version) = name.rsplit_once('-')?;
        let lists = read(&path.join("RECORD"))?.lines().any(|line| line.starts_with(&format!("{listed},")));
        lists.then(|| (name.replace('_', "-"), version.to_owned()))
    });
    let (name, version) = records.next()?;
    // ROOT/lib/python3.12/site-packages on Linux, ROOT/Lib/site-packages on Windows.
    let above = if system == Os::Windows { 2 } else { 3 };
    let root = site_packages.ancestors().nth(above).unwrap_or(site_packages).to_owned();
    Some(Package { installer: Installer::Pip, name, version: Some(version), root })
}

/// `ROOT/lib` with `ROOT/conda-meta/libcudnn-9.10.1.4-h1.json` beside it.
fn conda(folder: &Path) -> Option<Package> {
    let root = folder.parent()?;
    let listed = format!("lib/{}", Library::Graph.file_name());
    let mut records = entries(&root.join("conda-meta"), |name| name.contains("cudnn")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
        let (rest, _build) = name.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        read(&path)?.contains(&listed).then(|| (name.to_owned(), version.to_owned()))
    });
    let (name, version) = records.next()?;
    Some(Package { installer: Installer::Conda, name, version: Some(version), root: root.to_owned() })
}

/// A package of Debian's whose list of files has the graph library.
fn dpkg(folder: &Path, environment: &Host) -> Option<Package> {
    let below = environment.strip_root(folder)?;
    // /lib is a link to /usr/lib on most systems, and the list has either.
    let file = below.join(Library::Graph.file_name());
    let other = Path::new("/").join(file.strip_prefix("/usr").unwrap_or(&file));
    let lists = |list: &str| list.lines().any(|line| Path::new(line) == file || Path::new(line) == other);
    let info = environment.system("/var/lib/dpkg/info");
    let mut names = entries(&info, |name| name.contains("cudnn")).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".list")?.to_owned();
        lists(&read(&path)?).then_some(name)
    });
    // Of two architectures at once, `libcudnn9-cuda-13:amd64`.
    let name = names.next()?.split(':').next()?.to_owned();
    let status = read(&environment.system("/var/lib/dpkg/status")).unwrap_or_default();
    let mut paragraphs = status.split("\n\n").filter(|text| text.lines().next() == Some(&format!("Package: {name}")));
    let version = paragraphs.next().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Version: ")));
    let version = version.map(str::to_owned);
    Some(Package { installer: Installer::Dpkg, name, version, root: environment.system("/") })
}

/// A package in RPM's database, for a folder of the system's. The database is SQLite or Berkeley's, which are not read as
/// such: a package's name, version and release stand in it one behind the other, each with a zero at its end, in every
/// form of it, since that is how a package's header begins (`rpm-4.x/lib/header`, tags 1000 to 1002).
fn rpm(folder: &Path, version: Version, environment: &Host) -> Option<Package> {
    const DATABASES: [&str; 6] = [
        "/usr/lib/sysimage/rpm/rpmdb.sqlite",
        "/var/lib/rpm/rpmdb.sqlite",
        "/usr/lib/sysimage/rpm/Packages.db",
        "/var/lib/rpm/Packages.db",
        "/usr/lib/sysimage/rpm/Packages",
        "/var/lib/rpm/Packages",
    ];
    let below = environment.strip_root(folder)?;
    if !["/usr/lib64", "/usr/lib", "/lib64"].iter().any(|system| below.starts_with(system)) {
        return None;
    }
    let database = DATABASES.iter().find_map(|database| bytes(&environment.system(database), MAX_RPM_DB_LEN))?;
    let found = database.windows(6).enumerate().filter(|(_, window)| *window == b"cudnn9").map(|(at, _)| at);
    let of_release = |found: &(String, String)| found.1.starts_with(&format!("{version}."));
    let mut packages: Vec<(String, String)> = found.filter_map(|at| named(&database, at)).filter(of_release).collect();
    packages.dedup();
    // Of one release for two CUDA majors it cannot be told which.
    let [(name, version)] = packages.try_into().ok()?;
    Some(Package { installer: Installer::Rpm, name, version: Some(version), root: environment.system("/") })
}

/// The name around this place, and the version behind it, if this is where a package's header begins.
fn named(database: &[u8], at: usize) -> Option<(String, String)> {
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
fn archive(folder: &Path) -> Option<Package> {
    let root = folder.parent()?;
    let name = root.file_name()?.to_str()?;
    let inner = name.strip_prefix("cudnn-")?.strip_suffix("-archive")?;
    let version = inner.rsplit('-').next().and_then(|last| last.split('_').next()).map(str::to_owned);
    Some(Package { installer: Installer::Archive, name: name.to_owned(), version, root: root.to_owned() })
}

/// A folder with the toolkit's own `version.json`, or its runtime library beside cuDNN.
fn toolkit(folder: &Path) -> Option<Package> {
    let root = folder.ancestors().skip(1).take(3).find(|root| root.join("version.json").is_file())?;
    let is_toolkit = entries(folder, |name| name.starts_with("libcudart.so")).next().is_some();
    let name = root.file_name()?.to_str()?.to_owned();
    is_toolkit.then(|| Package { installer: Installer::Toolkit, name, version: None, root: root.to_owned() })
}

/// A folder outside the system's own with a program in it, above it or in `bin` beside it: an application that brings its
/// own cuDNN.
#[cfg(unix)]
fn application(folder: &Path, environment: &Host) -> Option<Package> {
    use std::os::unix::fs::PermissionsExt;
    let below = environment.strip_root(folder)?;
    let above = folder.parent()?;
    if ["/usr", "/lib", "/lib64"].iter().any(|system| below.starts_with(system)) || above.parent().is_none() {
        return None;
    }
    let is_program = |path: &PathBuf| {
        let metadata = std::fs::metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let program = |place: &Path| entries(place, |name| !name.contains(".so")).take(MAX_ENTRIES).find(is_program);
    let program = program(folder).or_else(|| program(above)).or_else(|| program(&above.join("bin")))?;
    let name = program.file_name()?.to_string_lossy().into_owned();
    Some(Package { installer: Installer::Application, name, version: None, root: program.parent()?.to_owned() })
}

#[cfg(not(unix))]
fn application(_folder: &Path, _environment: &Host) -> Option<Package> {
    None
}

/// The entries of a folder whose names are wanted, in order. The folder may hold many others.
fn entries<W: Fn(&str) -> bool>(folder: &Path, wanted: W) -> impl Iterator<Item = PathBuf> + use<W> {
    let is_wanted = |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(&wanted);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.filter(is_wanted).map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter()
}

/// A record's text, if it is a file of a length that records have.
pub(super) fn read(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(file, MAX_RECORD_LEN)?).into_owned())
}

fn bytes(file: &Path, limit: u64) -> Option<Vec<u8>> {
    let metadata = std::fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > limit {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
