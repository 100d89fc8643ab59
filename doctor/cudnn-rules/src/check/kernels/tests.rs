use super::*;
use crate::plan::advice_of;

use cudnn_probe::{Architecture, Host};
use std::path::Path;
use support::{ExtensionLibrary, FakeLibrary, TempDir, Version};

const WHEEL: &str = "venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
const TOOLKIT: &str = "usr/local/cuda-12.6/targets/aarch64-linux/lib";
/// The GPU code in the aarch64 wheels of 9.28.0 for CUDA 12.
const SERVER: &[&str] = &["7.5", "8.0", "8.6", "9.0", "10.0", "10.3", "12.0", "12.0+PTX", "12.1"];
const JETSON: &[&str] = &["8.7", "8.7+PTX"];

fn write(file: &Path, contents: impl AsRef<[u8]>) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, contents).unwrap();
}

fn library(dir: &Path, library: Library, targets: &[&str]) {
    let built = ExtensionLibrary::new().with_soname(library.file_name());
    let mut bytes = if targets.is_empty() { built.bytes() } else { built.with_gpu_code(2, targets).bytes() };
    bytes[18..20].copy_from_slice(&Architecture::AARCH64.elf_machine().to_le_bytes());
    write(&dir.join(library.file_name()), bytes);
}

/// Writes a cuDNN with this GPU code. As in real releases, one library only contains a kernel that all GPUs run.
fn install(dir: &Path, targets: &[&str]) {
    library(dir, Library::Graph, &[]);
    library(dir, Library::Ops, targets);
    library(dir, Library::EnginesRuntimeCompiled, targets);
    library(dir, Library::EnginesTensorIr, &["5.0+PTX"]);
}

fn record(root: &Path) {
    let dist_info = root.join("venv/lib/python3.12/site-packages/nvidia_cudnn_cu12-9.28.0.42.dist-info");
    write(&dist_info.join("RECORD"), "nvidia/cudnn/lib/libcudnn_graph.so.9,,\n");
    // pip needs a Python interpreter.
    write(&root.join("venv/bin/python3"), "");
    write(&root.join("venv/lib/python3.12/site-packages/pip/x"), "");
}

fn jetson(root: &Path, chip: &str, l4t: &str) {
    write(&root.join("proc/device-tree/compatible"), format!("nvidia,x\0nvidia,{chip}\0"));
    if !l4t.is_empty() {
        write(&root.join("etc/nv_tegra_release"), format!("# R{}\n", l4t.replacen('.', " (release), REVISION: ", 1)));
    }
}

fn check(root: &Path, dir: &str, gpus: &[u32], library_path: Option<&Path>) -> Vec<Finding> {
    let host = Host::sandbox(root).env("VIRTUAL_ENV", root.join("venv"));
    let host = library_path.map_or(host.clone(), |dir| host.env("LD_LIBRARY_PATH", dir));
    let gpus = gpus.iter().map(|capability| Gpu { name: "A GPU".into(), compute_capability: *capability }).collect();
    let machine = Machine::for_test(gpus, Jetson::detect(&host));
    let report = InstallationReport::read(&root.join(dir), &host).unwrap();
    findings(&report, machine.gpus.iter(), &machine, &Context::from_host(host))
}

