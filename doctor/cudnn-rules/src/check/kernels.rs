//! Checks whether the installation contains kernels for the GPUs of this machine (C041), based on the GPU code in the
//! files.
//!
//! The minimum compute capability of a release is checked in `installation`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::Jetson;
use cudnn_frameworks::installation::{ArmVariant, InstallationReport, Installer};
use cudnn_probe::release_facts::TegraChip;
use cudnn_probe::{Candidate, GpuCode, Library, Origin, Requirements, check_dir};

use super::finding::{Finding, NO_KERNELS};
use super::machine::{Gpu, Machine};
use super::remedies::{self, Wanted};
use crate::context::Context;
use crate::remedy::Remedy;

/// The GPU code in the libraries. Libraries without GPU code are left out.
type Code = [(Library, BTreeSet<GpuCode>)];

/// Returns C041 for every GPU that the installation has no kernels for.
pub(super) fn findings<'a>(
    report: &InstallationReport,
    gpus: impl Iterator<Item = &'a Gpu>,
    machine: &Machine,
    context: &Context,
) -> Vec<Finding> {
    let mut gpus = gpus.peekable();
    let code = if gpus.peek().is_some() { report.gpu_code() } else { Vec::new() };
    gpus.filter_map(|gpu| finding(report, &code, gpu, machine, context)).collect()
}

/// Returns the libraries with GPU code that this GPU cannot run. A single PTX kernel in one library is not enough to
/// run cuDNN.
fn lacking<'a>(code: &'a Code, gpu: &Gpu) -> Vec<&'a (Library, BTreeSet<GpuCode>)> {
    let runs = |code: &BTreeSet<GpuCode>| code.iter().any(|code| code.runs_on(gpu.compute_capability));
    code.iter().filter(|(_, code)| !runs(code)).collect()
}

fn finding(
    report: &InstallationReport,
    code: &Code,
    gpu: &Gpu,
    machine: &Machine,
    context: &Context,
) -> Option<Finding> {
    let lacking = lacking(code, gpu);
    let targets: BTreeSet<GpuCode> = lacking.iter().flat_map(|(_, code)| code.iter().copied()).collect();
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let libraries: Vec<&str> = lacking.iter().map(|(library, _)| library.name_on(report.os)).collect();
    if libraries.is_empty() {
        return None;
    }
    let version = report.version.map_or(String::new(), |version| format!(" {version}"));
    let (dir, name, capability) = (report.dir.printable(), gpu.name.printable(), gpu.capability());
    let message = format!("cuDNN{version} in {dir} has no kernels for {name} (compute capability {capability})");
    let build = report.arm_variant.map(|variant| {
        let value = format!("{variant} build");
        let evidence = report.evidence.iter().find(|evidence| evidence.value == value);
        format!("it is a {value}: {}", evidence.map_or("", |evidence| evidence.source.as_str()))
    });
    let chip = TegraChip::with_compute_capability(gpu.compute_capability);
    let is_wheel = report.package.as_ref().is_some_and(|package| package.installer == Installer::Pip);
    let for_servers = chip.filter(|chip| is_wheel && chip.server_builds_since.is_none());
    Some(
        Finding::new(NO_KERNELS, message)
            .note(format!("GPU code in {}: for {}", libraries.join(", "), targets.join(" ")))
            .notes(build)
            .notes(machine.jetson.as_ref().map(|jetson| format!("this machine is a {}", description(jetson))))
            .notes(
                for_servers.map(|_| "frameworks from the package index are for servers, too: use builds for JetPack"),
            )
            .remedy(help(report, gpu, chip, machine.jetson.as_ref(), context)),
    )
}

/// `Jetson Orin: nvidia,tegra234 (/proc/device-tree/compatible), L4T 36.4.3 (/etc/nv_tegra_release)`.
pub fn description(jetson: &Jetson) -> String {
    let evidence = jetson.evidence.iter().map(|evidence| format!("{} ({})", evidence.value, evidence.source));
    format!("{}: {}", jetson.name(), evidence.collect::<Vec<_>>().join(", "))
}

