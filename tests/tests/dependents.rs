//! Builds programs that depend on the crates (`tests/dependents`) outside the workspace, and runs them with a real
//! cuDNN, an unusable cuDNN, and no cuDNN.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{Child, ChildOutput, FakeLibrary, TempDir, dynamic_entries, lib_dir};

static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let built = root.join("target/dependents");
    // Use the workspace's versions of all dependencies, so that cargo downloads no others.
    std::fs::copy(root.join("Cargo.lock"), root.join("tests/dependents/Cargo.lock")).expect("it can be copied");
    std::fs::create_dir_all(&built).expect("target can be written");
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .expect("cargo starts");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let cudarc = packages.iter().find(|package| package["name"] == "cudarc").expect("the workspace uses cudarc");
    let cudarc = Path::new(cudarc["manifest_path"].as_str().expect("a path")).parent().expect("a directory");
    let patch = Command::new(root.join("tests/dependents/cudarc/patch"))
        .arg(cudarc)
        .arg(built.join("cudarc"))
        .output()
        .expect("the script starts");
    assert!(patch.status.success(), "{patch:?}");
    built
});

fn build(package: &str, features: &str, variables: &[(&str, &Path)]) -> (PathBuf, Output) {
    let target = BUILT.join("target");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("dependents"))
        .args(["build", "--package", package, "--features", features])
        .args(["--target", support::TARGET, "--target-dir"])
        .arg(&target);
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDNN_LOADER_DIR", "CUDNN_SYS_LIB_DIR"] {
        command.env_remove(variable);
    }
    let output = command.envs(variables.iter().copied()).output().expect("cargo starts");
    (target.join(support::TARGET).join("debug").join(package), output)
}

fn built(package: &str, features: &str, variables: &[(&str, &Path)]) -> PathBuf {
    let (program, output) = build(package, features, variables);
    assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program with the cuDNN of a directory. The program must succeed.
fn run(program: &Path, cudnn: &Path, arguments: &[&str]) -> ChildOutput {
    let output = Child::bare(program).env("CUDNN_LOADER_DIR", cudnn).run(arguments);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
    output
}

const NOWHERE: &str = "/nowhere";

#[test]
fn cudarc_with_the_loader_returns_errors_instead_of_panicking() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let program = built("cudarc-over-loader", "", &[]);
    let output = run(&program, &real, &[]).stdout;
    assert!(output.starts_with("version 91900\n"), "{output}");
    let without_gpu = output.contains("no handle: CudnnError(CUDNN_STATUS_NOT_INITIALIZED");
    assert!(without_gpu || output.contains("a handle\ndestroyed: Ok(())"), "{output}");
    let output = run(&program, Path::new(NOWHERE), &[]).stdout;
    let error = "version 0\nno handle: CudnnError(CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008))\ncudnnCreate cannot be called: ";
    assert!(output.starts_with(error) && output.contains("/nowhere"), "{output}");
}

#[test]
fn a_library_links_or_loads_as_its_user_chooses() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let loaded = built("program", "load", &[]);
    let output = run(&loaded, &real, &[]).stdout;
    // This release is JIT-only.
    assert!(output.starts_with("version 91900\ncudnnCreateDropoutDescriptor returned "), "{output}");
    assert!(output.contains("does not include libcudnn_ops.so.9"), "{output}");
    let output = run(&loaded, Path::new(NOWHERE), &[]).stdout;
    assert!(output.starts_with("version 0\n") && output.contains("\"/nowhere\""), "{output}");

    let dir = TempDir::links_to(&real);
    FakeLibrary::new(Library::Ops, Version::new(9, 19, 0)).build(&dir.file(Library::Ops));
    let needed = |program: &Path| {
        let needed = dynamic_entries(program, "NEEDED");
        needed.into_iter().filter(|name| name.contains("cudnn")).collect::<Vec<_>>()
    };
    let linked = built("program", "link", &[("CUDNN_SYS_LIB_DIR", dir.path())]);
    assert_eq!(needed(&linked).len(), 2, "{:?}", needed(&linked));
    // The linked program finds cuDNN only through the run path.
    let output = run(&linked, Path::new(NOWHERE), &[]).stdout;
    assert_eq!(output, "version 91900\na descriptor\n");

    // If two dependents disagree, the choice that works without cuDNN wins.
    let both = built("program", "link,load", &[("CUDNN_SYS_LIB_DIR", dir.path())]);
    assert!(needed(&both).is_empty(), "{:?}", needed(&both));
    let output = run(&both, Path::new(NOWHERE), &[]).stdout;
    assert!(output.starts_with("version 0\n"), "{output}");

    let (_, output) = build("program", "", &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("enable a feature of link-or-load: `load`"), "{text}");
}

#[test]
fn a_build_script_sets_a_cfg_by_version_and_reports_missing_features() {
    let (Some(old), Some(new)) = (lib_dir("jit-cu12-9.19.0"), lib_dir("jit-cu13-9.27.0")) else { return };
    for (cudnn, compiled) in [(&old, "for cuDNN 9.10 or newer\n"), (&new, "for cuDNN 9.22 or newer\n")] {
        let program = built("versions", "", &[("CUDNN_LOADER_DIR", cudnn)]);
        assert_eq!(run(&program, cudnn, &[]).stdout, compiled);
    }
    let (program, output) = build("versions", "", &[("CUDNN_LOADER_DIR", Path::new(NOWHERE))]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let warnings = [
        "no usable cuDNN 9 found: \"/nowhere\" (set by CUDNN_LOADER_DIR) does not exist",
        "help: Set CUDNN_LOADER_DIR to the absolute path",
        "  \"/nowhere\" (set by CUDNN_LOADER_DIR) does not exist",
    ];
    for warning in warnings {
        assert!(
            text.lines().any(|line| line.starts_with("warning: versions@0.0.0: ") && line.contains(warning)),
            "{text}"
        );
    }
    assert_eq!(run(&program, &old, &[]).stdout, "without cuDNN\n");

    // The next build notices that pip changed the environment.
    let venv = TempDir::new();
    let lib = venv.path().join("lib/python3.12/site-packages/nvidia/cudnn_jit/lib");
    let built_now = || run(&built("versions", "", &[("VIRTUAL_ENV", venv.path())]), &old, &[]).stdout;
    let before = built_now();
    std::fs::create_dir_all(&lib).expect("it can be made");
    for file in std::fs::read_dir(&old).expect("a release").flatten() {
        std::os::unix::fs::symlink(file.path(), lib.join(file.file_name())).expect("links");
    }
    // If this machine has a cuDNN installation, the build watches that.
    let is_first = before == "without cuDNN\n";
    assert!(!is_first || built_now() == "for cuDNN 9.10 or newer\n");
    std::fs::remove_dir_all(&lib).expect("it can be removed");
    assert_eq!(built_now(), before);
}
