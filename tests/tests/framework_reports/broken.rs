//! Checks damaged framework packages, including all libraries that Python imports, with or without cuDNN.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use support::ExtensionLibrary;

use crate::world::*;

type Damage = fn(&Path);

fn remove(file: &Path) {
    std::fs::remove_file(file).unwrap();
}

fn cut(file: &Path) {
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

fn remove_matching(dir: &Path, start: &str) {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |file: &std::path::PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with(start);
    let files: Vec<_> = entries.filter(is_it).collect();
    assert!(!files.is_empty(), "{start}");
    files.iter().for_each(|file| remove(file));
}

/// Returns PyTorch, ONNX Runtime and CTranslate2 with the library dependencies of the real packages.
fn world() -> World {
    let world = World::new();
    let venv = &world.venv;
    cudnn_wheel(venv, "9.10.2.21");
    cublas_wheel(venv);
    let library = |soname: &str| ExtensionLibrary::new().with_soname(soname).with_rpath("$ORIGIN");
    torch(venv, "2.8.0", "12.8", "9.10.2.21")
        .file("torch/__init__.py", "")
        .file("torch/nn/functional.py", "")
        .file("torch/testing/_internal/common.py", "")
        .library("torch/lib/libc10.so", &library("libc10.so"))
        .library("torch/lib/libtorch_cpu.so", &library("libtorch_cpu.so").needing("libc10.so"))
        .library(
            "torch/lib/libtorch_python.so",
            &library("libtorch_python.so").needing("libtorch_cuda.so").needing("libtorch_cpu.so"),
        );
    onnxruntime(venv, "1.22.0", "12.8", &[]);
    let shared = venv.import_dir().join("onnxruntime/capi/libonnxruntime_providers_shared.so");
    library("libonnxruntime_providers_shared.so").build(&shared);
    let record = venv.import_dir().join("onnxruntime_gpu-1.22.0.dist-info/RECORD");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(record, format!("{text}onnxruntime/capi/libonnxruntime_providers_shared.so,,\n")).unwrap();
    let inner = "libctranslate2-bc15bf3f.so.4.8.5";
    venv.package("ctranslate2", "4.8.5")
        .file("ctranslate2/__init__.py", "")
        .library(
            "ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so",
            &ExtensionLibrary::new().with_rpath("$ORIGIN/../ctranslate2.libs").needing(inner),
        )
        .library(&format!("ctranslate2.libs/{inner}"), &library(inner).needing("libgomp-24e2ab19.so.1.0.0"))
        .library("ctranslate2.libs/libgomp-24e2ab19.so.1.0.0", &library("libgomp-24e2ab19.so.1.0.0"));
    let cublas = venv.import_dir().join("nvidia/cublas/lib");
    world.set("LD_LIBRARY_PATH", cublas);
    world
}

#[test]
fn a_framework_that_cannot_be_imported_is_an_error() {
    has(&world(), &[]);
    for (damage, framework, parts) in [
        (
            (|site| remove(&site.join("torch/lib/libc10.so"))) as Damage,
            "torch",
            &["PyTorch 2.8.0 is damaged: libc10.so is missing, which ", "libtorch_cpu.so needs"][..],
        ),
        (|site| cut(&site.join("torch/lib/libtorch_cpu.so")), "torch", &["libtorch_cpu.so is truncated"]),
        (
            |site| {
                remove(&site.join("torch/__init__.py"));
                remove_matching(&site.join("torch"), "_C.");
            },
            "torch",
            &["PyTorch 2.8.0 is damaged: 2 files", "torch/__init__.py is missing"],
        ),
        (
            |site| std::fs::remove_dir_all(site.join("torch")).unwrap(),
            "torch",
            &[
                "PyTorch 2.8.0 is damaged: ",
                "torch/__init__.py is missing",
                "other files, which the package record lists",
            ],
        ),
        (
            |site| cut(&site.join("torch/lib/libtorch_global_deps.so")),
            "torch",
            &["libtorch_global_deps.so is truncated"],
        ),
        (
            |site| remove_matching(&site.join("ctranslate2.libs"), "libgomp"),
            "ctranslate2",
            &["CTranslate2 4.8.5 is damaged: libgomp-24e2ab19.so.1.0.0 is missing"],
        ),
        (
            |site| cut(&site.join("onnxruntime/capi/libonnxruntime_providers_shared.so")),
            "onnxruntime-gpu",
            &["ONNX Runtime 1.22.0 is damaged: ", "libonnxruntime_providers_shared.so is truncated"],
        ),
        (
            |site| remove(&site.join("onnxruntime/capi/libonnxruntime_providers_shared.so")),
            "onnxruntime-gpu",
            &["ONNX Runtime 1.22.0 is damaged: ", "libonnxruntime_providers_shared.so is missing"],
        ),
    ] {
        let world = world();
        damage(world.venv.import_dir());
        let found = codes(&world);
        let package_findings: Vec<_> = found.iter().filter(|(code, _)| code == "C086").collect();
        let [(_, text)] = package_findings.as_slice() else { panic!("{parts:?}: {found:#?}") };
        for part in parts.iter().chain(&["pip install --force-reinstall --no-deps ", framework]) {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(found.iter().all(|(code, _)| code == "C086"), "{parts:?}: {found:#?}");
        let (findings, status) = world.check(&[]);
        assert_eq!(status, 2, "{findings:#?}");
    }
}

/// Installing the framework again does not add a library of the system.
#[test]
fn a_missing_library_of_the_system_is_named_with_its_package() {
    let world = world();
    let file = world.venv.import_dir().join("torch/lib/libc10.so");
    let library = ExtensionLibrary::new().with_soname("libc10.so");
    library.needing("libnowhere.so.1").needing("libnever.so.2").build(&file);
    let help = "install the system's package with libnowhere.so.1, and the one with libnever.so.2";
    has(&world, &[("C086", &["PyTorch 2.8.0 cannot be imported: libnowhere.so.1 is missing, which ", help])]);
    remove(&world.venv.import_dir().join("torch/__init__.py"));
    has(
        &world,
        &[("C086", &[&format!("{help}, and install it again"), "pip install --force-reinstall --no-deps torch"])],
    );
}

/// Only the original index has this version, so a command cannot name it.
#[test]
fn a_damaged_local_version_is_installed_again_from_its_index() {
    let world = World::new();
    complete_torch(&world.venv, "2.8.0+cu128", "12.8", "9.10.2.21");
    remove(&world.venv.import_dir().join("torch/lib/libtorch_cuda.so"));
    has(
        &world,
        &[("C086", &["install torch==2.8.0+cu128 again from the package index", "--index-url", "\"commands\":[]"])],
    );
}

/// Users remove tests and other files to save space, so this is not an error.
#[test]
fn files_that_the_import_does_not_need_are_a_note() {
    let world = world();
    std::fs::remove_dir_all(world.venv.import_dir().join("torch/testing")).unwrap();
    let notes = |world: &World| -> Vec<Value> {
        let document: Value = serde_json::from_str(&world.doctor(&["--json"])).unwrap();
        document["environments"][0]["findings"].as_array().unwrap().clone()
    };
    assert_eq!(notes(&world), [] as [Value; 0]);
    std::fs::remove_dir_all(world.venv.import_dir().join("torch/nn")).unwrap();
    let found = notes(&world);
    assert!(found.len() == 1 && found[0]["severity"] == "note", "{found:#?}");
    assert!(
        found[0]["message"]
            .as_str()
            .unwrap()
            .ends_with("torch/nn/functional.py, which the package record lists, is missing")
    );
}

/// A library that this user may not read breaks the import, although others may read it.
#[test]
fn a_library_that_the_user_may_not_read_is_an_error() {
    let is_root = cudnn_os::rights::is_root();
    let world = world();
    let file = world.venv.import_dir().join("torch/lib/libtorch_cuda.so");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(if is_root { 0o600 } else { 0 })).unwrap();
    let closed = found_without_privileges(&world, "C080");
    assert!(closed["severity"] == "error" && closed["commands"].to_string().contains("chmod"), "{closed:#}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The cuDNN wheel is present, so it needs no installation.
    let dir = world.venv.import_dir().join("nvidia/cudnn");
    for closed in [dir.clone(), dir.join("lib")] {
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(if is_root { 0o700 } else { 0 })).unwrap();
        let found = found_without_privileges(&world, "C070");
        let command = found["commands"][0].as_str().unwrap();
        assert!(command.ends_with(&format!("chmod -R a+rX {}", closed.display())), "{found:#}");
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns the finding with this code for an unprivileged user. The finding must be an error.
fn found_without_privileges(world: &World, code: &str) -> Value {
    let bin = support::TempDir::new();
    let program = bin.path().join("cudnn-doctor");
    support::copy_program(support::doctor(), &program);
    let child = support::Child::bare(program.to_str().unwrap());
    let output = child.without_privileges().run(&["frameworks", "--json", world.venv.root().to_str().unwrap()]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let found = document["environments"][0]["findings"].as_array().unwrap();
    assert_eq!(output.code, Some(2), "{found:#?}");
    found.iter().find(|finding| finding["code"] == code).unwrap_or_else(|| panic!("no {code}: {found:#?}")).clone()
}
