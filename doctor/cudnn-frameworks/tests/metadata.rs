//! Tests which packages an environment contains, their versions, and whether their pins are satisfied.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;

use cudnn_frameworks::{Depth, Environment, Framework, Pin, PinState, Survey, survey_to};
use cudnn_probe::Host;
use cudnn_probe::facts::Facts;
use support::{PythonEnvironment, TempDir};

const NAMES: Depth = Depth { kernels: false, unlisted: false, metadata: false };

fn read(environment: &PythonEnvironment) -> Survey {
    let host = Host::sandbox(environment.root().join("none"));
    survey_to(&Environment::at(environment.root(), &host), &host, NAMES)
}

fn torch(survey: &Survey) -> &Framework {
    survey.frameworks.iter().find(|framework| framework.kind.id == "torch").unwrap()
}

fn reasons(survey: &Survey) -> Vec<&str> {
    survey.unreadable.iter().map(|unreadable| unreadable.reason.as_str()).collect()
}

fn shown(pin: &Pin) -> String {
    let extra = pin.extra.as_ref().map(|extra| format!(" [{extra}]")).unwrap_or_default();
    let through = pin.through.as_ref().map(|through| format!(" by {through}")).unwrap_or_default();
    let state = match &pin.state {
        PinState::Met(version) => format!("met by {version}"),
        PinState::OtherVersion(version) => format!("not met by {version}"),
        PinState::Missing => "missing".into(),
        PinState::Unknown(_) => "unknown".into(),
        other => format!("{other:?}"),
    };
    format!("{}{extra}{through}: {state}", pin.package)
}

/// Uses requirements of real releases, in the syntax of their time.
#[test]
fn pins_are_compared_with_the_installed_versions() {
    let installed = [
        ("nvidia-cudnn-cu12", "9.10.2.21"),
        ("nvidia-cublas-cu12", "12.8.4.1"),
        ("nvidia-cublas", "13.1.0.3"),
        ("nvidia-cuda-runtime", "13.0.96"),
        ("cuda-toolkit", "13.2.2"),
        ("triton", "3.5.1+git.1"),
    ];
    let linux = "platform_system == \"Linux\"";
    for (requirement, expected) in [
        (format!("nvidia-cudnn-cu12==9.10.2.21; {linux}"), &["nvidia-cudnn-cu12: met by 9.10.2.21"][..]),
        (format!("nvidia-cudnn-cu12 (==8.9.2.26) ; {linux}"), &["nvidia-cudnn-cu12: not met by 9.10.2.21"]),
        ("NVIDIA_cudnn.cu12 <10.0,>=9.3".into(), &["nvidia-cudnn-cu12: met by 9.10.2.21"]),
        ("nvidia-cudnn-cu12~=9.11".into(), &["nvidia-cudnn-cu12: not met by 9.10.2.21"]),
        (
            "nvidia-cudnn-cu12 ==9.3.0.75 ; extra == 'and-cuda'".into(),
            &["nvidia-cudnn-cu12 [and-cuda]: not met by 9.10.2.21"],
        ),
        (
            "nvidia-cublas-cu12>=12.1; sys_platform == \"linux\" and extra == 'with_cuda'".into(),
            &["nvidia-cublas-cu12 [with-cuda]: met by 12.8.4.1"],
        ),
        ("triton==3.5.1; python_version < \"3.15\"".into(), &["triton: met by 3.5.1+git.1"]),
        ("nvidia-nccl-cu12==2.27.5".into(), &["nvidia-nccl-cu12: missing"]),
        ("nvidia-nccl-cu12==2.27.5; sys_platform == 'win32'".into(), &[]),
        ("nvidia-nccl-cu12==2.27.5; python_version < '3.9'".into(), &[]),
        ("nvidia-nccl-cu12==2.27.5; platform_machine == 's390x' or extra == 'x' and os_name == 'nt'".into(), &[]),
        ("numpy==1.0".into(), &[]),
        ("nvidia-cudnn-cu12 @ https://example.org/x.whl".into(), &["nvidia-cudnn-cu12: unknown"]),
        ("nvidia-cudnn-cu12 ==".into(), &["nvidia-cudnn-cu12: unknown"]),
        ("nvidia-cudnn-cu12==9; nonsense == 'x'".into(), &["nvidia-cudnn-cu12: unknown"]),
        (format!("nvidia-cudnn-cu12==9; {}os_name == 'a'", "(".repeat(3000)), &["nvidia-cudnn-cu12: unknown"]),
        (
            format!(
                "nvidia-cudnn-cu12==9; {}",
                (0..200).map(|n| format!("extra == 'e{n}'")).collect::<Vec<_>>().join(" or ")
            ),
            &["nvidia-cudnn-cu12: unknown"],
        ),
        (
            format!("cuda-toolkit[cublas,cudart]==13.2.2; {linux}"),
            &[
                "cuda-toolkit: met by 13.2.2",
                "nvidia-cublas by cuda-toolkit: not met by 13.1.0.3",
                "nvidia-cuda-runtime by cuda-toolkit: met by 13.0.96",
            ],
        ),
    ] {
        let world = TempDir::new();
        let mut venv = PythonEnvironment::venv(&world.path().join("venv"));
        for (name, version) in installed {
            venv = venv.with_package(name, version);
        }
        venv.package("cuda-toolkit", "13.2.2")
            .requires("nvidia-cublas==13.2.0.9; (platform_system == 'Linux') and extra == 'cublas'")
            .requires("nvidia-cuda-runtime==13.0.*; extra == \"cudart\"")
            .requires("nvidia-cufft==12.0.*; extra == 'cufft'");
        venv.package("torch", "2.9.1").requires(&requirement);
        let survey = read(&venv);
        assert_eq!(torch(&survey).pins.iter().map(shown).collect::<Vec<_>>(), expected, "{requirement:.200}");
        let is_unread = |pin: &&Pin| matches!(pin.state, PinState::Unknown(_)) && !pin.requirement.contains('@');
        let unread = torch(&survey).pins.iter().filter(is_unread).count();
        let reasons = reasons(&survey);
        assert_eq!(reasons.len(), unread, "{requirement:.200}: {reasons:?}");
        assert!(
            reasons.iter().all(|reason| reason.starts_with("has a requirement that was not compared")),
            "{reasons:?}"
        );
    }
}

