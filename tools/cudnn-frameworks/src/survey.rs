//! Surveys the frameworks of an environment, with the packages that concern their users.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Os};

use crate::environment::Environment;
use crate::files::matching;
use crate::framework::built_for::{self, BuiltFor};
use crate::framework::kind::{KINDS, Kind};
use crate::framework::missing_files::{self, MissingFiles};
use crate::framework::{releases, version_file};
use crate::opens::unlisted::{self, Unlisted};
use crate::opens::{self, Known, Opens};
use crate::package::distribution::{self, Distribution};
use crate::package::requirement::{self, Pin};
use crate::package::unreadable::{Remedy, Unreadable};
use crate::package::{conda, metadata, undecodable};

/// What an environment has.
#[derive(Debug)]
pub struct Survey {
    /// The environment.
    pub environment: Environment,
    /// The frameworks, in the order of [`KINDS`].
    pub frameworks: Vec<Framework>,
    /// Other packages with libraries that use cuDNN. Empty if [`Depth::unlisted`] is not set.
    pub unlisted: Vec<Unlisted>,
    /// Packages whose files could not be read, or that are installed twice.
    pub unreadable: Vec<Unreadable>,
    /// Large libraries of other packages, which were not searched for the name of cuDNN. Empty if [`Depth::unlisted`] is
    /// not set.
    pub unsearched: Vec<PathBuf>,
    /// The directory is no environment: it has neither a Python nor a package.
    pub is_no_environment: bool,
    /// The limits of the survey were reached: there is more than it reports.
    pub is_truncated: bool,
    /// What it has read of libraries, for [`pairs`](crate::pairs).
    pub(crate) known: Known,
}

/// A framework in an environment.
#[derive(Debug)]
pub struct Framework {
    /// Which framework it is.
    pub kind: &'static Kind,
    /// The package that it was found as.
    pub distribution: Distribution,
    /// Its version, as its package states it: `2.9.1+cu128`.
    pub version: String,
    /// The system that it is built for.
    pub os: Os,
    /// The directory of its module: `site-packages/torch`. `None` if it is installed elsewhere (editable, zipped).
    pub dir: Option<PathBuf>,
    /// What it was built for.
    pub built_for: BuiltFor,
    /// The `nvidia-*` and other CUDA packages that it requires.
    pub pins: Vec<Pin>,
    /// The cuDNN that it would load.
    pub opens: Opens,
    /// The files of its package that its record names and that are not there.
    pub missing_files: MissingFiles,
}

impl Framework {
    /// Whether it finds the libraries in this directory of a wheel (`site-packages/nvidia/cudnn/lib`) by itself: by its
    /// Python code, or by the run path of one of its libraries. The directory need not exist.
    pub fn searches(&self, wheel_dir: &Path, host: &Host) -> bool {
        // On Windows no module's Python code opens the wheels of cuDNN when it is imported.
        if self.os == Os::Windows {
            return false;
        }
        self.kind.opens_below(wheel_dir)
            || self.dir.as_deref().is_some_and(|dir| self.kind.has_run_path_to(dir, wheel_dir, host))
    }

    /// What a program can do to have it find the wheels of CUDA and cuDNN, among these frameworks of its environment:
    /// "call ... before ...". `None` if nothing would work.
    pub fn finds_wheels_by(&self, all: &[Framework]) -> Option<String> {
        let ways = self.kind.finds_wheels.as_ref()?;
        let call = releases::is_since(&self.version, ways.since).then(|| format!("call `{}`", ways.function));
        let opens_the_same =
            |other: &Framework| other.kind.id == ways.module && other.os == self.os && self.shares_libraries_of(other);
        let import = all.iter().any(opens_the_same).then(|| format!("run `import {}`", ways.module));
        let ways_here: Vec<String> = call.into_iter().chain(import).collect();
        (!ways_here.is_empty()).then(|| format!("{} before {}", ways_here.join(" or "), ways.before))
    }

    /// Does the other one open a cuDNN of the major version that this one is built for, and a CUDA of that?
    fn shares_libraries_of(&self, other: &Framework) -> bool {
        let cuda = |framework: &Framework| framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
        let is_same_cuda = cuda(self).is_none_or(|wanted| cuda(other).is_none_or(|found| found == wanted));
        let cudnn = self.built_for.cudnn.as_ref().map(|wanted| wanted.value.major);
        let found = other.opens.version();
        is_same_cuda && found.is_some_and(|found| cudnn.is_none_or(|wanted| wanted == found.major))
    }
}