fn help(
    report: &InstallationReport,
    gpu: &Gpu,
    chip: Option<&TegraChip>,
    jetson: Option<&Jetson>,
    context: &Context,
) -> Remedy {
    if let Some(dir) = other_with_kernels(report, gpu, context) {
        return remedies::use_other(&dir);
    }
    let Some(chip) = chip else {
        return if report.arm_variant == Some(ArmVariant::L4t) {
            remedies::server_build(report, context)
        } else {
            Remedy::new(
                "install a release of cuDNN, or one for another CUDA major, that lists this compute capability in \
                 NVIDIA's support matrix",
            )
        };
    };
    // Builds for servers have kernels for it.
    if let Some(since) = chip.server_builds_since.filter(|since| report.cuda_major.is_some_and(|cuda| cuda < *since)) {
        let wanted = Wanted { cuda_major: Some(since), ..Wanted::default() };
        return remedies::upgrade_to_requirement(report, &wanted, &[], context).unwrap_or_else(Remedy::new);
    }
    match jetson.and_then(|jetson| Some((jetson.l4t?, jetson.jetpack_cuda()))) {
        Some((_, Some(cuda_major))) => remedies::install_jetpack(cuda_major, chip.product),
        Some((l4t, None)) => Remedy::new(format!(
            "JetPack for L4T {l4t} has cuDNN 8: install JetPack 6 or newer, if there is one for this machine, or use a \
             program that is built for cuDNN 8"
        )),
        None => Remedy::new(
            "install NVIDIA's packages for JetPack (libcudnn9-cuda-12 with JetPack 6, libcudnn9-cuda-13 with JetPack 7); \
             in a container, use an image for Jetson",
        ),
    }
}

/// Returns a different installation for the same CUDA that has kernels for this GPU.
fn other_with_kernels(report: &InstallationReport, gpu: &Gpu, context: &Context) -> Option<PathBuf> {
    let is_usable = |other: &InstallationReport| {
        let majors = other.cuda_major.zip(report.cuda_major);
        other.dir != report.dir
            && majors.is_none_or(|(other, this)| other == this)
            && check_dir(&Candidate::new(&other.dir, Origin::Explicit), &Requirements::default()).is_ok()
    };
    let has_kernels = |other: &InstallationReport| {
        let code = other.gpu_code();
        !code.is_empty() && lacking(&code, gpu).is_empty()
    };
    let others = context.inventory().into_iter().map(|installed| installed.report);
    { others }.find(|other| is_usable(other) && has_kernels(other)).map(|other| other.dir)
}

#[cfg(all(test, unix))]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
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

    /// Writes an aarch64 library with this GPU code.
    fn library(dir: &Path, library: Library, targets: &[&str]) {
        let built = ExtensionLibrary::new().with_soname(library.file_name());
        let mut bytes = if targets.is_empty() { built.bytes() } else { built.with_gpu_code(2, targets).bytes() };
        bytes[18..20].copy_from_slice(&Architecture::AARCH64.elf_machine().to_le_bytes());
        write(&dir.join(library.file_name()), bytes);
    }

    /// Writes a cuDNN with this GPU code. One library only has a kernel that all GPUs run, as in real releases.
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
            write(
                &root.join("etc/nv_tegra_release"),
                format!("# R{}\n", l4t.replacen('.', " (release), REVISION: ", 1)),
            );
        }
    }

    fn check(root: &Path, dir: &str, gpus: &[u32], library_path: Option<&Path>) -> Vec<Finding> {
        let host = Host::sandbox(root).env("VIRTUAL_ENV", root.join("venv"));
        let host = library_path.map_or(host.clone(), |dir| host.env("LD_LIBRARY_PATH", dir));
        let gpus =
            gpus.iter().map(|capability| Gpu { name: "A GPU".into(), compute_capability: *capability }).collect();
        let machine = Machine::for_test(gpus, Jetson::detect(&host));
        let report = InstallationReport::read(&root.join(dir), &host).unwrap();
        findings(&report, machine.gpus.iter(), &machine, &Context::of_host(host))
    }

    #[test]
    fn a_build_for_other_gpus_is_found_and_the_help_fits_the_machine() {
        let orin = "has no kernels for the GPU of Jetson Orin (compute capability 8.7)";
        let thor = "has no kernels for the GPU of Jetson Thor (compute capability 11.0)";
        let gpu = "has no kernels for A GPU (compute capability 9.0)";
        // Each case: the chip and L4T release of a Jetson, the GPUs that NVML lists, the directory, the GPU code, and
        // expected parts of the finding.
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
            // Kernels for Ampere GPUs of another chip.
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
            ("", "", &[90], TOOLKIT, JETSON, &[]),
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
        for (targets, expected) in [(JETSON, "put that installation first"), (SERVER, "install the cuDNN of JetPack")] {
            ops(targets);
            let found = check(root.path(), WHEEL, &[], Some(other.path()));
            let help = found.first().and_then(|finding| finding.remedy.clone()).unwrap();
            assert!(help.text.contains(expected), "{help:?}");
        }
    }
}
