//! `pid N`: which files of cuDNN and CUDA a running process has mapped, and whether they belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cudnn_probe::{MappedLibrary, identify_any, mapped_libraries, needed_by};
use serde_json::{Value, json};

use crate::file::{library, version_of};
use crate::output::{Format, Outcome, Printable, document, fail, outln};

/// The options of `pid`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The number of the process.
    pid: u32,
}

/// A mapped file of cuDNN's or CUDA's.
struct Row {
    mapped: MappedLibrary,
    product: &'static str,
    /// In the file's name, or in the file.
    version: Option<String>,
    /// The CUDA major that it belongs to.
    cuda_major: Option<u32>,
    /// Which of the process's files need it from the start; none where code has opened it.
    needed_by: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mapped = match mapped_libraries(arguments.pid) {
        Ok(mapped) => mapped,
        Err(error) => {
            let pid = arguments.pid;
            let why = format!(
                "Process {pid} cannot be looked into: {error}. It must be running, and be yours, or you be root."
            );
            return fail(format, why);
        }
    };
    let mut rows: Vec<Row> = mapped.iter().cloned().filter_map(|one| row(one, &mapped)).collect();
    // As they were loaded, where that can be told.
    rows.sort_by_key(|row| row.mapped.load_index.unwrap_or(usize::MAX));
    let problems = problems(&rows);
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "pid": arguments.pid,
            "libraries": rows.iter().map(value).collect::<Vec<Value>>(),
            "problems": problems,
        })),
        Format::Text => {
            if rows.is_empty() {
                outln!("Process {} has mapped no library of cuDNN's or CUDA's.", arguments.pid);
            }
            for Row { mapped, product, version, .. } in &rows {
                let gone = match mapped.deleted {
                    true if mapped.path.exists() => " (replaced on disk since)",
                    true => " (removed from disk since)",
                    false => "",
                };
                outln!("{product:<12} {:<12} {}{gone}", version.as_deref().unwrap_or("?"), mapped.path.printable());
            }
            for problem in &problems {
                outln!("\nWrong: {problem}");
            }
        }
    }
    if problems.is_empty() { Outcome::Fine } else { Outcome::Problems }
}

/// What the file is, if it is of interest.
fn row(mapped: MappedLibrary, all: &[MappedLibrary]) -> Option<Row> {
    // Longer names first.
    const PRODUCTS: [(&str, &str); 7] = [
        ("libcudnn", "cuDNN"),
        ("libcublas", "cuBLAS"),
        ("libcudart", "CUDA runtime"),
        ("libnvrtc", "NVRTC"),
        ("libnvJitLink", "nvJitLink"),
        ("libcuda.so", "driver"),
        ("libnvidia-ptxjitcompiler", "driver"),
    ];
    let name = mapped.path.file_name()?.to_string_lossy().into_owned();
    let (_, product) = *PRODUCTS.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    let in_name = name.split_once(".so.").map(|(_, version)| version.to_owned());
    let major = in_name.as_deref().and_then(|version| version.split('.').next()?.parse().ok());
    let (version, cuda_major) = match product {
        "cuDNN" => {
            // By its own path where that is the same file: the wheel's record lies beside it.
            let file = if is_as_on_disk(&mapped) { Some(&mapped.path) } else { mapped.file.as_ref() };
            let identity = file.and_then(|file| identify_any(file, library(&name)?).ok());
            let version = identity.as_ref().and_then(|identity| identity.version).map(|version| version.to_string());
            // The shim states none; nor does a file's name that has no more than the major in it.
            let beside =
                || version_of(&mapped.path).filter(|_| is_as_on_disk(&mapped)).map(|version| version.to_string());
            let in_name = in_name.filter(|name| name.contains('.') || name != "9");
            (version.or(in_name).or_else(beside), identity.and_then(|identity| identity.cuda_major))
        }
        // The driver's library is of no CUDA: it serves several.
        "driver" => (in_name, None),
        _ => (in_name, major),
    };
    // Of cuDNN alone, since it means reading every file.
    let needed_by = if product == "cuDNN" { needed_by(all, &mapped) } else { Vec::new() };
    let needed_by = needed_by.into_iter().map(Path::to_owned).collect();
    Some(Row { mapped, product, version, cuda_major, needed_by })
}

/// The file at the path is the one that is mapped, and in this program's own world.
fn is_as_on_disk(mapped: &MappedLibrary) -> bool {
    let same = |file: &PathBuf| {
        let inode = |path: &Path| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
        inode(file).is_some() && inode(file) == inode(&mapped.path)
    };
    mapped.file.as_ref().is_some_and(same)
}

fn problems(rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    let cudnn = || rows.iter().filter(|row| row.product == "cuDNN");
    let folders: BTreeSet<PathBuf> = cudnn().filter_map(|row| Some(row.mapped.path.parent()?.to_owned())).collect();
    let folders_count = folders.len();
    if folders.len() > 1 {
        let count = folders.len();
        let told: Vec<String> = first_of_each(rows, folders).into_iter().map(of_one).collect();
        found.push(format!("cuDNN from {count} folders in one process: {}", told.join("; then ")));
    }
    let mut versions = BTreeMap::<&str, &Row>::new();
    for row in cudnn() {
        if let Some(version) = row.version.as_deref() {
            versions.entry(version).or_insert(row);
        }
    }
    if versions.len() > 1 && folders_count < 2 {
        let told: Vec<String> = versions.values().map(|row| of_one(row)).collect();
        found.push(format!("{} releases of cuDNN in one process: {}", versions.len(), told.join("; ")));
    }
    let mut majors = BTreeMap::<u32, &'static str>::new();
    for row in rows {
        if let Some(major) = row.cuda_major {
            majors.entry(major).or_insert(row.product);
        }
    }
    if majors.len() > 1 {
        let told: Vec<String> = majors.iter().map(|(major, product)| format!("CUDA {major} ({product})")).collect();
        found.push(format!("libraries of {} in one process", told.join(" and ")));
    }
    for row in rows.iter().filter(|row| row.mapped.deleted) {
        let path = row.mapped.path.printable();
        let how = if row.mapped.path.exists() { "replaced on" } else { "removed from" };
        found.push(format!("{path} was {how} disk while the process runs: start the process again"));
    }
    found
}

/// The first library of each folder, in the order of loading.
fn first_of_each(rows: &[Row], folders: BTreeSet<PathBuf>) -> Vec<&Row> {
    let is_of = |row: &Row, folder: &Path| row.product == "cuDNN" && row.mapped.path.parent() == Some(folder);
    let mut firsts: Vec<(usize, &Row)> =
        folders.iter().filter_map(|folder| rows.iter().enumerate().find(|(_, row)| is_of(row, folder))).collect();
    firsts.sort_by_key(|(place, _)| *place);
    firsts.into_iter().map(|(_, row)| row).collect()
}

fn of_one(row: &Row) -> String {
    let version = row.version.as_deref().unwrap_or("of an unknown version");
    let by = match row.needed_by.first() {
        Some(by) => format!("needed by {}", by.printable()),
        None => "opened by code".into(),
    };
    format!("{version}, {} ({by})", row.mapped.path.printable())
}

fn value(row: &Row) -> Value {
    json!({
        "file": row.mapped.path.to_string_lossy(),
        "replaced": row.mapped.deleted,
        "place": row.mapped.load_index,
        "needed_by": row.needed_by.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "product": row.product,
        "version": row.version,
        "cuda_major": row.cuda_major,
    })
}