/// If a package is installed twice, only one installation counts.
#[test]
fn the_installed_version_is_known() {
    let site = "lib/python3.12/site-packages";
    type Make = fn(&PythonEnvironment);
    let cases: [(&str, Make, &str, &[&str]); 8] = [
        (
            "the metadata wins",
            |venv| {
                venv.package("torch", "2.9.1").info("METADATA", "Name: torch\nVersion: 2.9.1+cu128\n\nbody\n");
            },
            "2.9.1+cu128",
            &[],
        ),
        (
            "a name that lies",
            |venv| {
                venv.package("torch", "2.9.1").info("METADATA", "Name: numpy\nVersion: 1.0\n");
            },
            "2.9.1",
            &["contains the metadata of a different package"],
        ),
        (
            "a version that lies",
            |venv| {
                venv.package("torch", "2.9.1").info("METADATA", "Name: torch\nVersion: \u{1b}[31m2\n");
            },
            "2.9.1",
            &["has metadata with an invalid version"],
        ),
        (
            "two versions",
            |venv| {
                venv.package("torch", "2.10.0");
                venv.package("torch", "2.9.1");
            },
            "2.10.0",
            &["has 2 versions: "],
        ),
        (
            "what an interrupted update leaves",
            |venv| {
                venv.package("torch", "2.9.1");
                std::fs::create_dir(venv.import_dir().join("torch-2.10.0.dist-info")).unwrap();
                std::fs::create_dir(venv.import_dir().join("~orch-2.10.0.dist-info")).unwrap();
            },
            "2.9.1",
            &["is left over from an interrupted pip", "has 2 versions: "],
        ),
        (
            "two directories",
            |venv| {
                venv.into_dir("lib64/python3.12/site-packages").package("torch", "2.8.0");
                venv.package("torch", "2.9.1");
            },
            "2.8.0",
            &[],
        ),
        (
            "a file in place of a directory",
            |venv| {
                std::fs::write(venv.import_dir().join("torch-2.9.1-py3.12.egg-info"), "Name: torch\nVersion: 2.9.1\n")
                    .unwrap();
                std::fs::write(venv.import_dir().join("nvidia_x-1.0-py3.12.egg"), "PK").unwrap();
            },
            "2.9.1",
            &["is a zipped egg"],
        ),
        (
            "the user's own files, which must not be removed",
            |venv| {
                venv.package("torch", "2.9.1");
                let shared = venv.import_dir().join("nvidia/cudnn");
                std::fs::create_dir_all(&shared).unwrap();
                for file in [venv.import_dir().join("~notes"), shared.join("~notes")] {
                    std::fs::write(file, "").unwrap();
                }
                std::fs::write(venv.import_dir().join("~x-1.0.egg-info"), "").unwrap();
            },
            "2.9.1",
            &["has an invalid name"],
        ),
    ];
    for (name, make, version, expected) in cases {
        let world = TempDir::new();
        let venv = PythonEnvironment::venv(&world.path().join("venv")).into_dir(site);
        make(&venv);
        let survey = read(&venv);
        assert_eq!(torch(&survey).version, version, "{name}");
        assert_eq!(survey.frameworks.len(), 1, "{name}");
        let reasons = reasons(&survey);
        let is_expected = reasons.len() == expected.len()
            && expected.iter().all(|start| reasons.iter().any(|reason| reason.starts_with(start)));
        assert!(is_expected, "{name}: {reasons:?}");
    }
}

