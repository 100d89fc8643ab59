//! Surveys the frameworks of an environment and the packages that affect them.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Os};

use crate::environment::Environment;
use crate::files::matching;
use crate::framework::built_for::{self, BuiltFor};
use crate::framework::kind::{FrameworkKind, KINDS, UsesCudnnOf};
use crate::framework::missing_files::{self, MissingFiles};
use crate::framework::{releases, version_file};
use crate::opens::unlisted::{self, Unlisted};
use crate::opens::{self, Known, Opens};
use crate::package::distribution::{self, Distribution};
use crate::package::requirement::{self, Pin};
use crate::package::unreadable::{Repair, Unreadable};
use crate::package::{conda, metadata, undecodable};

/// The frameworks and related packages of an environment.
#[derive(Debug)]
pub struct Survey {
    /// The environment.
    pub environment: Environment,
    /// The frameworks, in the order of [`KINDS`].
    pub frameworks: Vec<Framework>,
    /// Other packages with libraries that use cuDNN. Filled only with [`Depth::unlisted`].
    pub unlisted: Vec<Unlisted>,
    /// Packages that are unreadable or installed twice.
    pub unreadable: Vec<Unreadable>,
    /// Large libraries of other packages, which were not searched for cuDNN's name. Filled only with
    /// [`Depth::unlisted`].
    pub unsearched: Vec<PathBuf>,
    /// The directory is not an environment: it contains neither a Python nor a package.
    pub is_no_environment: bool,
    /// The survey reached a limit, so the report is incomplete.
    pub is_truncated: bool,
    /// Data of libraries, which [`pairs`](crate::pairs) uses again.
    pub(crate) known: Known,
}

impl Survey {
    /// Returns the framework that loads cuDNN for this one: another one or itself.
    pub fn cudnn_loader_of<'a>(&'a self, framework: &'a Framework) -> &'a Framework {
        let is_loader = |other: &&Framework| framework.kind.cudnn_loader().is_some_and(|kind| other.kind.id == kind.id);
        self.frameworks.iter().find(is_loader).unwrap_or(framework)
    }
}

/// A framework in an environment.
#[derive(Debug)]
pub struct Framework {
    /// The kind of framework.
    pub kind: &'static FrameworkKind,
    /// The package that provides the framework.
    pub distribution: Distribution,
    /// The version in the package's metadata: `2.9.1+cu128`.
    pub version: String,
    /// The operating system that the framework is built for.
    pub os: Os,
    /// The directory of the framework's module: `site-packages/torch`. `None` if it is elsewhere (editable, zipped).
    pub dir: Option<PathBuf>,
    /// The CUDA, cuDNN and GPU architectures that the framework was built for.
    pub built_for: BuiltFor,
    /// The required `nvidia-*` and other CUDA packages.
    pub pins: Vec<Pin>,
    /// The cuDNN that the framework, or another one for it, would load ([`FrameworkKind::cudnn_loader`]).
    pub opens: Opens,
    /// Missing files that the package's record lists.
    pub missing_files: MissingFiles,
}

impl Framework {
    /// Returns whether the framework searches this wheel directory (`site-packages/nvidia/cudnn/lib`), in Python code
    /// or by a run path. The directory may be missing.
    pub fn searches(&self, wheel_dir: &Path, host: &Host) -> bool {
        // On Windows, importing a framework never opens the cuDNN wheels.
        if self.os == Os::Windows {
            return false;
        }
        self.kind.opens_below(wheel_dir)
            || self.dir.as_deref().is_some_and(|dir| self.kind.has_run_path_to(dir, wheel_dir, host))
    }

    /// Returns how a program can make the framework find the CUDA and cuDNN wheels, given all frameworks of the
    /// environment: "call ... before ...". `None` if no call would load all missing libraries.
    pub fn finds_wheels_by(&self, all: &[Framework]) -> Option<String> {
        let ways = self.kind.finds_wheels.as_ref()?;
        let is_loaded = |name: &String| ways.loads.iter().any(|start| name.starts_with(start));
        if self.os == Os::Linux && !self.opens.missing.iter().all(is_loaded) {
            return None;
        }
        let is_for_13 = self.built_for.cuda.as_ref().is_some_and(|cuda| cuda.value.0 >= 13);
        let since = if is_for_13 && self.os == Os::Linux { ways.since_for_cuda_13 } else { ways.since };
        let call = releases::is_since(&self.version, since).then(|| format!("call `{}`", ways.function));
        let opens_the_same =
            |other: &Framework| other.kind.id == ways.module && other.os == self.os && self.shares_libraries_of(other);
        let import = all.iter().any(opens_the_same).then(|| format!("run `import {}`", ways.module));
        let ways_here: Vec<String> = call.into_iter().chain(import).collect();
        (!ways_here.is_empty()).then(|| format!("{} before {}", ways_here.join(" or "), ways.before))
    }

