//! Where a framework's packages are, and the commands that change packages there: of an environment, or of a directory
//! that `pip install --target` has filled and that `PYTHONPATH` or a `.pth` file leads to.

use std::path::{Path, PathBuf};

use cudnn_frameworks::{Framework, Survey};
use cudnn_probe::Os;
use cudnn_probe::packages::{self, Command, Installer, Package};

use crate::platform::python_in;

/// The start of the names of the packages that share the directory `nvidia`.
const OF_NVIDIA: &str = "nvidia-";
/// The most entries of a directory that are read.
const MAX_ENTRIES: usize = 20_000;

/// The place of a framework's packages.
pub(in crate::check) struct Place {
    /// The root of the environment whose Python changes them.
    root: PathBuf,
    /// The directory with the packages, if the environment's Python does not install there by itself.
    target: Option<PathBuf>,
}

impl Place {
    /// Where a framework is: its libraries search beside it, not in the virtual environment that imports it.
    pub(in crate::check) fn of(framework: &Framework, survey: &Survey) -> Place {
        let import_dir = &framework.distribution.import_dir;
        let is_target = !is_site(import_dir) && !is_egg(framework) && !framework.distribution.is_editable;
        Place { root: root_of(framework, survey), target: is_target.then(|| import_dir.clone()) }
    }

    /// pip's command that installs these requirements.
    pub(in crate::check) fn install(&self, requirements: Vec<String>) -> Option<Command> {
        match &self.target {
            Some(target) => self.fill(target, requirements),
            None => packages::pip(Some(&self.root), "install", requirements),
        }
    }

    /// pip's command that installs these requirements and no other package, although pip's records list them as installed.
    pub(in crate::check) fn reinstall(&self, requirements: Vec<String>) -> Option<Command> {
        match &self.target {
            Some(target) => self.fill(target, requirements),
            None => packages::reinstall_requirements(&self.root, requirements),
        }
    }

    /// The same for one release of a package. `None` for one that only a private index has.
    pub(in crate::check) fn reinstall_package(&self, name: &str, version: &str) -> Option<Command> {
        let of_root = packages::reinstall(&Package::new(Installer::Pip, name, Some(version), &self.root));
        match &self.target {
            Some(_) if !version.contains('+') => self.reinstall(vec![format!("{name}=={version}")]),
            Some(_) => None,
            None => of_root,
        }
    }

    /// The command that removes these packages.
    pub(in crate::check) fn uninstall(&self, names: &[String]) -> Option<Command> {
        if let Some(target) = &self.target {
            // pip removes no package there. What it installs replaces the files, but not the records.
            let records: Vec<PathBuf> = records(target)
                .into_iter()
                .filter(|record| names.contains(&record.name))
                .map(|record| record.dir)
                .collect();
            let arguments = ["-r".into()].into_iter().chain(records.into_iter().map(PathBuf::into_os_string));
            return Some(Command::new("rm", arguments));
        }
        packages::pip(Some(&self.root), "uninstall", ["--yes".to_owned()].into_iter().chain(names.iter().cloned()))
    }

    /// The version of a wheel that pip has a record of there.
    pub(in crate::check) fn recorded_version(&self, wheel: &str) -> Option<String> {
        match &self.target {
            Some(target) => {
                records(target).into_iter().find(|record| record.name == wheel).map(|record| record.version)
            }
            None => packages::recorded_version(&self.root, wheel),
        }
    }

    /// pip's command for a directory. pip replaces `nvidia` as one directory there, so that the command names all packages
    /// in it.
    fn fill(&self, target: &Path, requirements: Vec<String>) -> Option<Command> {
        let name = |requirement: &str| {
            requirement.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next().unwrap_or_default().to_owned()
        };
        let named: Vec<String> = requirements.iter().map(|requirement| name(requirement)).collect();
        let replaces_nvidia = named.iter().any(|name| name.starts_with(OF_NVIDIA));
        let cudnn = |name: &str| name.starts_with("nvidia-cudnn-cu");
        let is_kept = |record: &Record| {
            let is_replaced = cudnn(&record.name) && named.iter().any(|name| cudnn(name));
            record.name.starts_with(OF_NVIDIA) && !named.contains(&record.name) && !is_replaced
        };
        let kept = if replaces_nvidia { records(target) } else { Vec::new() };
        let kept = kept.into_iter().filter(is_kept).map(|record| format!("{}=={}", record.name, record.version));
        let target_options = ["--target".to_owned(), target.to_str()?.to_owned()];
        let options = ["--upgrade", "--no-deps"].map(str::to_owned);
        let arguments: Vec<String> =
            target_options.into_iter().chain(options).chain(requirements).chain(kept).collect();
        // A directory that was named itself has no Python. Any pip installs wheels that are for all Pythons.
        let root = Some(self.root.as_path()).filter(|root| *root != target);
        let is_for_all = named.iter().all(|name| name.starts_with(OF_NVIDIA));
        if root.is_none() && !is_for_all { None } else { packages::pip(root, "install", arguments) }
    }
}

/// Whether a directory of packages has a record of the package with this normalised name.
pub(in crate::check) fn has_record(dir: &Path, name: &str) -> bool {
    records(dir).iter().any(|record| record.name == name)
}

/// pip's record of a package.
struct Record {
    /// Normalised: `nvidia-cudnn-cu12`.
    name: String,
    version: String,
    dir: PathBuf,
}

/// The records in a directory of packages, by name.
fn records(dir: &Path) -> Vec<Record> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let record = |entry: std::fs::DirEntry| {
        let file_name = entry.file_name();
        let (name, version) = file_name.to_str()?.strip_suffix(".dist-info")?.rsplit_once('-')?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+!".contains(&byte));
        let is_record = is_plain(name) && is_plain(version);
        let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
        is_record.then(|| Record { name, version: version.to_owned(), dir: entry.path() })
    };
    let mut records: Vec<Record> = entries.filter_map(record).collect();
    records.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    records
}

/// Is this the directory that a Python installs packages in?
fn is_site(dir: &Path) -> bool {
    dir.ends_with("site-packages") || dir.ends_with("dist-packages")
}

fn is_egg(framework: &Framework) -> bool {
    framework.distribution.info_dir.ends_with("EGG-INFO")
}

/// The root of the environment that contains a framework, which may be that of the base Python or of the user.
fn root_of(framework: &Framework, survey: &Survey) -> PathBuf {
    let root = &survey.environment.root;
    let site = framework.distribution.import_dir.as_path();
    let real = |path: &Path| cudnn_probe::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_in = |root: &Path| site.starts_with(root) || real(site).starts_with(real(root));
    if is_in(root) || !root.join("pyvenv.cfg").is_file() || !is_site(site) {
        return root.clone();
    }
    let user = packages::user_base().filter(|base| is_in(base));
    let base = || cudnn_probe::base_python(root).filter(|base| is_in(base));
    let other = || environment_with(site).filter(|root| python_in(root).is_file()).map(Path::to_owned);
    user.or_else(base).or_else(other).unwrap_or_else(|| root.clone())
}

/// The root of the environment with this directory of packages: `lib/python3.12/site-packages`, or `Lib/site-packages` on
/// Windows.
pub(in crate::check) fn environment_with(site: &Path) -> Option<&Path> {
    site.ancestors().nth(if Os::HOST == Os::Windows { 2 } else { 3 })
}
