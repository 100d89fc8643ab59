//! Checks the cuDNN that a program finds against the functions that the program calls: C018, C081 to C084, C089, C100.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::is_of_driver;
use cudnn_loader::Function;
use cudnn_probe::image::elf_interpreter;
use cudnn_probe::ld_so::{Lookup, Resolution};
use cudnn_probe::{DEFAULT_CUDA_MAJOR, Library, Os, ProbeError, Version, missing_symbols};

use super::finding::{
    Finding, FindingKind, NO_CUDNN, PROGRAM_DEPENDENCY, PROGRAM_FUNCTION, PROGRAM_NO_CUDNN, PROGRAM_OPENS,
    PROGRAM_UNLINKED, PROGRAM_UNREADABLE, REQUIREMENT, Severity,
};
use super::framework_requirement::CUDNN_MAJOR;
use super::remedies;
use crate::context::Context;
use crate::cudnn_file;
use crate::dependencies::{Dependency, NamedShim, dependencies, dependencies_of, names_in, problems};
use crate::packages::entries;
use crate::python;
use crate::remedy::Remedy;
use crate::system::{self, major_of_cudnn};

/// A cuDNN function and the file that calls it.
pub(super) type Call = (Function, PathBuf);

pub(super) const MAX_CALLS: usize = 8;

/// The result of examining a program.
#[derive(Default)]
pub struct Examined {
    path: PathBuf,
    error: Option<ProbeError>,
    dependencies: Vec<Dependency>,
    /// Whether the program links to cuDNN, or opens a cuDNN that ld.so finds.
    has_cudnn: bool,
    /// The cuDNN library names in the program's data, unless the program is linked to cuDNN.
    named: Vec<NamedShim>,
    /// Where the names were found that the program opens first.
    evidence: Vec<String>,
    is_executable: bool,
    missing_interpreter: Option<PathBuf>,
    pub(super) dir: Option<PathBuf>,
    /// How the program finds cuDNN, as a line for the report.
    pub how: Option<String>,
    /// The libraries loaded at startup, which cuDNN later finds by these names.
    pub(super) loaded: Vec<String>,
    /// The cuDNN functions called by the program and by the libraries that ship with it.
    pub(super) called: Vec<Call>,
}

impl Examined {
    pub(super) fn read(path: &Path, context: &Context) -> Examined {
        let examined = if Os::HOST == Os::Windows { for_windows(path, context) } else { for_linux(path, context) };
        let mut examined = examined.unwrap_or_else(|error| Examined { error: Some(error), ..Examined::default() });
        if let Some((dir, first)) = installation(&examined.dependencies, context).filter(|_| examined.has_cudnn) {
            examined.how = Some(format!("{} loads {} ({})", path.printable(), first.name.printable(), first.rule));
            examined.dir = Some(dir);
        }
        Examined { path: path.to_owned(), ..examined }
    }

    /// Returns the shim that the program finds, if the libraries that the shim opens are missing.
    pub(super) fn lone_shim(&self) -> Option<&Path> {
        let shim = self.dependencies.iter().find(|one| cudnn_file::library(&one.name) == Some(Library::Shim))?;
        shim.file.as_deref().filter(|file| self.dir.is_none() && shim.error.is_none() && !cudnn_file::is_drop_in(file))
    }

    /// Returns whether the program is a script of a Python environment, which may differ from the reported one.
    pub(super) fn is_python_script(&self) -> bool {
        self.error.is_some() && python::environment_of_script(&self.path).is_some()
    }

    /// Returns the different major of cuDNN that the program is linked to.
    pub(super) fn other_major(&self) -> Option<u32> {
        let majors = || self.dependencies.iter().filter_map(|one| major_of_cudnn(&one.name));
        majors().next().filter(|_| majors().all(|major| major != CUDNN_MAJOR))
    }

