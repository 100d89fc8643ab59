//! Compares the bindings with real headers through the C compiler: size, alignment and offsets of every struct and
//! enum, the value of every enumerator and constant, and the signature of every function.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use cudnn_loader::Version;
use cudnn_sys::*;
use support::{TempDir, c_compiler, release, run_compiler, version};

enum Item {
    Type { size: usize, align: usize },
    Struct { size: usize, align: usize, fields: Vec<(&'static str, usize)> },
    Number(i128),
    Float(f64),
}

trait Constant {
    fn item(self) -> Item;
}

impl Constant for u32 {
    fn item(self) -> Item {
        Item::Number(self.into())
    }
}

impl Constant for f64 {
    fn item(self) -> Item {
        Item::Float(self)
    }
}

macro_rules! item {
    (enum ($name:ident)) => { item!(alias ($name)) };
    (alias ($name:ident)) => { (stringify!($name), Item::Type { size: size_of::<$name>(), align: align_of::<$name>() }) };
    (constant ($name:ident)) => { (stringify!($name), Constant::item($name)) };
    (struct ($name:ident $($field:ident)*)) => {
        (stringify!($name), Item::Struct {
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: vec![$((stringify!($field), std::mem::offset_of!($name, $field))),*],
        })
    };
}

macro_rules! all_names {
    ($( since($major:literal, $minor:literal, $patch:literal) $kind:ident $arguments:tt; )*) => {
        fn items() -> Vec<(Version, (&'static str, Item))> {
            let mut all = vec![$( (Version::new($major, $minor, $patch), item!($kind $arguments)) ),*];
            let first_releases = first_releases();
            $( enumerators!(all first_releases $kind $arguments); )*
            all
        }
    };
}
macro_rules! enumerators {
    ($all:ident $first_releases:ident enum ($type:ident)) => {
        $all.extend($type::ENUMERATORS.iter().map(|(value, name)| {
            let name = name.to_str().unwrap();
            ($first_releases[name], (name, Item::Number(value.0.into())))
        }));
    };
    ($($other:tt)*) => {};
}
include!("abi/names.rs");

fn first_releases() -> BTreeMap<&'static str, Version> {
    let rows = include_str!("../../cudnn-sys/bindgen/src/generated/annotations.txt").lines().skip(1);
    let row = |row: &'static str| {
        let (name, annotations) = row.split_once(" new-in=").unwrap();
        (name, annotations.split(';').next().unwrap().parse().unwrap())
    };
    rows.map(row).collect()
}

macro_rules! signatures {
    ($($library:ident { $(
        since($major:literal, $minor:literal, $patch:literal) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        fn functions() -> Vec<(Version, bool, &'static str, Vec<&'static str>, &'static str)> {
            vec![$($((
                Version::new($major, $minor, $patch), $deprecated, stringify!($name), vec![$(stringify!($type)),*],
                stringify!($returns),
            ),)*)*]
        }
    };
}
for_each_function!(signatures);

fn in_c(rust: &str) -> String {
    let rust = rust.replace(' ', "");
    if let Some(pointee) = rust.strip_prefix("*mut") {
        return format!("{} *", in_c(pointee));
    }
    if let Some(pointee) = rust.strip_prefix("*const") {
        // In `T const`, `T` is the pointee even if it is a pointer itself.
        return format!("{} const *", in_c(pointee));
    }
    let name = rust.trim_start_matches("$crate::").trim_start_matches("core::ffi::");
    match name {
        "()" => "void",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "c_void" => "void",
        "c_ulonglong" => "unsigned long long",
        "c_longlong" => "long long",
        "usize" => "size_t",
        "f32" => "float",
        "f64" => "double",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        other => other,
    }
    .to_owned()
}

/// Returns whether a value changes with every release by design, because it counts or describes the release.
fn describes_the_release(name: &str) -> bool {
    let ends = ["_MAJOR", "_MINOR", "_PATCH", "_PATCHLEVEL", "_VERSION", "_COUNTS"];
    ends.iter().any(|end| name.ends_with(end)) || name.starts_with("CUDNN_MAX_SM_") || CHANGED.contains(&name)
}

/// Names with values or layouts that differ between releases, as this test found: two counts of enumerators, and a
/// struct with a new last field in 9.28.0.
const CHANGED: [&str; 3] = ["CUDNN_NUMERICAL_NOTE_TYPE_COUNT", "CUDNN_BEHAVIOR_NOTE_TYPE_COUNT", "cudnnGnnCscGraph_t"];

fn check(include: &Path, version: Version, mut compiler: Command) {
    let headers = ["cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv", "cudnn_subquadratic_ops", "cudnn_gnn_ops"]
        .map(|name| format!("{name}.h"));
    let mut text = String::new();
    let cuda_headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../headers/cuda");
    let mut read = std::fs::read_to_string(cuda_headers.join("library_types.h")).unwrap();
    for header in headers.iter().filter(|header| include.join(header).exists()) {
        let _ = writeln!(text, "#include <{header}>");
        read += &std::fs::read_to_string(include.join(header)).unwrap();
    }
    let newest = Version::new(CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
    let mut counted = [0; 3];
    for (since, (name, item)) in items() {
        if since > version || (version < newest && describes_the_release(name)) {
            continue;
        }
        counted[0] += 1;
        // The bindings use the tag of a type if it exists.
        let tag = ["struct", "enum"].into_iter().find(|tag| read.contains(&format!("{tag} {name} {{")));
        let name = tag.map_or(name.to_owned(), |tag| format!("{tag} {name}"));
        match item {
            Item::Type { size, align } => layout(&mut text, &name, size, align),
            Item::Struct { size, align, fields } => {
                layout(&mut text, &name, size, align);
                for (field, offset) in fields {
                    counted[1] += 1;
                    let _ = writeln!(
                        text,
                        "_Static_assert(__builtin_offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"
                    );
                }
            }
            Item::Number(value) => {
                let _ = writeln!(text, "_Static_assert(({name}) == {value}LL, \"{name}\");");
            }
            Item::Float(value) => {
                let _ = writeln!(text, "_Static_assert(({name}) == {value:?}, \"{name}\");");
            }
        }
    }
    for (since, _, name, arguments, returns) in functions() {
        if since > version {
            continue;
        }
        counted[2] += 1;
        let arguments: Vec<String> = arguments.into_iter().map(in_c).collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let _ = writeln!(text, "{} (*check_{name})({arguments}) = {name};", in_c(returns));
    }
    assert!(counted[0] > 800 && counted[1] >= 25 && counted[2] > 200, "{counted:?}");
    let dir = TempDir::new();
    let file = dir.path().join("abi.c");
    std::fs::write(&file, text).unwrap();
    run_compiler(
        compiler
            .args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unknown-pragmas"])
            .arg("-I")
            .arg(include)
            .arg("-I")
            .arg(cuda_headers)
            .arg(&file),
    );
    deprecations(&read, version == newest);
}

fn layout(text: &mut String, name: &str, size: usize, align: usize) {
    let _ = writeln!(text, "_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");");
}

/// Checks that the table and the newest headers deprecate the same functions.
fn deprecations(headers: &str, newest: bool) {
    if !newest {
        return;
    }
    let marked: Vec<&str> = headers
        .split("CUDNN_DEPRECATED cudnnStatus_t CUDNNWINAPI")
        .skip(1)
        .filter_map(|rest| Some(rest.split('(').next()?.trim()))
        .collect();
    for (_, deprecated, name, ..) in functions() {
        assert_eq!(deprecated, marked.contains(&name), "{name}");
    }
}

fn check_release(id: &str) {
    let Some(dir) = release(id) else { return };
    check(&cudnn_fetch::release(id).unwrap().include_dir(&dir), version(id), c_compiler());
}

/// Windows has the layouts of this machine, because no binding contains a `long`.
#[test]
#[ignore = "downloads cuDNN for Windows"]
fn the_bindings_match_the_headers_for_windows() {
    let mut compiler = support::windows::c_compiler();
    if compiler.arg("--version").output().is_err() {
        return support::not_run("the_bindings_match_the_headers_for_windows", "MinGW is not installed");
    }
    let Some(dir) = release("windows-cu13") else { return };
    let include = cudnn_fetch::release("windows-cu13").unwrap().include_dir(&dir);
    check(&include, version("windows-cu13"), support::windows::c_compiler());
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../cudnn-sys/src/generated")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for long in ["c_long,", "c_long;", "c_long)", "c_ulong,", "c_ulong;", "c_ulong)"] {
            assert!(!text.contains(long), "{long} has 32 bits on Windows and 64 on Linux");
        }
    }
}

#[test]
fn the_bindings_match_the_headers_of_9_19_0() {
    check_release("jit-cu12-9.19.0");
}

#[test]
fn the_bindings_match_the_headers_of_9_27_0() {
    check_release("jit-cu13-9.27.0");
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_bindings_match_the_headers_of_each_pinned_release() {
    support::full_releases().for_each(|release| check_release(release.id));
}

/// This project's substitutes for CUDA's headers must agree with NVIDIA's. The same program compiles with both, and
/// checks sizes, values, and pointee types.
#[test]
fn the_substitute_cuda_headers_match_nvidias() {
    let Some(wheel) = release("cuda-runtime-cu12") else { return };
    let dir = TempDir::new();
    let file = dir.path().join("cuda.c");
    std::fs::write(
        &file,
        "#include <cuda_runtime_api.h>\n#include <library_types.h>\n\
         _Static_assert(sizeof(libraryPropertyType) == 4 && sizeof(cudaStream_t) == 8 && sizeof(cudaGraph_t) == 8, \"\");\n\
         _Static_assert(MAJOR_VERSION == 0 && MINOR_VERSION == 1 && PATCH_LEVEL == 2, \"\");\n\
         struct CUstream_st *stream(cudaStream_t given) { return given; }\n\
         struct CUgraph_st *graph(cudaGraph_t given) { return given; }\n\
         enum libraryPropertyType_t property(libraryPropertyType given) { return given; }\n\
         size_t size;\n",
    )
    .unwrap();
    let cuda_headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../headers/cuda");
    // NVIDIA's header includes a header from the compiler's wheel, which uses keywords of CUDA's compiler.
    std::fs::create_dir(dir.path().join("crt")).unwrap();
    std::fs::write(
        dir.path().join("crt/host_defines.h"),
        "#define CUDARTAPI\n#define CUDARTAPI_CDECL\n#define CUDART_CB\n#define __host__\n#define __device__\n\
         #define __device_builtin__\n#define __device_builtin_texture_type__\n#define __device_builtin_surface_type__\n\
         #define __cudart_builtin__\n#define __align__(n) __attribute__((aligned(n)))\n\
         #define __builtin_align__(n) __align__(n)\n",
    )
    .unwrap();
    for include in [wheel.join("nvidia/cuda_runtime/include"), cuda_headers] {
        assert!(include.join("cuda_runtime_api.h").is_file(), "{include:?}");
        run_compiler(
            c_compiler()
                .args(["-std=c11", "-fsyntax-only", "-Werror", "-I"])
                .arg(&include)
                .arg("-I")
                .arg(dir.path())
                .arg(&file),
        );
    }
    assert_eq!(size_of::<libraryPropertyType>(), 4);
}