#[test]
fn the_only_copy_of_a_directory_is_not_confused_with_another_leftover() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    // pip has replaced one and two characters. Only the first directory exists with its old name.
    for dir in ["cublas", "~ublas", "~5ublas"] {
        std::fs::create_dir_all(venv.import_dir().join("nvidia").join(dir).join("lib")).unwrap();
    }
    let survey = Facts::recorder().within(|| read(&venv));
    let found = survey.unreadable.iter().map(|one| (one.path.file_name().unwrap(), one.reason.ends_with("remove it")));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), [("~5ublas".as_ref(), false), ("~ublas".as_ref(), true)].into());
}

#[test]
fn editable_installations_lead_to_their_source() {
    type Make = fn(&PythonEnvironment, &Path);
    let cases: [(&str, Make); 3] = [
        ("by a path file", |venv, source| {
            venv.package("torch", "2.9.1").editable(source);
        }),
        ("by a finder", |venv, source| {
            let package = venv.package("torch", "2.9.1+git1");
            let package =
                package.info("direct_url.json", r#"{"url": "file:///none", "dir_info": { "editable" : true }}"#);
            let table = format!("MAPPING: dict[str, str] = {{'torch': '{}'}}\n", source.join("torch").display());
            package.file("__editable___torch_2_9_1_git1_finder.py", &table);
        }),
        ("by setup.py develop", |venv, source| {
            let info = source.join("torch.egg-info");
            std::fs::create_dir(&info).unwrap();
            std::fs::write(info.join("PKG-INFO"), "Name: torch\nVersion: 2.9.1a0\n").unwrap();
            let pth = format!("{}\n", source.display());
            std::fs::write(venv.import_dir().join("easy-install.pth"), pth).unwrap();
        }),
    ];
    for (name, make) in cases {
        let world = TempDir::new();
        let source = world.path().join("source");
        std::fs::create_dir_all(source.join("torch")).unwrap();
        let venv = PythonEnvironment::venv(&world.path().join("venv"));
        make(&venv, &source);
        let survey = read(&venv);
        assert!(torch(&survey).distribution.is_editable, "{name}");
        assert_eq!(torch(&survey).dir.as_deref(), Some(source.join("torch").as_path()), "{name}");
        assert_eq!(reasons(&survey), [""; 0], "{name}");
    }
}

/// Follows conda-forge's recipes, because no record of a GPU package was available.
#[test]
fn conda_records_show_which_versions_a_framework_was_built_for() {
    let depends = ["cudnn >=9.10.1.4,<10.0a0", "cuda-version >=12.6,<13", "__cuda *", "python >=3.12,<3.13.0a0"];
    for (name, record, build, depends, expected) in [
        ("torch", "pytorch", "cuda126_mkl_py312_h1a2b3c4_300", &depends[..], "true 12.6 9.10.1"),
        ("torch", "libtorch", "cuda126_mkl_h1a2b3c4_300", &depends, "true 12.6 9.10.1"),
        ("torch", "pytorch", "py3.12_cuda12.1_cudnn8.9.2_0", &[], "true 12.1 8.9.2"),
        ("torch", "pytorch", "cpu_mkl_py312_h1a2b3c4_100", &[], "false - -"),
        ("tensorflow", "tensorflow-base", "cuda126py312h1a2b3c4_200", &depends, "true 12.6 9.10.1"),
        ("jaxlib", "jaxlib", "cuda129_py312h1a2b3c4_200", &["libcudnn >=9.13.1.26,<10.0a0"], "true 12.9 9.13.1"),
        ("onnxruntime", "onnxruntime", "py312h1a2b3c4_200_cuda", &depends, "true 12.6 9.10.1"),
        ("onnxruntime", "onnxruntime", "py312h1a2b3c4_200_cpu", &[], "false - -"),
        ("cupy", "cupy-core", "py312h1a2b3c4_0", &["cuda-version >=12,<13.0a0"], "true 12.0 -"),
        ("ctranslate2", "ctranslate2", "cuda126py312h1a2b3c4_0", &depends[..1], "true 12.6 9.10.1"),
    ] {
        let world = TempDir::new();
        let conda = PythonEnvironment::conda(world.path());
        let conda = conda.with_package(name, "2.6.0").with_conda_package(record, "2.6.0", build, depends);
        let conda = conda.with_conda_package("cudnn", "9.8.0.87", "h1a2b3c4_0", &[]);
        let survey = read(&conda);
        let framework = &survey.frameworks[0];
        let built = &framework.built_for;
        let cuda = built.cuda.as_ref().map(|cuda| format!("{}.{}", cuda.value.0, cuda.value.1.unwrap_or(0)));
        let found = format!(
            "{} {} {}",
            built.uses_gpu.as_ref().is_some_and(|uses| uses.value),
            cuda.unwrap_or("-".into()),
            built.cudnn.as_ref().map_or("-".into(), |cudnn| cudnn.value.to_string()),
        );
        assert_eq!(found, expected, "{name} {build}: {built:?}");
        let is_pinned = depends.iter().any(|depend| depend.starts_with("cudnn "));
        let pin = framework.pins.iter().find(|pin| pin.package == "cudnn").map(shown);
        assert_eq!(pin.as_deref(), is_pinned.then_some("cudnn: not met by 9.8.0.87"), "{name} {build}");
        let conda = PythonEnvironment::conda(&world.path().join("other")).with_package(name, "2.7.0");
        let conda = conda.with_conda_package(record, "2.6.0", build, depends);
        assert!(read(&conda).frameworks[0].pins.is_empty(), "{name} {build}");
    }
}

#[test]
fn damaged_conda_records_are_skipped() {
    let world = TempDir::new();
    let conda = PythonEnvironment::conda(world.path()).with_package("torch", "2.6.0");
    for (build, text) in [("a", "{"), ("b", "[]"), ("c", r#"{"name": 1}"#), ("d", ""), ("e", &"[".repeat(100_000))] {
        std::fs::write(world.path().join(format!("conda-meta/pytorch-2.6.0-{build}.json")), text).unwrap();
    }
    std::fs::create_dir(world.path().join("conda-meta/cudnn-9.1.0-x.json")).unwrap();
    assert_eq!(torch(&read(&conda)).pins, []);
}

/// PyTorch's packages for all systems have the same requirements.
#[test]
fn requirements_for_another_system_are_no_pins() {
    for (import_dir, expected) in [("Lib/site-packages", &[][..]), ("lib/python3.12/site-packages", &["missing"])] {
        let dir = TempDir::new();
        let environment = PythonEnvironment::at(dir.path(), import_dir);
        if import_dir.starts_with("Lib") {
            std::fs::create_dir(dir.path().join("Scripts")).unwrap();
        }
        let requirement = "nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'";
        environment.package("torch", "2.9.1").requires(requirement);
        let survey = read(&environment);
        let pins: Vec<String> = torch(&survey).pins.iter().map(shown).collect();
        let expected: Vec<String> = expected.iter().map(|state| format!("nvidia-cudnn-cu12: {state}")).collect();
        assert_eq!(pins, expected, "{import_dir}");
    }
}