    /// Installs the cuDNN of a different major that the program is linked to, for the CUDA that it is linked to.
    fn with_other_major(&self, major: u32) -> Remedy {
        let names = self.dependencies.iter().map(|one| one.name.as_str());
        let cuda_major = cuda_library(names).map(|(_, cuda_major)| cuda_major);
        let instead = format!("or use a version of the program that is built for cuDNN {CUDNN_MAJOR}");
        let remedy = remedies::install_older(Version::new(major, 0, 0), cuda_major.unwrap_or(DEFAULT_CUDA_MAJOR));
        match remedy {
            Some(remedy) => {
                let text = remedy.text.trim_end_matches(':');
                let text = format!("{text}, {instead}:");
                remedy.with_text(text)
            }
            None => Remedy::new(format!("install cuDNN {major} where ld.so finds it, {instead}")),
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let name = self.path.printable();
        if let Some(error) = &self.error {
            let help = "name a program or a shared library for this machine: a script's interpreter, or the library that \
                        calls cuDNN";
            let help =
                python::environment_of_script(&self.path).map_or_else(|| help.into(), |root| check_python(&root));
            return vec![Finding::new(PROGRAM_UNREADABLE, format!("{name} {error}")).remedy(help)];
        }
        if self.path.as_os_str().is_empty() {
            return Vec::new();
        }
        let interpreter = self.missing_interpreter.iter().map(|file| without_interpreter(&name, file));
        let unmet = unmet(&self.path, &self.dependencies).map(|finding| match self.other_major() {
            Some(major) => finding.note(for_other_major(major)).remedy(self.with_other_major(major)),
            None => finding,
        });
        let mut findings: Vec<Finding> = interpreter.chain(unmet).collect();
        if self.has_cudnn {
            findings.extend(newer_functions(&name, &self.called, &self.dependencies));
            findings.into_iter().map(|finding| finding.notes(&self.evidence)).collect()
        } else {
            findings.push(if Os::HOST == Os::Windows {
                let message = format!("{name} imports no DLL of cuDNN, nor does any DLL that it imports");
                let help = "it may open cuDNN by name (LoadLibrary); name the DLL of the program that calls cuDNN";
                Finding::new(PROGRAM_NO_CUDNN, message).remedy(help)
            } else {
                unlinked(&name, self.is_executable, &self.called, &self.named)
            });
            findings
        }
    }
}

fn check_python(root: &Path) -> Remedy {
    let text = format!("it is a script for the Python in {}: check that environment instead:", root.printable());
    Remedy::new(text).look(["check".into(), "--python".into(), root.as_os_str().to_owned()])
}

fn for_other_major(major: u32) -> String {
    format!("the program is built for cuDNN {major}, and majors are not interchangeable")
}

/// The levels of directories below a lone shim that are searched for the other libraries.
const MAX_DEPTH: usize = 4;

/// C010: a program's own shim is in a different directory than the libraries that it opens, as in a bundle with sorted
/// files.
pub(super) fn separated(shim: &Path) -> Finding {
    let graph = Library::Graph.file_name();
    let message = format!("{} is NVIDIA's shim, but {graph}, which it opens, is not next to it", shim.printable());
    let dir = shim.parent().unwrap_or(Path::new("."));
    let help = match dir_with(graph, dir, MAX_DEPTH) {
        Some(other) => format!(
            "keep the libraries together: link all files of {} next to it, or remove it from there, so that ld.so finds \
             the one in {}",
            other.printable(),
            other.printable()
        ),
        None => "put all libraries of the same release next to it, as in the package that it came from".to_owned(),
    };
    Finding::new(NO_CUDNN, message).note("the program would find this file first").remedy(help)
}

fn dir_with(name: &str, dir: &Path, depth: usize) -> Option<PathBuf> {
    if dir.join(name).leads_to_file() {
        return Some(dir.to_owned());
    }
    let depth = depth.checked_sub(1)?;
    entries(dir).filter(|path| path.leads_to_dir()).find_map(|dir| dir_with(name, &dir, depth))
}

fn for_linux(program: &Path, context: &Context) -> Result<Examined, ProbeError> {
    let mut simulation = context.simulation(program)?;
    // The program's own libraries may call cuDNN. The libraries of cuDNN and CUDA have separate checks.
    let objects = simulation.objects().iter().filter(|object| !is_cudnn(&object.path));
    let callers: Vec<PathBuf> = objects.map(|object| object.path.clone()).collect();
    let called: Vec<Call> = callers.iter().flat_map(|file| calls(file)).collect();
    let is_linked = simulation.lookups().iter().any(|lookup| lookup.name.starts_with("libcudnn"));
    let named = if is_linked { Vec::new() } else { names_in(simulation.objects()) };
    let mut opened: Vec<&NamedShim> = Vec::new();
    for named in &named {
        // Programs try several names and use the first that is found.
        let is_first = opened.iter().all(|other| other.object != named.object);
        if is_first && simulation.dlopen(&named.name, named.object) {
            opened.push(named);
        }
    }
    let is_found = |lookup: &&Lookup| matches!(lookup.resolution, Resolution::Found { .. });
    let loaded: Vec<String> = simulation.lookups().iter().filter(is_found).map(|lookup| lookup.name.clone()).collect();
    let is_tried =
        |dependency: &Dependency| dependency.error.is_some() && named.iter().any(|named| named.name == dependency.name);
    let has_cudnn = is_linked || !opened.is_empty();
    let evidence: Vec<String> = opened.iter().map(|named| named.evidence()).collect();
    let interpreter = elf_interpreter(program);
    let is_executable = interpreter.is_some();
    let mut dependencies = dependencies(simulation);
    dependencies.retain(|dependency| is_linked || !is_tried(dependency));
    // C001 covers the driver.
    dependencies.retain(|dependency| dependency.error.is_none() || !is_of_driver(&dependency.name));
    let missing_interpreter = interpreter.filter(|file| !file.target_exists());
    Ok(Examined {
        dependencies,
        has_cudnn,
        named,
        evidence,
        is_executable,
        missing_interpreter,
        loaded,
        called,
        ..Examined::default()
    })
}

/// DLLs that a program opens by name are only known at run time.
fn for_windows(program: &Path, context: &Context) -> Result<Examined, ProbeError> {
    let dependencies = dependencies_of(program, &context.host)?;
    let loaded = dependencies.iter().filter(|one| one.file.is_some()).map(|one| one.name.clone()).collect();
    let has_cudnn = dependencies.iter().any(|one| system::product(&one.name) == Some("cuDNN"));
    Ok(Examined { dependencies, has_cudnn, loaded, ..Examined::default() })
}

/// C018: the program links to CUDA libraries of one major and loads a cuDNN for a different one.
pub(super) fn other_cuda(loaded: &[String], report: &InstallationReport) -> Option<Finding> {
    let (of_cuda, major) = cuda_library(loaded.iter().map(String::as_str))?;
    let other = report.cuda_major.filter(|other| *other != major)?;
    let dir = report.dir.printable();
    let message = format!("the program loads {of_cuda}, and a cuDNN for CUDA {other}: {dir}");
    let help = format!("install a cuDNN for CUDA {major} where the program finds it, in place of that one");
    Some(Finding::new(REQUIREMENT, message).remedy(help))
}

fn cuda_library<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<(&'a str, u32)> {
    let of_cuda = names.find(|name| ["libcudart.so.", "libcublas.so."].iter().any(|of| name.starts_with(of)))?;
    Some((of_cuda, of_cuda.rsplit_once(".so.")?.1.split('.').next()?.parse().ok()?))
}

/// Returns the directory of the cuDNN that the program would load, and the first cuDNN library found there.
fn installation<'a>(dependencies: &'a [Dependency], context: &Context) -> Option<(PathBuf, &'a Dependency)> {
    let of = |library: Library| {
        let is_it = |one: &&Dependency| one.error.is_none() && cudnn_file::library(&one.name) == Some(library);
        dependencies.iter().find(is_it)
    };
    if let Some(shim) = of(Library::Shim)
        && let Some(file) = shim.file.as_deref().filter(|file| cudnn_file::is_drop_in(file))
    {
        return Some((context.selected_by_drop_in(file)?.dir, shim));
    }
    let graph = of(Library::Graph)?;
    let dir = graph.file.as_deref()?.parent()?.to_owned();
    Some((dir, of(Library::Shim).unwrap_or(graph)))
}

