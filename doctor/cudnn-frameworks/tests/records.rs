//! Tests which packages are installed, and which own an installation according to the records of Windows installers, on
//! any system.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../cudnn-probe/src/image/fake_dll.rs"]
#[allow(dead_code, reason = "the tests of the probe use the rest")]
mod fake_dll;

use cudnn_frameworks::installation::{InstallationReport, Package, conda_packages, system_packages};
use cudnn_frameworks::{PackageRecord, listed_files, pip_records};
use cudnn_os::files::below;
use cudnn_probe::{Host, Os, Version, canonicalize};
use fake_dll::FakeDll;

const VERSION: &[(&str, [u8; 4])] = &[("cudnn_graph_version", [0, 28, 9, 0])];

#[test]
fn the_owner_of_dlls_is_found_in_the_records_of_windows() {
    let world = std::env::temp_dir().join(format!("cudnn frameworks größe owner {}", std::process::id()));
    let _ = std::fs::remove_dir_all(&world);
    let write = |path: &str, text: &str| {
        let file = below(&world, path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let record = "nvidia_cudnn_cu13-9.28.0.42.dist-info/RECORD";
    let of_wheel = "nvidia/cudnn/bin/cudnn_graph64_9.dll,sha256=X1f6,1234\r\n";
    write(&format!("venv/Lib/site-packages/{record}"), of_wheel);
    write(&format!("Python312/site-packages/{record}"), &of_wheel.replace('/', "\\"));
    write(&format!("target/{record}"), of_wheel);
    write("venv/Lib/site-packages/Torch-2.9.0+cu130.dist-info/RECORD", "torch/lib/cudnn_graph64_9.dll,,1\r\n");
    write("conda/conda-meta/cudnn-9.28.0.42-h1.json", r#"{"files": ["Library/bin/cudnn_graph64_9.dll"]}"#);
    write("CUDA/v13.0/version.json", "{}");
    write("CUDA/v13.0/bin/x64/cudart64_13.dll", "");
    write("app/Koharu.exe", "");
    let archive = "cudnn-windows-x86_64-9.28.0.42_cuda13-archive";
    for (dir, expected) in [
        ("venv/Lib/site-packages/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in venv"),
        ("venv/Lib/site-packages/torch/lib", "pip torch 2.9.0+cu130 in venv"),
        ("Python312/site-packages/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in Python312"),
        ("target/nvidia/cudnn/bin", "pip nvidia-cudnn-cu13 9.28.0.42 in target"),
        ("conda/Library/bin", "conda cudnn 9.28.0.42 in conda"),
        ("NVIDIA/CUDNN/v9.28/bin/13.0/x64", "NVIDIA's installer cuDNN 9.28 in NVIDIA/CUDNN/v9.28"),
        ("NVIDIA/CUDNN/v9.9/bin/12.8", "NVIDIA's installer cuDNN 9.9 in NVIDIA/CUDNN/v9.9"),
        (&format!("{archive}/bin"), &format!("archive {archive} 9.28.0.42 in {archive}")),
        (&format!("{archive}/bin/x64"), &format!("archive {archive} 9.28.0.42 in {archive}")),
        ("CUDA/v13.0/bin/x64", "CUDA toolkit directory v13.0 in CUDA/v13.0"),
        ("app", "application Koharu in app"),
        ("copied", ""),
    ] {
        let dir = below(&world, dir);
        FakeDll { exports: VERSION, ..FakeDll::new("cudnn_graph64_9.dll") }.write(&dir.join("cudnn_graph64_9.dll"));
        let report = InstallationReport::read(&dir, &Host::sandbox(&world)).unwrap();
        let root = canonicalize(&world).unwrap();
        let shown = |package: &Package| {
            let root = package.root.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            format!("{package} in {root}")
        };
        assert_eq!(report.package.as_ref().map(shown).unwrap_or_default(), expected, "{dir:?}");
        assert_eq!((report.os, report.version.map(|version| version.minor)), (Os::Windows, Some(28)));
        let is_wheel = dir.ends_with("nvidia/cudnn/bin");
        assert_eq!(report.cuda_major.is_some(), is_wheel, "{dir:?}");
        let recorded = report.libraries.first().map(|library| library.recorded.len());
        assert_eq!(recorded, Some(usize::from(expected.starts_with("pip"))), "{dir:?}");
    }
    // cuDNN 8 also has DLLs with `_infer` and `_train`.
    let older = world.join("older");
    FakeDll { version: Some([8, 9, 7, 29]), ..FakeDll::new("cudnn64_8.dll") }.write(&older.join("cudnn64_8.dll"));
    let report = InstallationReport::read(&older, &Host::sandbox(&world)).unwrap();
    assert_eq!((report.os, report.major), (Os::Windows, 8));
    assert_eq!(report.version, Some(Version::new(8, 9, 7)));
    std::fs::remove_dir_all(&world).unwrap();
}

#[test]
fn all_installers_list_their_packages() {
    let world = std::env::temp_dir().join(format!("cudnn frameworks records {}", std::process::id()));
    let status = "Package: a\nStatus: install ok installed\nVersion: 1:2.0-1\n\nPackage: b\nStatus: deinstall ok \
                  config-files\nVersion: 1\n\nPackage: c\nStatus: hold ok installed\nVersion: 3\n";
    for (file, text) in [
        ("site/Nvidia_cuDNN.cu12-9.19.0.56.dist-info/RECORD", ""),
        ("site/torch-2.9.1+cu128.dist-info/RECORD", ""),
        (
            "site/six.dist-info/RECORD",
            "six.py,sha256=x,1\r\nsix\\a.py,,\n\"six/b,c.py\",,\n../bin/six,,1\n,,\n/etc/six,,\n",
        ),
        ("site/~orch-2.9.0.dist-info/RECORD", ""),
        ("site/torch-2.8.0.dist-info.aside-1/RECORD", ""),
        ("site/setuptools-80.0.egg-info/PKG-INFO", ""),
        ("conda/conda-meta/cuda-version-12.9-h4f385c5_3.json", "{}"),
        ("conda/conda-meta/history", ""),
        ("var/lib/dpkg/status", status),
        ("var/lib/dpkg/info/a.list", "/usr/lib/a\n"),
    ] {
        std::fs::create_dir_all(below(&world, file).parent().unwrap()).unwrap();
        std::fs::write(below(&world, file), text).unwrap();
    }
    let shown = |records: Vec<PackageRecord>| {
        let one = |record: PackageRecord| {
            let file = record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (record.name, record.version.unwrap_or_default(), file)
        };
        records.into_iter().map(one).collect::<Vec<_>>()
    };
    let expected = |records: &[[&str; 3]]| {
        records
            .iter()
            .map(|[name, version, file]| ((*name).into(), (*version).into(), (*file).into()))
            .collect::<Vec<_>>()
    };
    let of_pip = [
        ["nvidia-cudnn-cu12", "9.19.0.56", "Nvidia_cuDNN.cu12-9.19.0.56.dist-info"],
        ["six", "", "six.dist-info"],
        ["torch", "2.9.1+cu128", "torch-2.9.1+cu128.dist-info"],
    ];
    assert_eq!(shown(pip_records(&world.join("site"))), expected(&of_pip));
    let listed = ["six.py", "six/a.py", "six/b,c.py"].map(std::path::PathBuf::from);
    assert_eq!(listed_files(&world.join("site/six.dist-info")), Some(listed.to_vec()));
    assert_eq!(listed_files(&world.join("site/torch.dist-info")), None);
    let of_conda = [["cuda-version", "12.9", "cuda-version-12.9-h4f385c5_3.json"]];
    assert_eq!(shown(conda_packages(&world.join("conda"))), expected(&of_conda));
    // Packages remain in dpkg's list after their removal.
    let of_dpkg = [["a", "1:2.0-1", "a.list"], ["c", "3", ""]];
    assert_eq!(shown(system_packages(&Host::sandbox(&world)).unwrap()), expected(&of_dpkg));
    assert!(pip_records(&world).is_empty() && conda_packages(&world).is_empty());
    assert!(system_packages(&Host::sandbox(world.join("site"))).is_none());
    std::fs::remove_dir_all(&world).unwrap();
}
