//! Provides the umbrella headers, and finds headers of cuDNN that none of them includes.

use std::path::Path;

use crate::module::Module;

/// The contents of the repository's `headers/`, embedded so that the crate is self-contained.
const UMBRELLA_HEADERS: [(&str, &str); 8] = [
    ("cuda.h", include_str!("../headers/cuda.h")),
    ("graph.h", include_str!("../headers/graph.h")),
    ("ops.h", include_str!("../headers/ops.h")),
    ("cnn.h", include_str!("../headers/cnn.h")),
    ("adv.h", include_str!("../headers/adv.h")),
    ("ext.h", include_str!("../headers/ext.h")),
    ("cuda/cuda_runtime_api.h", include_str!("../headers/cuda/cuda_runtime_api.h")),
    ("cuda/library_types.h", include_str!("../headers/cuda/library_types.h")),
];

/// Writes the umbrella headers into a directory.
pub(crate) fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir.join("cuda"))?;
    for (name, text) in UMBRELLA_HEADERS {
        std::fs::write(dir.join(name), text)?;
    }
    Ok(())
}

/// Returns the headers that `cudnn.h` includes, directly or indirectly, but no module covers. Their functions would be
/// missing.
pub(crate) fn included_by_no_umbrella(include: &Path) -> Vec<String> {
    let mut found = vec!["cudnn.h".to_owned()];
    let mut index = 0;
    while let Some(name) = found.get(index) {
        let text = std::fs::read(include.join(name)).unwrap_or_default();
        for name in includes(&String::from_utf8_lossy(&text)) {
            if name.starts_with("cudnn") && !found.contains(&name) {
                found.push(name);
            }
        }
        index += 1;
    }
    found.retain(|name| !is_covered(name));
    found
}

/// Returns the cuDNN headers in a directory that no module covers, whether `cudnn.h` includes them or not.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn headers_without_module(include: &Path) -> std::io::Result<Vec<String>> {
    let mut names = names(include)?;
    names.retain(|name| !is_covered(name));
    Ok(names)
}

/// Returns the text of all cuDNN headers in a directory.
pub(crate) fn text(include: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    for name in names(include)? {
        text.push_str(&String::from_utf8_lossy(&std::fs::read(include.join(name))?));
    }
    Ok(text)
}

fn names(include: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(include)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name.starts_with("cudnn") && name.ends_with(".h"));
    names.sort();
    Ok(names)
}

/// Returns the file names in a header's `#include` lines.
fn includes(header: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.trim().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let rest = rest.strip_prefix(['"', '<'])?;
        rest.split(['"', '>']).next().map(str::to_owned)
    };
    header.lines().filter_map(name).collect()
}

/// Returns whether a module covers this header, or the header is `cudnn.h`, which only includes others.
fn is_covered(name: &str) -> bool {
    let stem = name.trim_end_matches(".h").trim_end_matches("_v9");
    stem == "cudnn" || Module::ALL.iter().any(|module| module.headers().contains(&stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_umbrella_header_includes_the_headers_of_its_module() {
        for module in Module::ALL {
            let name = format!("{}.h", module.name());
            let (_, text) = UMBRELLA_HEADERS.iter().find(|(file, _)| *file == name).unwrap();
            // CUDA's headers include each other.
            let expected = if module == Module::Cuda { &module.headers()[..1] } else { module.headers() };
            assert_eq!(includes(text), expected.iter().map(|stem| format!("{stem}.h")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_header_that_cudnn_h_includes_and_no_module_has_is_found() {
        let dir = std::env::temp_dir().join(format!("cudnn-bindgen-headers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        write(
            "cudnn.h",
            "#include <cuda_runtime_api.h>\n#include \"cudnn_graph.h\"\n  # include \"cudnn_quantum.h\"\n",
        );
        write("cudnn_graph.h", "#include \"cudnn_version.h\"\n");
        write("cudnn_quantum.h", "#include \"cudnn_quantum_types_v9.h\"\n");
        write("cudnn_unused.h", "");
        assert_eq!(included_by_no_umbrella(&dir), ["cudnn_quantum.h", "cudnn_quantum_types_v9.h"]);
        assert_eq!(headers_without_module(&dir).unwrap(), ["cudnn_quantum.h", "cudnn_unused.h"]);
        let _ = std::fs::remove_dir_all(dir);
    }
}
