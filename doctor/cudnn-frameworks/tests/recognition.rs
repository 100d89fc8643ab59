//! Tests how single files, names and requirements are recognized.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use cudnn_frameworks::installation::{Installer, Package};
use cudnn_frameworks::{
    Jetson, Pin, PinState, allows, allows_from, drop_in_version, exclude_each_other, is_drop_in_named,
};
use cudnn_probe::{Component, Host};

const ORIN: &str = "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0";
const R36: &str = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8\n\
                   # KERNEL_VARIANT: oot\nTARGET_USERSPACE_LIB_DIR=nvidia\n";

#[test]
fn a_jetson_is_recognized_by_the_files_of_a_system_or_container() {
    let tree = "proc/device-tree/compatible";
    let (family, id) = ("sys/devices/soc0/family", "sys/devices/soc0/soc_id");
    let release = "etc/nv_tegra_release";
    // Fields: the files, the name, the compute capability, the release of L4T, the CUDA of that release, and the number
    // of pieces of evidence.
    for (index, (files, expected)) in [
        (&[(tree, ORIN), (release, R36)][..], Some(("Jetson Orin", Some(87), Some("36.4.3"), Some(12), 2))),
        (&[("sys/firmware/devicetree/base/compatible", ORIN)], Some(("Jetson Orin", Some(87), None, None, 1))),
        (
            &[
                (tree, "nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0"),
                (release, "# R39 (release), REVISION: 2.1, GCID: 46758480\n"),
            ],
            Some(("Jetson Thor", Some(110), Some("39.2.1"), Some(13), 2)),
        ),
        // Docker hides the device tree.
        (
            &[(family, "Tegra\n"), (id, "35\n"), (release, "# R35 (release), REVISION: 4.1, GCID: 1\n")],
            Some(("Jetson Orin", Some(87), Some("35.4.1"), None, 3)),
        ),
        (&[(family, "Tegra\n"), (id, "25\n")], Some(("Jetson Xavier", Some(72), None, None, 2))),
        (&[(family, "Tegra\n"), (id, "jep106:036b:0023\n")], Some(("Jetson", None, None, None, 1))),
        (&[(release, R36)], Some(("Jetson", None, Some("36.4.3"), Some(12), 1))),
        (&[(release, "# R36 (release), REVISION: 5\n")], Some(("Jetson", None, Some("36.5.0"), Some(12), 1))),
        (&[(tree, "nvidia,tegra2345\0")], Some(("Jetson", None, None, None, 1))),
        (&[], None),
        (&[(tree, "raspberrypi,4-model-b\0brcm,bcm2711\0"), (family, "BCM\n")], None),
        (&[(release, "R36\n"), (tree, "xnvidia,tegra234")], None),
        (&[(release, "# Rx (release), REVISION: 4.3\n")], None),
        (&[(release, "# R36 (release), REVISION: 4.3.x\n")], None),
    ]
    .into_iter()
    .enumerate()
    {
        let root = std::env::temp_dir().join(format!("cudnn-frameworks-jetson-{}-{index}", std::process::id()));
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let jetson = Jetson::detect(&Host::sandbox(&root));
        let _ = std::fs::remove_dir_all(&root);
        let found = jetson.as_ref().map(|jetson| {
            let l4t = jetson.l4t.map(|release| release.to_string());
            (jetson.name(), jetson.compute_capability(), l4t, jetson.jetpack_cuda(), jetson.evidence.len())
        });
        let expected = expected.map(|(name, capability, l4t, cuda, evidence): (_, _, Option<&str>, _, _)| {
            (name, capability, l4t.map(str::to_owned), cuda, evidence)
        });
        assert_eq!(found, expected, "{files:?}");
    }
}

