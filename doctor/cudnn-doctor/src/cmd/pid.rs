//! `pid`: shows the cuDNN and CUDA files that a process has loaded, and mismatches between them.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use anstyle::AnsiColor;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, labeled, outln};
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_frameworks::{Dependents, MappedLibrary, mapped_libraries};
use cudnn_os::processes::{MAX_ID, libraries_of, program_of, variable_of};
use cudnn_os::{IS_LINUX, IS_WINDOWS};
use cudnn_probe::dll_search::{Mode, ProcessFacts, Simulation as DllSimulation};
use cudnn_probe::ld_so::Simulation;
use cudnn_probe::{FileIdentity, Host, Library, Os, Version, identify_any};
use cudnn_rules::cudnn_file;
use cudnn_rules::system;
use serde_json::{Value, json};

/// The maximum number of cuDNN and CUDA files to read. Typical processes load a few dozen.
const MAX_ROWS: usize = 256;

const RIGHTS_HINT: &str = if IS_WINDOWS {
    "The process must be running, and you must own it or start the doctor as administrator."
} else {
    "The process must be running, and you must own it or be root."
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process id.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MAX_ID))]
    pid: u32,
}

/// A mapped file of cuDNN or CUDA.
struct FileRow {
    mapped: MappedLibrary,
    product: &'static str,
    /// The version from the file or the file name.
    version: Option<String>,
    cuda_major: Option<u32>,
    /// The process's files that link to it, or empty if it was opened with dlopen.
    needed_by: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let pid = arguments.pid;
    let mapped =
        loaded_libraries(pid).map_err(|error| format!("cannot inspect process {pid}: {error}. {RIGHTS_HINT}"))?;
    let dependents = Dependents::new(&mapped);
    // Keep the load order, so that the limit drops files that were loaded without ld.so.
    let mut files: Vec<(&MappedLibrary, &'static str)> =
        mapped.iter().filter_map(|mapped| Some((mapped, product(mapped)?))).collect();
    files.sort_by_key(|(mapped, _)| mapped.load_index.unwrap_or(usize::MAX));
    let read = files.iter().take(MAX_ROWS);
    let rows: Vec<FileRow> = read.map(|(mapped, product)| row(mapped, product, &dependents)).collect();
    let mut problems = problems(&rows);
    let count = files.len();
    if count > MAX_ROWS {
        let what = "files named like cuDNN's and CUDA's";
        problems.push(format!("the process has mapped {count} {what}: {MAX_ROWS} were read"));
    }
    problems.extend(shim_without_graph(pid, &rows));
    format.report(
        || json!({ "pid": pid, "libraries": rows.iter().map(value).collect::<Vec<Value>>(), "problems": problems }),
        || text(pid, &rows, &problems),
    );
    Ok(if problems.is_empty() { Outcome::Fine } else { Outcome::Errors })
}

fn text(pid: u32, rows: &[FileRow], problems: &[String]) {
    if rows.is_empty() {
        outln!("Process {pid} has loaded no library of cuDNN or CUDA.");
    }
    for FileRow { mapped, product, version, .. } in rows {
        let state = match (mapped.deleted, mapped.path.exists()) {
            (false, _) => "",
            (true, true) => " (replaced on disk since)",
            (true, false) => " (deleted from disk since)",
        };
        let version = version.as_deref().unwrap_or("?");
        outln!("{product:<12} {:<12} {}{state}", version.printable(), mapped.path.printable());
    }
    for problem in problems {
        labeled("\nerror", AnsiColor::Red, format_args!(": {problem}"));
    }
}

fn loaded_libraries(process: u32) -> std::io::Result<Vec<MappedLibrary>> {
    if IS_LINUX {
        return mapped_libraries(process);
    }
    let paths = libraries_of(process)?;
    Ok(paths.into_iter().enumerate().map(|(index, path)| MappedLibrary::new(path, index)).collect())
}

fn product(mapped: &MappedLibrary) -> Option<&'static str> {
    system::product(&mapped.path.file_name()?.to_string_lossy())
}

fn row(mapped: &MappedLibrary, product: &'static str, dependents: &Dependents<'_>) -> FileRow {
    let name = mapped.path.file_name().unwrap_or_default().to_string_lossy();
    let in_name = system::version_in_name(&name);
    let major = in_name.as_deref().and_then(system::cuda_major_in);
    let is_drop_in = mapped.file.as_deref().is_some_and(|file| cudnn_file::is_drop_in_named(&mapped.path, file));
    let product = if is_drop_in { "drop-in" } else { product };
    let (version, cuda_major) = match product {
        "cuDNN" => {
            // Prefer the path if it is still the same file, because a wheel's metadata is next to it.
            let file = if is_as_on_disk(mapped) { Some(&mapped.path) } else { mapped.file.as_ref() };
            let identity = file.and_then(|file| identify_any(file, cudnn_file::library(&name)?).ok());
            let stated = identity.as_ref().and_then(|identity| identity.version).map(|version| version.to_string());
            // `libcudnn.so.9` and `cudnn64_9.dll` contain only the major version, and the shim itself has none.
            let in_name = in_name.filter(|version| version != "9");
            let beside =
                || cudnn_file::version(&mapped.path).filter(|_| is_as_on_disk(mapped)).map(|found| found.to_string());
            (stated.or(in_name).or_else(beside), identity.and_then(|identity| identity.cuda_major))
        }
        // A driver supports several CUDA majors.
        "driver" => (in_name, None),
        "drop-in" => {
            let file = mapped.file.as_deref();
            (file.and_then(|file| cudnn_file::drop_in_version_named(&mapped.path, file)), None)
        }
        _ => (in_name, major),
    };
    let needed_by = if product == "cuDNN" { dependents.of(mapped) } else { Vec::new() };
    let needed_by = needed_by.into_iter().map(Path::to_owned).collect();
    FileRow { mapped: mapped.clone(), product, version, cuda_major, needed_by }
}

