//! Compares the table of functions with the exports of real sub-libraries.

use std::collections::BTreeSet;
use std::path::Path;

use cudnn_loader::{Function, Library, Version};
use support::{exported_symbols, lib_dir};

/// Exported names that public headers and the bindings omit, because only cuDNN's libraries use them. The drop-in
/// library exports the same subset as NVIDIA's shim.
const NOT_PUBLIC: [&str; 9] = [
    "cudnnGetBackdoor",
    "cudnnSetBackdoor",
    "cudnnSetBackdoorEx",
    "cudnnGetLibConfig",
    "cudnnGetModuleForDescriptor",
    "cudnnGetTime",
    "cudnnGetTimeDiffString",
    "cudnnSnprintf",
    "cudnnGetRNNDropoutLocationsInternal",
];

/// The subset that NVIDIA's shim exports in every release.
const NOT_PUBLIC_OF_THE_SHIM: [&str; 4] =
    ["cudnnGetBackdoor", "cudnnSetBackdoor", "cudnnSetBackdoorEx", "cudnnGetRNNDropoutLocationsInternal"];

/// Returns cuDNN's C functions that a library exports, without mangled names and data.
fn exports(file: &Path) -> BTreeSet<String> {
    let name = |(kind, name): (String, String)| {
        let name = name.split('@').next()?;
        (kind == "T" && name.starts_with("cudnn")).then(|| name.to_owned())
    };
    exported_symbols(file).into_iter().filter_map(name).collect()
}

fn check(lib_dir: &Path, version: Version) {
    let is_jit_only = !lib_dir.join("libcudnn_engines_precompiled.so.9").exists();
    let mut libraries = 0;
    let mut all = BTreeSet::new();
    for library in Library::WITH_API.iter().copied() {
        let declared: BTreeSet<String> = Function::ALL
            .iter()
            .filter(|function| function.library() == library && function.since() <= version)
            .map(|function| function.name().to_owned())
            .collect();
        let file = lib_dir.join(library.file_name());
        all.extend(declared.iter().cloned());
        // A JIT-only wheel contains only graph, and ext was added in 9.22.0. All other libraries must exist.
        let may_lack = is_jit_only && library != Library::Graph || declared.is_empty();
        if !file.exists() {
            assert!(may_lack, "{library} of {version} is missing");
            continue;
        }
        libraries += 1;
        let mut exported = exports(&file);
        exported.retain(|name| !NOT_PUBLIC.contains(&name.as_str()));
        assert_eq!(exported, declared, "{library} of {version}");
    }
    assert!(libraries > 0, "{lib_dir:?} contains no sub-library");
    // NVIDIA's shim exports exactly these functions.
    let mut shim = exports(&lib_dir.join("libcudnn.so.9"));
    let not_public: BTreeSet<&str> = NOT_PUBLIC.into_iter().filter(|name| shim.contains(*name)).collect();
    assert_eq!(not_public, NOT_PUBLIC_OF_THE_SHIM.into(), "the shim of {version}");
    shim.retain(|name| !NOT_PUBLIC.contains(&name.as_str()));
    assert_eq!(shim, all, "the shim of {version}");
}

#[test]
fn the_table_equals_the_exports_of_9_19_0() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    check(&dir, Version::new(9, 19, 0));
}

#[test]
fn the_table_equals_the_exports_of_9_27_0() {
    let Some(dir) = lib_dir("jit-cu13-9.27.0") else { return };
    check(&dir, Version::new(9, 27, 0));
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_table_equals_the_exports_of_every_pinned_release() {
    for release in support::full_releases() {
        let Some(dir) = lib_dir(release.id) else { return };
        check(&dir, support::version(release.id));
    }
}
