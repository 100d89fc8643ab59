//! What the Python frameworks of an environment were built for, and which cuDNN each would load.
//!
//! ```no_run
//! use cudnn_frameworks::{Environment, survey};
//! use cudnn_probe::{Host, Os};
//!
//! let host = Host::current();
//! let survey = survey(&Environment::at("/home/me/venv".as_ref(), &host), &host);
//! for framework in &survey.frameworks {
//!     println!("{} {}: cuDNN {:?}", framework.kind.name, framework.version, framework.opens);
//! }
//! ```
//!
//! Everything is read from files within limits; nothing that is found is run or loaded. What a file does not state is in
//! [`facts`], with a source and a date. The crate finds frameworks and states facts. Whether a fact is a problem for this
//! machine, and what to do about it, is for `cudnn-doctor` to say.
//!
//! ```text
//! environment ─► distribution (metadata, conda) ─► requirement   which packages, and do their pins hold
//!                     │
//!                     ▼
//!                  kind ─► built_for (facts)            what a framework wants
//!                     │
//!                     ▼
//!                  opens ─► process                     what it gets: alone, and beside another (known: read once for all)
//! ```

mod absent;
mod built_for;
mod conda;
mod cudnn_name;
mod distribution;
mod driver;
mod drop_in;
mod environment;
pub mod facts;
mod kind;
mod known;
mod metadata;
mod opens;
mod parallel;
mod process;
mod record;
mod requirement;
mod undecodable;
mod unlisted;
mod unreadable;

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Os};

pub use absent::Absent;
pub use built_for::{BuiltFor, Source, Stated};
pub use cudnn_name::is_cudnn;
pub use distribution::Distribution;
pub use driver::is_of_driver;
pub use drop_in::{drop_in_version, drop_in_version_named, is_drop_in, is_drop_in_named};
pub use environment::Environment;
pub use kind::{Comparison, KINDS, Kind};
pub use opens::{By, Damaged, Opened, Opens, Unfound};
pub use process::{Pair, pairs};
pub use requirement::{Pin, PinState, allows_from};
pub use unlisted::Unlisted;
pub use unreadable::{Remedy, Unreadable};

/// What an environment has.
#[derive(Debug)]
#[non_exhaustive]
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
    /// What it has read of libraries: the same for all frameworks, and for [`pairs`] of them.
    known: known::Known,
}

/// A framework in an environment.
#[derive(Debug)]
#[non_exhaustive]
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
    pub absent: Absent,
}

