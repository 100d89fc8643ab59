//! Generates the bindings of `cudnn-sys` from cuDNN's headers.
//!
//! ```no_run
//! use std::path::Path;
//!
//! let include = Path::new("/usr/include");
//! let source = cudnn_bindgen::Source {
//!     cudnn_include: include.into(),
//!     description: "the headers in /usr/include".into(),
//!     command: "my build script".into(),
//!     unknown_since: cudnn_bindgen::version(include),
//! };
//! for file in cudnn_bindgen::generate(&source, &std::env::temp_dir())? {
//!     println!("{}: {} bytes", file.name, file.text.len());
//! }
//! # Ok::<(), String>(())
//! ```
//!
//! bindgen determines the ABI: names, types, values and signatures. This crate sorts the items into modules, replaces
//! NVIDIA's comments with new documentation, and writes the function table. It requires that the headers are already on
//! the machine.
//!
//! `cargo xtask bindings` uses it for the checked-in bindings, and the build script of `cudnn-sys` for the feature
//! `buildtime-bindgen`.

mod annotations;
mod attributes;
mod emit;
mod headers;
mod module;
mod parse;
mod source;

use std::path::Path;

pub use headers::headers_without_module;
pub use source::{Source, version};

use annotations::Annotations;
use module::Module;
use parse::Parsed;

/// A generated file.
#[derive(Clone, Debug)]
pub struct File {
    /// The file name, such as `graph.rs`.
    pub name: String,
    /// The content of the file.
    pub text: String,
}

/// The generated file with the first release and the deprecation of all names. It belongs to this crate, because
/// headers of older releases contain them for few names.
pub const ANNOTATIONS: &str = "annotations.txt";

/// The generated file with all names except functions and enumerators. It belongs to the tests that compare the bindings
/// with the C compiler.
pub const NAMES: &str = "names.rs";

/// The generated file with the elements that attributes of backend descriptors take. It belongs to `cudnn-layers`.
pub const ATTRIBUTES: &str = "attributes.rs";

/// Generates all files of `cudnn-sys/src/generated`, [`ANNOTATIONS`], [`NAMES`] and [`ATTRIBUTES`]. Writes the umbrella
/// headers to the directory `scratch`.
///
/// # Errors
/// Returns the reason, and what to do, in these cases:
///
/// - libclang is missing or rejects the headers.
/// - The headers contain an item that the generator does not support.
/// - `cudnn.h` includes a header that belongs to no module.
/// - The first release of a name is unknown.
pub fn generate(source: &Source, scratch: &Path) -> Result<Vec<File>, String> {
    let include = &source.cudnn_include;
    if !include.join("cudnn_graph.h").is_file() {
        return Err(format!(
            "{} does not contain cudnn_graph.h; use the include directory of cuDNN 9",
            include.display()
        ));
    }
    let uncovered = headers::included_by_no_umbrella(include);
    if !uncovered.is_empty() {
        return Err(format!(
            "cudnn.h in {} includes headers that this version of cudnn-bindgen does not know: {}\nhelp: use a newer version \
             of this crate; in its repository, add them to a header in headers/ and to Module::headers in \
             cudnn-sys/bindgen/src/module.rs",
            include.display(),
            uncovered.join(", ")
        ));
    }
    let headers =
        headers::text(include).map_err(|error| format!("cannot read the headers in {}: {error}", include.display()))?;
    let annotations = Annotations::from_headers(&headers, source.unknown_since.as_deref())?;
    headers::write(scratch)
        .map_err(|error| format!("cannot write the umbrella headers into {}: {error}", scratch.display()))?;
    let modules: Vec<(Module, Parsed)> = Module::ALL
        .into_iter()
        .map(|module| Ok((module, parse::parse(module, source, &annotations, scratch)?)))
        .collect::<Result<_, String>>()?;
    let undated: Vec<&str> = modules.iter().flat_map(|(_, parsed)| parsed.undated()).collect();
    if !undated.is_empty() {
        return Err(format!(
            "neither the headers in {} nor cudnn-bindgen's annotations state the first release with: {}\nhelp: `cargo xtask \
             release VERSION` takes VERSION for them; or add them to SINCE_OVERRIDES in cudnn-sys/bindgen/src/annotations.rs",
            include.display(),
            undated.join(", ")
        ));
    }
    let file = |name: &str, text: String| File { name: name.to_owned(), text };
    let mut files = Vec::new();
    for (module, parsed) in &modules {
        files.push(file(&format!("{}.rs", module.name()), emit::module(*module, parsed, source)?));
    }
    files.push(file("functions.rs", emit::function_table(&modules, source)));
    files.push(file(NAMES, emit::name_table(&modules, source)));
    files.push(file(ANNOTATIONS, emit::annotation_list(&modules, source)));
    files.push(file(ATTRIBUTES, emit::attributes(&modules, &attributes::collect(&headers)?, source)?));
    files.extend(version(include).map(|version| file("version.txt", version + "\n")));
    Ok(files)
}
