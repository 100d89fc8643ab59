//! Derives the help for a cause of failure.

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, site_packages};
use cudnn_frameworks::releases::{self, is_since};
use cudnn_frameworks::{Environment, survey_to};

use super::cause::{Cause, CauseKind};
use super::{Run, RunnableFramework, outside_module};
use crate::check::frameworks::{help_for_libraries, install_for_active, install_full};
use crate::check::machine::Machine;
use crate::check::remedies::{self, Wanted};
use crate::check::wheel_choice::choose_wheel;
use crate::context::{Context, MINIMAL_DEPTH};
use crate::packages::{self, PackageChange};
use crate::python::Python;
use crate::remedy::{Action, Remedy};

/// Variables that can select a cuDNN outside the framework's environment, with the location of cuDNN below their
/// directories.
const VARIABLES: [(&str, &str); 2] = [("LD_LIBRARY_PATH", ""), ("PYTHONPATH", "nvidia/cudnn/lib")];

pub(super) struct Helper<'a> {
    pub(super) run: &'a Run,
    pub(super) python: &'a Python,
    pub(super) context: &'a Context,
    pub(super) machine: &'a Machine,
}

impl Helper<'_> {
    pub(super) fn help(&self, cause: &Cause) -> Remedy {
        let framework = self.run.framework;
        let name = framework.name();
        match &cause.kind {
            CauseKind::MissingLibrary(library) => self.missing_library(library),
            CauseKind::MissingSubLibrary if framework == RunnableFramework::Ctranslate2 => Remedy::new(
                "CTranslate2 4.5 and 4.6 contain cuDNN's shim without its libraries; 4.6.3 and later do not need \
                 cuDNN:",
            )
            .change(self.change().install(["ctranslate2>=4.6.3"])),
            CauseKind::MissingSymbol if !cause.text.contains("cudnn") => Remedy::new(format!(
                "a library does not match the release that {name} was built for: reinstall {name} with its dependencies"
            )),
            CauseKind::MissingSubLibrary | CauseKind::MissingSymbol | CauseKind::Mixed => {
                let reinstalled = || self.loaded_installation().map(|loaded| remedies::reinstall(&loaded));
                self.by_variable().or_else(reinstalled).unwrap_or_else(other)
            }
            CauseKind::OldCudnn(built_for) => self.by_variable().unwrap_or_else(|| match self.loaded_installation() {
                Some(loaded) => {
                    let wanted = Wanted { minimum: *built_for, ..Wanted::default() };
                    remedies::upgrade_to_requirement(&loaded, &wanted, &[], self.context).unwrap_or_else(Remedy::new)
                }
                None => self.install_cudnn(),
            }),
            CauseKind::NoKernel => Remedy::new(format!(
                "install a build of {name} with code for this GPU: its download page lists the supported GPUs"
            )),
            CauseKind::NoGpuMemory => Remedy::new("free the GPU's memory; to see which processes use it:")
                .action(Action::Inspect(Command::new("nvidia-smi", [""; 0]))),
            CauseKind::OldDriver => {
                Remedy::new(format!("update NVIDIA's driver, or install a build of {name} for an older CUDA release"))
            }
            CauseKind::NoGpu => Remedy::new(
                "check that `nvidia-smi` works, that the container was started with GPU access, and \
                 CUDA_VISIBLE_DEVICES",
            ),
            CauseKind::NoModule(module) if module == framework.module() => {
                let text = "is not installed for this Python: install it, or name another Python with --python:";
                self.install_framework(format!("{name} {text}"), self.change(), false)
            }
            CauseKind::NoModule(module) => {
                Remedy::new(format!("install the package with the module {module}, or reinstall {name}"))
            }
            CauseKind::Hidden(variable) => Remedy::new(format!("{variable} hides the GPUs: unset it:")).unset(variable),
            CauseKind::NoCuda => self.with_cuda(),
            CauseKind::Other => other(),
        }
    }

    fn change(&self) -> PackageChange {
        PackageChange::of(self.python.site())
    }

    /// Adds the installation of the framework with CUDA support to a change, in a version that fits the other frameworks
    /// in the environment.
    fn install_framework(&self, text: String, change: PackageChange, again: bool) -> Remedy {
        match self.requirements() {
            Ok(requirements) if again => {
                let change = PackageChange { with_dependencies: true, ..change };
                Remedy::new(text).change(change.reinstall(requirements))
            }
            Ok(requirements) => Remedy::new(text).change(change.install(requirements)),
            Err(reason) => Remedy::new(reason),
        }
    }

    /// Returns pip requirements for the framework and for the cuDNN that other frameworks need, or explains why no
    /// build of the framework fits the others.
    fn requirements(&self) -> Result<Vec<String>, String> {
        let Helper { run: Run { framework, .. }, python, context, machine } = self;
        let survey = survey_to(&self.environment(), &context.host, MINIMAL_DEPTH);
        let others = || survey.frameworks.iter().filter(|other| other.kind.id != framework.module());
        let choice = choose_wheel(others(), machine)?;
        if choice.is_demanded {
            let build = build_for(*framework, choice.cuda_major).ok_or_else(|| {
                let other = others().find(|other| !other.opens.needs_none);
                let other = other.map_or("another framework here", |other| other.kind.name);
                let (cuda, name) = (choice.cuda_major, framework.name());
                format!(
                    "{other} is built for CUDA {cuda}, but no known release of {name} in the Python package index is: \
                     give {name} an environment of its own"
                )
            })?;
            return Ok(vec![build, choice.requirement]);
        }
        let has_jax_13 = || site_packages(&python.root).any(|dir| dir.join("jax_plugins/xla_cuda13").leads_to_dir());
        let is_for_13 = *framework == RunnableFramework::Jax && has_jax_13();
        Ok(vec![framework.package(if is_for_13 { 13 } else { choice.cuda_major.max(12) })])
    }

    fn environment(&self) -> Environment {
        Environment::from_python(&self.python.program, &self.python.root, &self.context.host)
    }

    /// Installs the CUDA build. The CPU build is removed first if the packages own the same files.
    fn with_cuda(&self) -> Remedy {
        let framework = self.run.framework;
        let (name, package, cpu) = (framework.name(), framework.package(12), framework.cpu_package());
        let is_of_two = |installed: &&str| Some(*installed) == cpu || *installed == package;
        let Some(installed) = self.run.package.as_deref().filter(is_of_two) else {
            // A CPU-only build of the same release may be installed. JAX ships CUDA support in separate packages.
            let text = format!("to use a GPU, install a build of {name} with CUDA:");
            return self.install_framework(text, self.change(), framework != RunnableFramework::Jax);
        };
        let text = format!(
            "to use a GPU, replace {installed} by the build of {name} with CUDA, because the packages overwrite each \
             other:"
        );
        let both = cpu.into_iter().chain((installed == package).then_some(package.as_str()));
        self.install_framework(text, self.change().remove(both), false)
    }

    fn missing_library(&self, library: &str) -> Remedy {
        let Helper { run, python, context, machine } = self;
        let name = run.framework.name();
        if library.starts_with("libcudnn") {
            if !library.ends_with(".so.9") {
                return Remedy::new(format!(
                    "this {name} was built for another major version of cuDNN: install a release for cuDNN 9"
                ));
            }
            let Some(installed) = context.selected() else { return self.install_cudnn() };
            let can_preload = run.framework == RunnableFramework::Onnxruntime
                && run.version.as_deref().is_some_and(|version| is_since(version, "1.21"));
            let preload = match can_preload {
                true => "call onnxruntime.preload_dlls() before the first session, or ",
                false => "",
            };
            let text = format!("{preload}have ld.so search the directory of the installed cuDNN:");
            return Remedy::new(text).search(&installed.dir);
        }
        if library.is_empty() {
            return self.install_framework(format!("install {name} with the libraries of CUDA:"), self.change(), false);
        }
        // Include the libraries that would be missing next.
        let all = help_for_libraries(run.framework.module(), &self.environment(), machine, &context.host);
        all.unwrap_or_else(|| match packages::cuda_wheel(library, None) {
            Some(wheel) => {
                let mut dirs = site_packages(&python.root).map(|site| site.join(&wheel.dir));
                match dirs.find(|dir| dir.join(library).leads_to_file()) {
                    Some(dir) => {
                        Remedy::new(format!("{library} is in {}: have ld.so search there:", wheel.name)).search(&dir)
                    }
                    None => Remedy::new(format!("install the package with {library}:"))
                        .change(self.change().install([wheel.requirement])),
                }
            }
            None => match python.site().check() {
                Some(check) => Remedy::new(format!(
                    "install the package with {library}; to see what the installed packages require and lack:"
                ))
                .action(Action::Inspect(check)),
                None => Remedy::new(format!("install the package with {library}")),
            },
        })
    }

    /// Returns the help if a variable made the process load a cuDNN outside the framework's environment.
    fn by_variable(&self) -> Option<Remedy> {
        let real = |file: &Path| cudnn_probe::canonicalize(file).ok();
        let environment = real(&self.python.root);
        let is_outside = |file: &PathBuf| environment.as_ref().is_none_or(|root| !file.starts_with(root));
        let files = self.run.libraries.iter().filter_map(|file| real(Path::new(file)));
        let loaded: Vec<PathBuf> = files.filter(is_outside).collect();
        // The directory may contain symbolic links.
        let has_loaded = |dir: &Path| {
            let files = facts::read_dir(dir).into_iter().flatten();
            let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with("libcudnn"));
            files.any(|file| real(&file.path()).is_some_and(|file| loaded.contains(&file)))
        };
        VARIABLES.into_iter().find_map(|(variable, below)| {
            let (dir, change) = outside_module::without(variable, |dir| has_loaded(&dir.join(below)))?;
            let dir = dir.printable();
            let text = format!("{variable} leads to the cuDNN in {dir}: remove that directory from it:");
            Some(Remedy::new(text).action(change))
        })
    }

    /// Returns the installation with the loaded shim or graph library, preferably in the framework's own environment.
    fn loaded_installation(&self) -> Option<InstallationReport> {
        let is_main = |file: &&Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libcudnn.so") || name.starts_with("libcudnn_graph.so")
        };
        let files: Vec<&Path> = self.run.libraries.iter().map(Path::new).filter(is_main).collect();
        let in_environment = files.iter().find(|file| file.starts_with(&self.python.root));
        InstallationReport::read(in_environment.or(files.first())?.parent()?, &self.context.host)
    }

    /// Installs the cuDNN required by the active environment's frameworks, or a full release for its other packages.
    fn install_cudnn(&self) -> Remedy {
        let of_active = install_for_active(self.context, self.machine);
        of_active.unwrap_or_else(|| install_full(self.context, self.machine, None))
    }
}

