//! Reads and writes the records of pip, conda and dpkg, which contain the version and files of a package.

use std::path::{Component as PathPart, Path, PathBuf};

use cudnn_frameworks::installation::{CondaRecord, conda_records, set_system_package, system_package, unmet_by_conda};
use cudnn_frameworks::{PackageRecord, allows, listed_files, pip_records};
use cudnn_probe::facts::{Changes, PathFacts};
use cudnn_probe::{Host, ld_so};
use serde_json::json;

use crate::packages::PackageNames;
use crate::packages::contents::{self, CONDA_CUDA, CONDA_FOLLOWERS, CONDA_LIBRARIES, NvidiaPackage};

/// Limits of a package's record: the bytes, the number of files, and the length of names.
const MAX_RECORD_LEN: u64 = 32 << 20;
const MAX_FILES: usize = 20_000;
const MAX_PATH_LEN: usize = 1_000;

const SYSTEM_DIR: &str = "/usr/lib/x86_64-linux-gnu";

/// The run path of wheels, without the directory that the wheels of CUDA share since CUDA 13.
const RUN_PATH_OF_WHEELS: &str = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib";

pub(super) enum PackageRecords {
    Pip {
        dirs: Vec<PathBuf>,
        /// The directory for new packages.
        dir: PathBuf,
    },
    Conda {
        root: PathBuf,
        cuda_major: u32,
        /// The dependencies that were already unmet.
        unmet: Vec<String>,
    },
    Dpkg,
}

impl PackageRecords {
    /// Reads conda's records. Returns `None` if they name no CUDA release, or if pixi decides about the packages.
    pub(super) fn read_conda(root: &Path, install: &[String]) -> Option<PackageRecords> {
        if root.join("conda-meta/pixi").path_exists() {
            return None;
        }
        let records = conda_records(root);
        let major = |version: &str| version.split('.').next()?.parse().ok();
        let wanted = install.iter().find_map(|one| major(one.strip_prefix(CONDA_CUDA)?.strip_prefix('=')?));
        let selected = || records.iter().find(|one| one.name == CONDA_CUDA).and_then(|one| major(&one.version));
        let of_cudnn = || records.iter().filter(|one| is_cudnn(&one.name)).find_map(CondaRecord::cuda);
        let cuda_major = wanted.or_else(selected).or_else(|| Some(of_cudnn()?.0))?;
        Some(PackageRecords::Conda { root: root.to_owned(), cuda_major, unmet: unmet_by_conda(&records) })
    }

    /// Returns the records of a package. After an interrupted upgrade there may be several.
    pub(super) fn find(&self, name: &str) -> Vec<PackageRecord> {
        let all: Vec<PackageRecord> = match self {
            PackageRecords::Pip { dirs, .. } => dirs.iter().flat_map(|dir| pip_records(dir)).collect(),
            PackageRecords::Conda { root, .. } => {
                let record =
                    |one: CondaRecord| PackageRecord { name: one.name, version: Some(one.version), path: one.file };
                conda_records(root).into_iter().map(record).collect()
            }
            PackageRecords::Dpkg => {
                let found = system_package(name, &Host::current());
                found
                    .map(|(one, path)| PackageRecord { name: one.name, version: one.version, path })
                    .into_iter()
                    .collect()
            }
        };
        all.into_iter().filter(|record| record.name == name).collect()
    }

    /// Returns whether the installed package meets this requirement, if known.
    pub(super) fn keeps(&self, old: &PackageRecord, requirement: &str) -> Option<bool> {
        // If the record's name lacks a version, pip reads the metadata.
        let version = old.version.as_deref()?;
        Some(allows(requirement, version) && !self.is_for_other_cuda(old))
    }

    /// Returns whether conda's package is for a different CUDA major version than the environment.
    fn is_for_other_cuda(&self, old: &PackageRecord) -> bool {
        let PackageRecords::Conda { root, cuda_major, .. } = self else { return false };
        let record = conda_records(root).into_iter().find(|record| record.file == old.path);
        record.and_then(|record| record.cuda()).is_some_and(|(major, _)| major != *cuda_major)
    }

    /// Returns the requirements that conda installs again because the CUDA release has changed.
    pub(super) fn outdated(&self) -> Vec<String> {
        let PackageRecords::Conda { root, cuda_major, .. } = self else { return Vec::new() };
        let names = conda_records(root).into_iter().map(|record| record.name);
        let is_known = |name: &String| contents::conda_package(name, *cuda_major, false).is_some();
        let is_outdated = |name: &String| self.find(name).iter().any(|record| self.is_for_other_cuda(record));
        names.filter(is_known).filter(is_outdated).collect()
    }

    pub(super) fn chosen(&self, requirement: &str, is_again: bool) -> Option<NvidiaPackage> {
        match self {
            PackageRecords::Pip { .. } => contents::wheel(requirement),
            PackageRecords::Conda { cuda_major, .. } => contents::conda_package(requirement, *cuda_major, is_again),
            PackageRecords::Dpkg => contents::debian_package(requirement),
        }
    }

    /// Returns the packages that conflict with a new one, because they contain the same files or require this version.
    pub(super) fn displaced_by(&self, new: &NvidiaPackage) -> Vec<String> {
        if !new.is_of_cudnn() {
            return Vec::new();
        }
        let mut names: Vec<String> = match self {
            PackageRecords::Pip { .. } => Vec::new(),
            PackageRecords::Conda { root, .. } => conda_records(root).into_iter().map(|record| record.name).collect(),
            PackageRecords::Dpkg => new.debian_rivals(),
        };
        names.retain(|name| is_cudnn(name) && *name != new.name);
        names
    }

