//! Turns cuDNN's headers into the generated part of `cudnn-sys`.
//!
//! bindgen owns the ABI: names, types, values, signatures. This crate chooses what goes into which module,
//! replaces every comment of NVIDIA's by facts in our own words, and writes the function table.
//! It knows nothing of where headers come from, of linking, or of loading.
//!
//! Used by `cargo xtask bindings` (the checked-in files) and by `cudnn-sys`'s build script when its feature
//! `buildtime-bindgen` is on.

mod emit;
mod facts;
mod headers;
mod parse;

use std::fmt;
use std::path::{Path, PathBuf};

/// A module of `cudnn-sys`: the CUDA types, and one for each sub-library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    Cuda,
    Graph,
    Ops,
    Cnn,
    Adv,
    Ext,
}

impl Module {
    pub(crate) const ALL: [Module; 6] =
        [Module::Cuda, Module::Graph, Module::Ops, Module::Cnn, Module::Adv, Module::Ext];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Module::Cuda => "cuda",
            Module::Graph => "graph",
            Module::Ops => "ops",
            Module::Cnn => "cnn",
            Module::Adv => "adv",
            Module::Ext => "ext",
        }
    }
}

/// Where the headers are, and what to call them in the generated files' first line.
#[derive(Clone, Debug)]
pub struct Source {
    /// The folder with `cudnn_graph.h` and its siblings.
    pub cudnn_include: PathBuf,
    /// What the first line of each generated file says they were made from.
    pub description: String,
    /// What the first line of each generated file says they were made by.
    pub command: String,
}

/// One generated file: its name and its text.
#[derive(Clone, Debug)]
pub struct File {
    /// File name, without a folder: `graph.rs`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Why no bindings came out.
#[derive(Debug)]
pub struct Error {
    what: String,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Error { what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

/// The generated file that is not `cudnn-sys`'s but this crate's own: what the newest headers state of each name.
pub const FACTS: &str = "facts.txt";

/// The release that these headers are of, as `cudnn_version.h` says: `9.28.0`.
#[must_use]
pub fn version(include: &Path) -> Option<String> {
    let text = std::fs::read_to_string(include.join("cudnn_version.h")).ok()?;
    let number = |name: &str| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(words).find_map(|words| match words.as_slice() {
            [define, found, value, ..] if define == "#define" && found == name => value.parse::<u32>().ok(),
            _ => None,
        })
    };
    let (major, minor, patch) = (number("CUDNN_MAJOR")?, number("CUDNN_MINOR")?, number("CUDNN_PATCHLEVEL")?);
    Some(format!("{major}.{minor}.{patch}"))
}

/// Generates all files of `cudnn-sys/src/generated`, and [`FACTS`]. `scratch` is a folder in which the umbrella headers may be
/// written.
///
/// # Errors
/// When libclang is not found, when it refuses the headers, or when they hold something that the generator does
/// not know how to write.
pub fn generate(source: &Source, scratch: &Path) -> Result<Vec<File>, Error> {
    if !source.cudnn_include.join("cudnn_graph.h").is_file() {
        return Err(Error::new(format!(
            "{} holds no cudnn_graph.h: give the include folder of a cuDNN 9",
            source.cudnn_include.display()
        )));
    }
    let knowledge = facts::Annotations::from_headers(&source.cudnn_include).map_err(|error| {
        Error::new(format!("the headers in {} cannot be read: {error}", source.cudnn_include.display()))
    })?;
    headers::write(scratch).map_err(|error| {
        Error::new(format!("cannot write the umbrella headers into {}: {error}", scratch.display()))
    })?;
    let mut files = Vec::new();
    let mut functions = Vec::new();
    let (mut names, mut known) = (String::new(), String::new());
    for module in Module::ALL {
        let parsed = parse::parse(module, source, &knowledge, scratch)?;
        files.push(File { name: format!("{}.rs", module.name()), text: emit::module(module, &parsed, source)? });
        emit::names(&mut names, &parsed);
        emit::facts(&mut known, &parsed);
        functions.push((module, parsed.functions));
    }
    files.push(File { name: "functions.rs".into(), text: emit::table(&functions, source) });
    files.push(File { name: "names.rs".into(), text: emit::all_names(&names, source) });
    files.push(File { name: FACTS.into(), text: emit::all_facts(&known, source) });
    Ok(files)
}