/// Returns the requirement for a build with this CUDA major: a package, or releases before the switch to a newer CUDA.
fn build_for(framework: RunnableFramework, cuda_major: u32) -> Option<String> {
    let package = framework.package(cuda_major);
    if framework == RunnableFramework::Jax {
        return [12, 13].contains(&cuda_major).then_some(package);
    }
    let facts: Vec<_> = releases::all().iter().filter(|fact| fact.package == framework.wheel()).collect();
    let last = facts.iter().rposition(|fact| fact.cuda.is_some_and(|(major, _)| major == cuda_major))?;
    Some(match facts.get(last + 1) {
        Some(next) => format!("{package}<{}", next.since),
        None => package,
    })
}

fn other() -> Remedy {
    Remedy::new(format!(
        "fix the other findings first; to see all calls of cuDNN, start the program with CUDNN_LOGLEVEL_DBG=3 and \
         CUDNN_LOGDEST_DBG=cudnn.log in its environment, then run `{} log cudnn.log`",
        doctor()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framework_is_built_for_the_cuda_of_the_others() {
        for (framework, cuda_major, expected) in [
            (RunnableFramework::Jax, 12, Some("jax[cuda12]")),
            (RunnableFramework::Jax, 13, Some("jax[cuda13]")),
            (RunnableFramework::Jax, 11, None),
            (RunnableFramework::Torch, 12, Some("torch<2.11.0")),
            (RunnableFramework::Torch, 13, Some("torch")),
            (RunnableFramework::Onnxruntime, 12, Some("onnxruntime-gpu<1.27.0")),
            (RunnableFramework::Onnxruntime, 13, Some("onnxruntime-gpu")),
            (RunnableFramework::Tensorflow, 12, Some("tensorflow[and-cuda]")),
            (RunnableFramework::Tensorflow, 13, None),
            (RunnableFramework::Ctranslate2, 12, Some("ctranslate2")),
        ] {
            assert_eq!(build_for(framework, cuda_major).as_deref(), expected, "{framework:?} {cuda_major}");
        }
    }
}