fn is_cudnn(file: &Path) -> bool {
    file.file_name().and_then(|name| cudnn_file::library(name.to_str()?)).is_some()
}

fn calls(file: &Path) -> Vec<Call> {
    let symbols = missing_symbols(file, &[]).unwrap_or_default();
    symbols.iter().filter_map(|symbol| Some((Function::from_name(symbol)?, file.to_owned()))).collect()
}

/// C082: the kernel cannot start the program.
fn without_interpreter(name: &str, interpreter: &Path) -> Finding {
    let message = format!("{name} cannot be started: its ELF interpreter {} does not exist", interpreter.printable());
    let help = "run it on a system like the one that it was built for, or install the C library that it was built for";
    let note = "a shell reports this as `No such file or directory`, or `not found`";
    Finding::new(PROGRAM_DEPENDENCY, message).note(note).remedy(help)
}

/// C084, C089, C100: the program neither links to cuDNN nor opens a cuDNN that ld.so finds.
fn unlinked(name: &str, is_executable: bool, called: &[Call], named: &[NamedShim]) -> Finding {
    if let Some(first) = named.first() {
        let message =
            format!("{name} opens {} itself, according to its read-only data, but ld.so does not find it", first.name);
        let doubt = "only running the program shows whether it opens that name and needs it";
        let mut names: Vec<&str> = named.iter().map(|named| named.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let help = format!("install cuDNN where ld.so finds {}, if the program uses it", names.join(" or "));
        let finding = Finding::new(PROGRAM_OPENS, message).notes(named.iter().map(NamedShim::evidence));
        return finding.note(doubt).remedy(help);
    }
    if let Some((function, file)) = called.first() {
        let functions =
            if called.len() == 1 { function.to_string() } else { format!("{} of its functions", called.len()) };
        let (severity, note) = match is_executable {
            true => (Severity::Error, "it fails with `symbol lookup error` (status 127)"),
            false => (PROGRAM_UNLINKED.severity, "as a plug-in it works only in a program that is linked to cuDNN"),
        };
        let message = format!("{name} is not linked to cuDNN, but calls {functions}");
        return Finding::new(FindingKind { severity, ..PROGRAM_UNLINKED }, message)
            .note(format!("{function} is an undefined symbol of {}", file.printable()))
            .note(note)
            .remedy(format!("link {} with -lcudnn", file.printable()));
    }
    let message = format!("{name} is not linked to cuDNN, nor is any library that it is linked to");
    Finding::new(PROGRAM_NO_CUDNN, message)
        .remedy("name the library of the program that calls cuDNN, or use check --run for a framework")
}

/// C082: missing and mismatched libraries, in one finding.
fn unmet(program: &Path, dependencies: &[Dependency]) -> Option<Finding> {
    let problems = problems(dependencies);
    let name = program.printable();
    let (message, notes) = match problems.as_slice() {
        [] => return None,
        [problem] => (format!("{name}: {problem}"), Vec::new()),
        _ => (format!("{name} would not load: {} problems with the libraries that it needs", problems.len()), problems),
    };
    let help = Remedy::new("to see each file and the rule that finds it:");
    let help = help.look(["explain".into(), program.as_os_str().to_owned()]);
    Some(Finding::new(PROGRAM_DEPENDENCY, message).notes(notes).remedy(help))
}

/// C083: functions added after the release that the program would load.
fn newer_functions(name: &str, called: &[Call], found: &[Dependency]) -> Option<Finding> {
    let of = |library: Library| found.iter().find(|one| cudnn_file::library(&one.name) == Some(library));
    let graph = of(Library::Graph).or_else(|| of(Library::Shim))?;
    let version = graph.version?;
    let newer: Vec<&Call> = called.iter().filter(|(function, _)| function.since() > version).collect();
    let newest = newer.iter().map(|(function, _)| function.since()).max()?;
    let message = match newer.as_slice() {
        [(function, _)] => format!("{name} calls {function}, which cuDNN {version} does not have"),
        _ => format!("{name} calls {} functions that cuDNN {version} does not have", newer.len()),
    };
    let list = newer.iter().take(MAX_CALLS).map(|(function, file)| {
        format!("{function}: since cuDNN {}, called by {}", function.since(), file.printable())
    });
    let finding = Finding::new(PROGRAM_FUNCTION, message).notes(list);
    let file = graph.file.as_deref().map(|file| format!("it would load {}", file.printable()));
    Some(finding.notes(file).remedy(format!("install cuDNN {newest} or newer where the program finds it")))
}