    pub(super) fn following(&self, displaced: &str, new: &NvidiaPackage) -> Option<NvidiaPackage> {
        let follows = matches!(self, PackageRecords::Conda { .. })
            && new.name == CONDA_LIBRARIES
            && CONDA_FOLLOWERS.contains(&displaced);
        follows.then(|| NvidiaPackage::without_libraries(displaced, &new.version, new.cuda_major, Vec::new()))
    }

    /// Returns whether the changed records contradict others and the installer would make a different choice.
    pub(super) fn contradict(&self) -> bool {
        let PackageRecords::Conda { root, unmet, .. } = self else { return false };
        unmet_by_conda(&conda_records(root)).iter().any(|dependency| !unmet.contains(dependency))
    }

    /// Returns the files of a package, if the record is usable.
    pub(super) fn files(&self, record: &PackageRecord) -> Option<PackageFiles> {
        let (base, listed): (PathBuf, Vec<PathBuf>) = match self {
            PackageRecords::Pip { .. } => {
                (record.path.parent().unwrap_or(&record.path).to_owned(), listed_files(&record.path)?)
            }
            PackageRecords::Conda { root, .. } => {
                let found = conda_records(root).into_iter().find(|one| one.file == record.path)?;
                (root.clone(), found.files.into_iter().map(PathBuf::from).collect())
            }
            PackageRecords::Dpkg => {
                let list = cudnn_probe::read_bounded(&record.path, MAX_RECORD_LEN).ok()?;
                let list = String::from_utf8_lossy(&list);
                let is_file = |line: &&str| Path::new(line).is_link() || !Path::new(line).leads_to_dir();
                ("/".into(), list.lines().filter(is_file).map(|line| line.trim_start_matches('/').into()).collect())
            }
        };
        let is_below = |path: &PathBuf| {
            path.file_name().is_some() && path.components().all(|part| matches!(part, PathPart::Normal(_)))
        };
        let paths = listed.into_iter().filter(|path| path.as_os_str().len() <= MAX_PATH_LEN);
        let paths: Vec<PathBuf> = paths.filter(is_below).take(MAX_FILES + 1).collect();
        (paths.len() <= MAX_FILES).then_some(PackageFiles { base, paths })
    }

    pub(super) fn remove(&self, changes: &mut Changes, record: &PackageRecord) {
        changes.remove(&record.path);
        if let PackageRecords::Dpkg = self {
            set_system_package(changes, &record.name, None);
        }
    }

    pub(super) fn add(&self, changes: &mut Changes, package: &NvidiaPackage) {
        let NvidiaPackage { name, version, cuda_major, component, requires } = package;
        match self {
            PackageRecords::Pip { dir, .. } => {
                let shared =
                    if *cuda_major >= 13 { format!(":$ORIGIN/../../cu{cuda_major}/lib") } else { String::new() };
                let libraries = component.map_or(dir.clone(), |component| dir.join(component.wheel_dir(*cuda_major)));
                let files = package.write(changes, &libraries, Some(&format!("{RUN_PATH_OF_WHEELS}{shared}")));
                let info = dir.join(format!("{}-{version}.dist-info", name.replace('-', "_")));
                let requires: String =
                    requires.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
                let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
                // The simulated libraries are empty.
                let record: String = below(&files, dir).iter().map(|file| format!("{file},,0\n")).collect();
                for (file, text) in [("METADATA", metadata.as_str()), ("INSTALLER", "pip\n"), ("RECORD", &record)] {
                    changes.write(&info.join(file), text);
                }
            }
            PackageRecords::Conda { root, .. } => {
                let files = package.write(changes, &root.join("lib"), Some("$ORIGIN"));
                let is_cuda = name == CONDA_CUDA;
                let cuda = (!is_cuda).then(|| format!("{CONDA_CUDA} >={cuda_major},<{}.0a0", cuda_major + 1));
                let record = json!({
                    "name": name, "version": version, "files": below(&files, root), "depends": Vec::from_iter(cuda),
                });
                changes.write(&root.join(format!("conda-meta/{name}-{version}-0.json")), &record.to_string());
            }
            PackageRecords::Dpkg => {
                let of_cuda = || format!("/usr/local/cuda-{}/targets/x86_64-linux/lib", package.release_name());
                let dir = if package.is_of_cudnn() { SYSTEM_DIR.to_owned() } else { of_cuda() };
                let files = package.write(changes, Path::new(&dir), None);
                files.iter().for_each(|file| ld_so::add_to_cache(changes, file));
                let list: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
                changes.write(Path::new(&format!("/var/lib/dpkg/info/{name}.list")), &list);
                set_system_package(changes, name, Some(version));
            }
        }
    }
}

pub(super) struct PackageFiles {
    pub(super) base: PathBuf,
    /// Their paths below it.
    pub(super) paths: Vec<PathBuf>,
}

fn is_cudnn(name: &str) -> bool {
    name.contains("cudnn") && !name.contains("frontend")
}

fn below(files: &[PathBuf], dir: &Path) -> Vec<String> {
    files.iter().map(|file| file.strip_prefix(dir).unwrap_or(file).to_string_lossy().into_owned()).collect()
}