    /// Returns whether the other framework loads the CUDA and cuDNN major versions that this one needs.
    fn shares_libraries_of(&self, other: &Framework) -> bool {
        let cuda = |framework: &Framework| framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
        let is_same_cuda = cuda(self).is_none_or(|wanted| cuda(other).is_none_or(|found| found == wanted));
        let cudnn = self.built_for.cudnn.as_ref().map(|wanted| wanted.value.major);
        let found = other.opens.version();
        is_same_cuda && found.is_some_and(|found| cudnn.is_none_or(|wanted| wanted == found.major))
    }
}

/// Optional parts of a survey, beyond names and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Read the compute capabilities of kernels, which takes 10 to 100 ms per framework with files in the page cache,
    /// and up to half a second from a disk.
    pub kernels: bool,
    /// Read the headers of all extension libraries to find frameworks outside [`KINDS`]. This takes 40 microseconds per
    /// library in the page cache, and a second or more for thousands on a disk.
    pub unlisted: bool,
    /// Read the metadata of all packages to find files that pip cannot decode, which takes 20 microseconds per package.
    pub metadata: bool,
}

/// Surveys an environment completely.
pub fn survey(environment: &Environment, host: &Host) -> Survey {
    survey_to(environment, host, Depth { kernels: true, unlisted: true, metadata: true })
}

/// Surveys an environment, with the slow parts that `depth` selects.
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
                found.add(Unreadable::new(closed, error, Some(Repair::Allow)));
            }
            let of_conda = conda::of(kind, &distribution, &records, &environment.root);
            let pins = [pins, conda::pins(&of_conda, &records)].concat();
            let os = environment.os;
            let built_for = built_for::read(kind, &distribution, dir.as_deref(), &pins, &of_conda, os, depth.kernels);
            let (built_for, opens) = match &kind.uses_cudnn_of {
                Some(of) => with_cudnn_of(of, &frameworks, built_for),
                None => {
                    let opens = opens::read(kind, &distribution.version, dir.as_deref(), &built_for, &*started);
                    (built_for, opens)
                }
            };
            frameworks.push(Framework {
                kind,
                version: distribution.version.clone(),
                os,
                opens,
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
    // On Windows, unlisted packages are not examined.
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

/// Describes a framework that uses the CUDA and cuDNN files of the framework that loads cuDNN.
fn with_cudnn_of(of: &UsesCudnnOf, frameworks: &[Framework], built_for: BuiltFor) -> (BuiltFor, Opens) {
    let uses_gpu = built_for.uses_gpu.as_ref().is_none_or(|uses_gpu| uses_gpu.value);
    let Some(loader) = frameworks.iter().find(|other| uses_gpu && other.kind.id == of.framework) else {
        return (BuiltFor { cudnn: None, ..built_for }, Opens { needs_none: true, ..Opens::default() });
    };
    let is_compared = of.release.is_none_or(|release| loader.version.split('+').next() == Some(release));
    let cudnn = built_for.cudnn.filter(|_| is_compared);
    let cuda = loader.built_for.cuda.clone().or(built_for.cuda);
    // Missing libraries are the other framework's problem.
    let opens = Opens { is_optional: true, missing_libraries: Vec::new(), ..loader.opens.clone() };
    (BuiltFor { cudnn, cuda, ..built_for }, opens)
}

/// Returns the requirements in a framework's metadata, and requirements that no metadata contains.
fn pins(kind: &FrameworkKind, of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let mut pins = requirement::pins(of, installed, environment);
    let twins = kind.same_version.iter().filter(|_| kind.packages.contains(&of.name.as_str()));
    pins.extend(twins.map(|twin| requirement::same_version(of, twin, installed)));
    pins
}

fn without_metadata(kind: &FrameworkKind, environment: &Environment) -> Option<Distribution> {
    let dirs = environment.import_dirs.iter().map(|import_dir| (import_dir, import_dir.join(kind.module)));
    let (import_dir, dir) = dirs.into_iter().find(|(_, dir)| dir.leads_to_dir())?;
    let has_library = kind.on(environment.os)?.always_there().iter().any(|pattern| !matching(&dir, pattern).is_empty());
    let version = version_file::read(kind, &dir).version.filter(|_| has_library)?;
    Distribution::without_metadata(kind.packages.first()?, &version, import_dir, &dir)
}