/// Returns whether the doctor sees the mapped file at this path.
fn is_as_on_disk(mapped: &MappedLibrary) -> bool {
    let same = |file: &PathBuf| {
        let identity = FileIdentity::of(file);
        identity.is_some() && identity == FileIdentity::of(&mapped.path)
    };
    mapped.file.as_ref().is_some_and(same)
}

/// Reports a shim that will fail to find graph and abort the process on the first call.
fn shim_without_graph(pid: u32, rows: &[FileRow]) -> Option<String> {
    let library = |row: &FileRow| cudnn_file::library(row.mapped.path.file_name()?.to_str()?);
    let cudnn = || rows.iter().filter(|row| row.product == "cuDNN");
    if cudnn().any(|row| library(row) == Some(Library::Graph)) {
        return None;
    }
    let shim = cudnn().find(|row| library(row) == Some(Library::Shim) && is_as_on_disk(&row.mapped))?;
    let path = &shim.mapped.path;
    let program = program_of(pid)?;
    if Os::HOST == Os::Windows {
        return shim_without_dlls(path, &program);
    }
    // Use the variables of the process instead of the doctor's.
    let host = Host::current().with_variables(&[]).env(SEARCH_PATH, variable_of(pid, SEARCH_PATH)?);
    let mut simulation = Simulation::new(&program, &host).ok()?;
    simulation.dlopen(path.to_str()?, 0);
    let from = simulation.objects().iter().position(|object| object.path == *path)?;
    let names = Library::Graph.dlopen_names(cudnn_file::version(path).unwrap_or(Version::new(9, 0, 0)));
    if names.iter().any(|name| simulation.dlopen(name, from)) {
        return None;
    }
    let path = path.printable();
    Some(format!("{path} will not find {}: NVIDIA's shim aborts the process on the first call", Library::Graph))
}

/// The same check on Windows, which searches the directories of the program and the system, then `PATH`.
fn shim_without_dlls(shim: &Path, program: &Path) -> Option<String> {
    let mut facts = ProcessFacts::from_host(&Host::current());
    facts.application_dir = program.parent().map(Path::to_owned);
    let graph = Library::Graph.windows_name();
    if DllSimulation::new(facts).open(Path::new(graph), Mode::Standard) {
        return None;
    }
    Some(format!(
        "{} opens {graph} by its name on the first call, and Windows will not find it beside the program or on PATH, as far \
         as the doctor's own PATH shows: then NVIDIA's shim ends the process",
        shim.printable()
    ))
}

fn problems(rows: &[FileRow]) -> Vec<String> {
    let mut problems = Vec::new();
    let cudnn = || rows.iter().filter(|row| row.product == "cuDNN");
    let dirs = first_of_each(cudnn(), |row| row.mapped.path.parent());
    let versions = first_of_each(cudnn(), |row| row.version.as_deref());
    let list = |rows: Vec<&FileRow>| rows.into_iter().map(summary).collect::<Vec<_>>().join("; then ");
    if dirs.len() > 1 {
        problems.push(format!("cuDNN from {} directories in one process: {}", dirs.len(), list(dirs)));
    } else if versions.len() > 1 {
        problems.push(format!("{} releases of cuDNN in one process: {}", versions.len(), list(versions)));
    }
    let mut majors = first_of_each(rows.iter(), |row| row.cuda_major);
    majors.sort_by_key(|row| row.cuda_major);
    if majors.len() > 1 {
        let major = |row: &&FileRow| Some(format!("CUDA {} ({})", row.cuda_major?, row.product));
        let majors: Vec<String> = majors.iter().filter_map(major).collect();
        problems.push(format!("libraries of {} in one process", majors.join(" and ")));
    }
    for row in rows.iter().filter(|row| row.mapped.deleted) {
        let path = row.mapped.path.printable();
        let what = if row.mapped.path.exists() { "replaced on" } else { "deleted from" };
        problems.push(format!("{path} was {what} disk after the process loaded it: restart the process"));
    }
    problems
}

fn first_of_each<'a, K: Eq + Hash>(
    rows: impl Iterator<Item = &'a FileRow>,
    key: impl Fn(&'a FileRow) -> Option<K>,
) -> Vec<&'a FileRow> {
    let mut known = HashSet::new();
    rows.filter(|row| key(row).is_some_and(|key| known.insert(key))).collect()
}

fn summary(row: &FileRow) -> String {
    let version = row.version.as_deref().map_or("unknown version".into(), Printable::printable);
    let by = match row.needed_by.first() {
        Some(by) => format!("linked by {}", by.printable()),
        None => format!("opened with {}", system::OPEN),
    };
    format!("{version}, {} ({by})", row.mapped.path.printable())
}

fn value(row: &FileRow) -> Value {
    json!({
        "file": row.mapped.path.to_string_lossy(),
        "deleted": row.mapped.deleted,
        "load_index": row.mapped.load_index,
        "needed_by": row.needed_by.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "product": row.product,
        "version": row.version,
        "cuda_major": row.cuda_major,
    })
}