/// What a survey reads, beside names and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// The compute capabilities of kernels: 10 to 100 ms for a framework whose files are in the page cache, up to half a
    /// second from a disk.
    pub kernels: bool,
    /// The headers of all extension libraries, to find the packages that nobody listed: some 40 microseconds for each
    /// that is in the page cache, and a second or more for thousands on a disk.
    pub unlisted: bool,
    /// The metadata of all packages, to find what pip cannot decode: some 20 microseconds for each.
    pub metadata: bool,
}

/// Reads an environment.
pub fn survey(environment: &Environment, host: &Host) -> Survey {
    survey_to(environment, host, Depth { kernels: true, unlisted: true, metadata: true })
}

/// Reads an environment, and leaves out what takes long.
pub fn survey_to(environment: &Environment, host: &Host, depth: Depth) -> Survey {
    let known = Known::default();
    let started = opens::start(environment, host, &known);
    let is_wanted = |name: &str| {
        requirement::is_cuda(name)
            || KINDS.iter().any(|kind| kind.is_package(name) || kind.fallback_packages.contains(&name))
    };
    let mut found = distribution::read(environment, is_wanted);
    let is_here = |dir: &Path| dir.starts_with(&environment.root);
    let has_packages = found.distributions.iter().any(|package| is_here(&package.import_dir))
        || found.unreadable.iter().any(|one| is_here(&one.path));
    let records = conda::records_of_cuda(&environment.root);
    let mut frameworks: Vec<Framework> = Vec::new();
    for kind in KINDS.iter() {
        let mut of_kind: Vec<Distribution> = kind.distributions_in(&found.distributions).into_iter().cloned().collect();
        if of_kind.is_empty() {
            of_kind.extend(without_metadata(kind, environment));
        }
        for distribution in of_kind {
            let dir = kind.dir(environment, &distribution);
            let pins = pins(kind, &distribution, &found.distributions, environment);
            for reason in pins.iter().filter_map(Pin::unreadable) {
                found.add(Unreadable::new(metadata::file(&distribution.info_dir), reason, None));
            }
            if let Some((closed, error)) = dir.as_deref().and_then(|dir| kind.closed(dir, environment.os)) {
                found.add(Unreadable::new(closed, error, Some(Remedy::Allow)));
            }
            let of_conda = conda::of(kind, &distribution, &records, &environment.root);
            let pins = [pins, conda::pins(&of_conda, &records)].concat();
            let os = environment.os;
            let built_for = built_for::read(kind, &distribution, dir.as_deref(), &pins, &of_conda, os, depth.kernels);
            frameworks.push(Framework {
                kind,
                version: distribution.version.clone(),
                os,
                opens: opens::read(kind, &distribution.version, dir.as_deref(), &built_for, &*started),
                pins,
                missing_files: missing_files::read(kind, &distribution, os),
                distribution,
                built_for,
                dir,
            });
        }
    }
    if depth.metadata {
        undecodable::report(&mut found);
    }
    let mut others = unlisted::Others::default();
    // Only libraries for Linux are examined there.
    if depth.unlisted && environment.os != Os::Windows {
        let is_listed = |name: &str| frameworks.iter().any(|framework| framework.distribution.name == name);
        let packages = found.distributions.iter();
        let packages = packages.filter(|package| !package.name.starts_with("nvidia-") && !is_listed(&package.name));
        let dirs: Vec<PathBuf> = frameworks.iter().filter_map(|framework| framework.dir.clone()).collect();
        others = unlisted::read(&packages.collect::<Vec<_>>(), &dirs, &*started);
    }
    Survey {
        environment: environment.clone(),
        frameworks,
        unlisted: others.unlisted,
        unsearched: others.unsearched,
        is_no_environment: !environment.has_python() && !has_packages,
        unreadable: found.unreadable,
        is_truncated: found.is_truncated || others.is_truncated,
        known,
    }
}

/// The requirements of a framework's package by Python's metadata, and those that no metadata states.
fn pins(kind: &Kind, of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let mut pins = requirement::pins(of, installed, environment);
    let twins = kind.same_version.iter().filter(|_| kind.packages.contains(&of.name.as_str()));
    pins.extend(twins.map(|twin| requirement::same_version(of, twin, installed)));
    pins
}

/// A framework's module, if no package's metadata states that it is there.
fn without_metadata(kind: &Kind, environment: &Environment) -> Option<Distribution> {
    let dirs = environment.import_dirs.iter().map(|import_dir| (import_dir, import_dir.join(kind.module)));
    let (import_dir, dir) = dirs.into_iter().find(|(_, dir)| dir.leads_to_dir())?;
    let has_library = kind.on(environment.os)?.always_there().iter().any(|pattern| !matching(&dir, pattern).is_empty());
    let version = version_file::read(kind, &dir).version.filter(|_| has_library)?;
    Distribution::without_metadata(kind.packages.first()?, &version, import_dir, &dir)
}