#[test]
fn the_drop_in_is_recognized_on_each_system() {
    let file = std::env::temp_dir().join(format!("cudnn-drop-in-{}", std::process::id()));
    for (name, text, expected) in [
        ("libcudnn.so.9", "\0cudnnShimGetVersion\0", true),
        ("cudnn64_9.dll", "\0cudnnShimGetVersion\0", true),
        ("CUDNN64_9.DLL", "\0cudnnShimGetVersion\0", true),
        ("cudnn64_9.dll", "\0cudnnGetVersion\0", false),
        ("cudnn_graph64_9.dll", "\0cudnnShimGetVersion\0", false),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(is_drop_in_named(Path::new(name), &file), expected, "{name}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn the_version_is_read_from_the_file() {
    let dir = std::env::temp_dir().join(format!("cudnn-drop-in-version-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("libcudnn.so.9");
    for (text, expected) in [
        ("\0cudnnShimGetVersion\0cudnn-shim drop-in 0.1.0-rc.1\0x", Some("0.1.0-rc.1")),
        ("cudnn-shim drop-in 0.1.0\0", None),
        ("\0cudnnShimGetVersion\0", None),
        ("\0cudnnShimGetVersion\0cudnn-shim drop-in \0", None),
        ("\0cudnnShimGetVersion\0cudnn-shim drop-in 1\x1b[31m\0", None),
        ("\0cudnnShimGetVersion\0cudnn-shim drop-in 0.1", None),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(drop_in_version(&file).as_deref(), expected, "{text}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_component_follows_from_the_name_unless_the_package_is_not_nvidias() {
    for (installer, name, expected) in [
        (Installer::Pip, "nvidia-cudnn-cu12", Some(Component::Cudnn)),
        (Installer::Pip, "nvidia-cudnn-jit-cu13", Some(Component::CudnnJit)),
        (Installer::Pip, "torch", None),
        (Installer::Pip, "nvidia-cudnn-frontend", None),
        (Installer::Pip, "nvidia-cublas-cu12", None),
        (Installer::Conda, "libcudnn-jit", Some(Component::CudnnJit)),
        (Installer::Dpkg, "libcudnn9-cuda-12", Some(Component::Cudnn)),
        (Installer::Rpm, "libcudnn9-jit-cuda-13", Some(Component::CudnnJit)),
        (Installer::Archive, "cudnn-linux-x86_64-9.28.0.42_cuda12-archive", None),
    ] {
        let package = Package::new(installer, name, None, "/env");
        assert_eq!(package.component(), expected, "{package}");
        assert_eq!(package.is_cudnn(), expected.is_some(), "{package}");
    }
}

#[test]
fn a_requirement_allows_newer_versions_or_forbids_them() {
    for (requirement, minimum, expected) in [
        ("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", "9.15.1", Some(("==9.10.2.21", false))),
        ("nvidia-cudnn-cu12==9.19.0.56", "9.15.1", Some(("==9.19.0.56", true))),
        ("nvidia-cudnn-cu12 (>=9.8,<10)", "9.15.1", Some((">=9.8,<10", true))),
        ("nvidia-cudnn-cu12<9.11", "9.15.1", Some(("<9.11", false))),
        ("nvidia-cudnn-cu12>9.15.1,<9.16", "9.15.1", Some((">9.15.1,<9.16", true))),
        ("nvidia-cudnn-cu12", "9.15.1", None),
        ("nvidia-cudnn-cu12 @ https://example.org/x.whl", "9.15.1", None),
        ("(", "9", None),
    ] {
        let found = allows_from(requirement, minimum);
        let found = found.as_ref().map(|(text, is_allowed)| (text.replace(' ', ""), *is_allowed));
        let expected = expected.map(|(text, is_allowed)| (text.to_owned(), is_allowed));
        assert_eq!(found, expected, "{requirement}");
    }
}

#[test]
fn requirements_without_a_common_version_exclude_each_other() {
    for (one, other, expected) in [
        ("nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu12==9.0.0.312", true),
        ("nvidia-cudnn-cu12>=9.19.0", "nvidia-cudnn-cu12<9.19", true),
        ("nvidia-cudnn-cu12<10.0,>=9.8", "nvidia-cudnn-cu12==9.5.1.17", true),
        ("nvidia-cudnn-cu12>=9.18", "nvidia-cudnn-cu12<9.19", false),
        ("nvidia-cudnn-cu12>=9.8", "nvidia-cudnn-cu12>9.10", false),
        ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12==9.0.0.312", false),
        ("x[y]==2.0", "x == 2.0", false),
        ("cudnn=9.19.0", "cudnn 9.10.*", true),
        ("cudnn=9.10.2", "cudnn 9.10.*", false),
        ("cudnn=9.10", "cudnn=9.10.2", false),
        ("x==1", "x @ https://host/x.whl", false),
    ] {
        assert_eq!(exclude_each_other(one, other), expected, "{one} {other}");
        assert_eq!(exclude_each_other(other, one), expected, "{other} {one}");
    }
}

#[test]
fn a_requirement_of_every_installer_accepts_a_version() {
    for (requirement, version, expected) in [
        ("x==9.19.0.56", "9.19.0.56", true),
        ("x==9.19.0.56", "9.19.0.57", false),
        ("x==1.0", "1.0.0+cu128", true),
        ("x==13.*", "13.1.0", true),
        ("x>=9.9", "9.10", true),
        ("x>=9,<10", "10.1", false),
        ("channel::x=9.10", "9.10.2", true),
        ("x=9.1", "9.10", false),
        ("x=9.10.2.21-1", "9.10.2.21-1", true),
        ("x=9.10.2.21-1", "9.10.2.21-2", false),
        ("x", "9", true),
        ("x @ https://host/x.whl", "9", true),
    ] {
        assert_eq!(allows(requirement, version), expected, "{requirement} {version}");
    }
}

#[test]
fn a_requirement_is_complete_without_the_marker() {
    for (requirement, expected) in [
        ("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", "nvidia-cudnn-cu12==9.10.2.21"),
        ("nvidia-cudnn-cu12 (==8.9.2.26) ; os_name == 'posix'", "nvidia-cudnn-cu12==8.9.2.26"),
        ("nvidia-cudnn-cu12 (>=9.1, <10)", "nvidia-cudnn-cu12>=9.1,<10"),
        ("cuda-toolkit[cublas,cudart]==13.2.2", "cuda-toolkit[cublas,cudart]==13.2.2"),
        ("a @ https://example.org/a(1);b.whl#x=(y)", "a @ https://example.org/a(1);b.whl#x=(y)"),
        ("a[x]@https://example.org/a.whl ; os_name == 'posix'", "a[x] @ https://example.org/a.whl"),
    ] {
        let (requirement, package, state) = (requirement.to_owned(), "a".to_owned(), PinState::Missing);
        let pin = Pin { requirement, package, state, extra: None, through: None };
        assert_eq!(pin.without_marker(), expected);
    }
}