#[test]
fn a_build_for_other_gpus_is_found_and_the_help_fits_the_machine() {
    let orin = "has no kernels for the GPU of Jetson Orin (compute capability 8.7)";
    let thor = "has no kernels for the GPU of Jetson Thor (compute capability 11.0)";
    let gpu = "has no kernels for A GPU (compute capability 9.0)";
    let newer = "has no kernels of its own for A GPU, whose compute capability is ";
    // The chip and L4T release of a Jetson, the GPUs that NVML lists, the directory, the GPU code, and expected parts
    // of the finding.
    let of_orin = [
        orin,
        "GPU code in libcudnn_ops.so.9, libcudnn_engines_runtime_compiled.so.9: for 7.5 8.0",
        "it is a server (SBSA) build: pip nvidia-cudnn-cu12 9.28.0.42",
        "Jetson Orin: nvidia,tegra234 (/proc/device-tree/compatible), L4T 36.4.3 (/etc/nv_tegra_release)",
        "use builds for JetPack",
        "apt-get install -y libcudnn9-cuda-12",
        "env /usr/lib/aarch64-linux-gnu",
    ];
    let of_thor = [thor, "install another cuDNN for CUDA 13 in place of", "nvidia-cudnn-cu13"];
    let of_server = [gpu, "it is a Jetson (L4T) build", "a build for servers", "install nvidia-cudnn-cu12"];
    for (chip, l4t, gpus, dir, code, expected) in [
        ("tegra234", "36.4.3", &[][..], WHEEL, SERVER, &of_orin[..]),
        ("tegra234", "39.2.1", &[], WHEEL, SERVER, &[orin, "apt-get install -y libcudnn9-cuda-13"]),
        ("tegra234", "36.4.3", &[87], WHEEL, SERVER, &["(compute capability 8.7)", "libcudnn9-cuda-12"]),
        ("tegra234", "35.4.1", &[], WHEEL, SERVER, &[orin, "JetPack for L4T 35.4.1 has cuDNN 8"]),
        ("tegra234", "", &[], WHEEL, SERVER, &[orin, "use an image for Jetson"]),
        ("tegra234", "36.4.3", &[], WHEEL, JETSON, &[]),
        ("tegra234", "36.4.3", &[], TOOLKIT, JETSON, &[]),
        // Kernels for Ampere GPUs of a different chip.
        ("tegra234", "36.4.3", &[], WHEEL, &["8.0", "8.6"], &[orin]),
        ("tegra234", "36.4.3", &[], WHEEL, &["8.0+PTX"], &[]),
        // An unknown chip, then files without GPU code.
        ("tegra999", "40.1.0", &[], WHEEL, SERVER, &[]),
        ("tegra234", "36.4.3", &[], WHEEL, &[], &[]),
        ("tegra264", "38.2.0", &[], WHEEL, SERVER, &of_thor),
        ("tegra264", "38.2.0", &[], WHEEL, &["9.0", "11.0"], &[]),
        ("tegra264", "38.2.0", &[], WHEEL, &["9.0", "10.1"], &[]),
        // A server.
        ("", "", &[90], WHEEL, SERVER, &[]),
        ("", "", &[90], TOOLKIT, &["8.7", "12.0+PTX"], &of_server),
        ("", "", &[90], TOOLKIT, JETSON, &[newer, "it runs code for 5.0+PTX 8.7+PTX"]),
        // GPUs that are newer than the release, and GPUs that always run kernels for others.
        ("", "", &[107], WHEEL, SERVER, &[newer, "it runs code for 5.0+PTX 10.0 10.3", "install a newer release"]),
        ("", "", &[89, 103, 121], WHEEL, SERVER, &[]),
        ("", "", &[90], WHEEL, &["10.0", "12.0+PTX"], &[gpu, "in NVIDIA's support matrix"]),
        ("", "", &[90, 90, 120], WHEEL, &["10.0", "12.0+PTX"], &[gpu, gpu]),
        ("", "", &[], WHEEL, SERVER, &[]),
    ] {
        let root = TempDir::new();
        let root = root.path();
        install(&root.join(dir), code);
        record(root);
        if !chip.is_empty() {
            jetson(root, chip, l4t);
        }
        let found = check(root, dir, gpus, None);
        let advice: Vec<_> = found.iter().filter_map(|finding| finding.remedy.as_ref().map(advice_of)).collect();
        let text = format!("{found:#?}{advice:#?}");
        assert_eq!(found.is_empty(), expected.is_empty(), "{chip} {l4t} {gpus:?} {code:?}: {text}");
        for part in expected {
            assert!(text.contains(part), "{chip} {l4t} {gpus:?} {code:?}: {part}: {text}");
        }
        let count = expected.iter().filter(|part| **part == gpu).count();
        assert!(count == 0 || found.len() == count, "{text}");
    }
}

#[test]
fn an_installation_with_kernels_is_used_before_another_one_is_installed() {
    let (root, other) = (TempDir::new(), TempDir::new());
    install(&root.path().join(WHEEL), SERVER);
    record(root.path());
    jetson(root.path(), "tegra234", "36.4.3");
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&other.file(Library::Graph));
    let ops = |targets: &[&str]| {
        let ops = ExtensionLibrary::new().with_soname(Library::Ops.file_name()).with_gpu_code(2, targets);
        ops.build(&other.file(Library::Ops));
    };
    for (targets, expected) in [(JETSON, "have programs use the cuDNN in "), (SERVER, "install the cuDNN of JetPack")] {
        ops(targets);
        let found = check(root.path(), WHEEL, &[], Some(other.path()));
        let help = found.first().and_then(|finding| finding.remedy.clone()).unwrap();
        assert!(help.text.contains(expected), "{help:?}");
    }
}