impl Framework {
    /// Whether it finds the libraries in this directory of a wheel (`site-packages/nvidia/cudnn/lib`) by itself: by its
    /// Python code, or by the run path of one of its libraries. The directory need not exist.
    #[must_use]
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
    #[must_use]
    pub fn finds_wheels_by(&self, all: &[Framework]) -> Option<String> {
        let ways = self.kind.finds_wheels.as_ref()?;
        let call = facts::is_since(&self.version, ways.since).then(|| format!("call `{}`", ways.function));
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
#[must_use]
pub fn survey(environment: &Environment, host: &Host) -> Survey {
    survey_to(environment, host, Depth { kernels: true, unlisted: true, metadata: true })
}

/// Reads an environment, and leaves out what takes long.
#[must_use]
pub fn survey_to(environment: &Environment, host: &Host, depth: Depth) -> Survey {
    let known = known::Known::default();
    let started = opens::Process::start(environment, host, &known);
    let (mut survey, mut found) = listed(environment, &started, known, depth.kernels);
    if depth.metadata {
        found.unreadable = std::mem::take(&mut survey.unreadable);
        undecodable::report(&mut found);
        survey.unreadable = std::mem::take(&mut found.unreadable);
        survey.is_truncated = found.is_truncated;
    }
    // Only libraries for Linux are examined there.
    if depth.unlisted && environment.os != Os::Windows {
        let others = unlisted::read(&mut found, &survey.frameworks, &started);
        (survey.unlisted, survey.unsearched) = (others.unlisted, others.unsearched);
        survey.is_truncated = found.is_truncated;
    }
    survey
}

/// The frameworks of [`KINDS`]. `started`: a process of the environment's Python.
fn listed(
    environment: &Environment,
    started: &opens::Process,
    known: known::Known,
    reads_kernels: bool,
) -> (Survey, distribution::Found) {
    let is_wanted = |name: &str| {
        requirement::is_cuda(name)
            || KINDS.iter().any(|kind| kind.is_package(name) || kind.fallback_packages.contains(&name))
    };
    let mut found = distribution::read(environment, is_wanted);
    let records = conda::records(environment);
    let mut frameworks: Vec<Framework> = Vec::new();
    let mut unreadable: Vec<Unreadable> = Vec::new();
    for kind in KINDS {
        let mut of_kind: Vec<&Distribution> = kind.distributions_in(&found.distributions).collect();
        let without_metadata = if of_kind.is_empty() { without_metadata(kind, environment) } else { None };
        of_kind.extend(&without_metadata);
        for distribution in of_kind {
            let dir = kind.dir(environment, distribution);
            let mut pins = requirement::pins(distribution, &found.distributions, environment);
            for (requirement, reason) in pins.iter().filter_map(Pin::unreadable) {
                let reason = format!("has a requirement that was not compared: {requirement}: {reason}");
                unreadable.push(Unreadable::new(metadata::file(&distribution.info_dir), reason));
            }
            let of_conda = conda::of(kind, distribution, &records, &environment.root);
            pins.extend(conda::pins(&of_conda, &records));
            let twins = kind.same_version.iter().filter(|_| kind.packages.contains(&distribution.name.as_str()));
            pins.extend(twins.map(|twin| requirement::same_version(distribution, twin, &found.distributions)));
            let built_for =
                built_for::read(kind, distribution, dir.as_deref(), &pins, &of_conda, environment.os, reads_kernels);
            if let Some((closed, error)) = dir.as_deref().and_then(|dir| kind.closed(dir, environment.os)) {
                unreadable.push(Unreadable::new(closed, error).with_remedy(Remedy::Allow));
            }
            frameworks.push(Framework {
                kind,
                version: distribution.version.clone(),
                os: environment.os,
                opens: opens::read(kind, &distribution.version, dir.as_deref(), &built_for, started),
                pins,
                absent: absent::read(kind, distribution, environment.os),
                distribution: distribution.clone(),
                built_for,
                dir,
            });
        }
    }
    unreadable.into_iter().for_each(|one| found.add(one));
    let is_here = |dir: &Path| dir.starts_with(&environment.root);
    let has_packages = found.distributions.iter().any(|package| is_here(&package.import_dir))
        || found.unreadable.iter().any(|one| is_here(&one.path));
    let survey = Survey {
        environment: environment.clone(),
        frameworks,
        unlisted: Vec::new(),
        unsearched: Vec::new(),
        is_no_environment: !environment.has_python() && !has_packages,
        unreadable: std::mem::take(&mut found.unreadable),
        is_truncated: found.is_truncated,
        known,
    };
    (survey, found)
}

/// A framework's module, if no package's metadata states that it is there.
fn without_metadata(kind: &Kind, environment: &Environment) -> Option<Distribution> {
    let import_dirs = environment.import_dirs.iter();
    let (import_dir, dir) =
        import_dirs.map(|import_dir| (import_dir, import_dir.join(kind.module))).find(|(_, dir)| dir.is_dir())?;
    let has_library =
        kind.always_there_on(environment.os).iter().any(|pattern| !kind::matching(&dir, pattern).is_empty());
    let version = built_for::own_version(kind, &dir).filter(|_| has_library)?;
    Distribution::without_metadata(kind.packages.first()?, &version, import_dir, &dir)
}
