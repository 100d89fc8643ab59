use super::*;
use crate::plan::advice_of;

impl Machine {
    #[cfg(all(test, unix))]
    pub(crate) fn for_test(mut gpus: Vec<Gpu>, jetson: Option<Jetson>) -> Machine {
        if gpus.is_empty() {
            gpus.extend(jetson.as_ref().and_then(Gpu::from_jetson));
        }
        let library = DriverLibrary::Missing;
        Machine { driver: None, driver_text: None, gpus, jetson, library, cuda: None, nvml_error: None }
    }
}

#[test]
fn the_advice_about_the_driver_fits_the_machine() {
    let root = std::env::temp_dir().join(format!("cudnn-doctor-driver-{}", std::process::id()));
    for (files, expected) in [
        (&[][..], "install NVIDIA's driver; in a container"),
        (&[".dockerenv"], "nvidia-container-toolkit"),
        (&["run/.containerenv"], "podman run --device nvidia.com/gpu=all"),
        (&["dev/dxg"], "install no driver for Linux in WSL"),
        (&["dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"], "/usr/lib/wsl/lib"),
        (&["usr/local/nvidia/lib64/libcuda.so.1"], "/usr/local/nvidia/lib64"),
        (&["usr/local/cuda/compat/libcuda.so.1", ".dockerenv"], "--gpus all"),
        (&["usr/local/cuda/compat/libcuda.so.1", "dev/nvidiactl"], "/usr/local/cuda/compat"),
        (&["dev/nvidiactl", "dev/nvidia3", ".dockerenv"], "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
        (&["dev/nvidiactl", ".dockerenv"], "--gpus all"),
        (&["proc/driver/nvidia/version"], "libnvidia-compute"),
        (&["etc/nv_tegra_release"], "nvidia-l4t-cuda"),
        (&["etc/nv_tegra_release", ".dockerenv"], "--runtime nvidia"),
        (&["usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1"], "/usr/lib/aarch64-linux-gnu/tegra"),
        (&["usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1"], "/usr/lib/aarch64-linux-gnu/nvidia"),
    ] {
        for file in files {
            let file = root.join(file);
            let _ = std::fs::create_dir_all(file.parent().unwrap_or(&root));
            let text = if file.ends_with("nv_tegra_release") { "# R36 (release), REVISION: 4.3\n" } else { "" };
            let _ = std::fs::write(file, text);
        }
        let is_jetson = Jetson::detect(&Host::sandbox(&root)).is_some();
        let help = advice_of(&driver_help(&root, is_jetson));
        let _ = std::fs::remove_dir_all(&root);
        assert!(help.text.contains(expected), "{files:?}: {help:?}");
        let is_command = expected.starts_with("/usr");
        assert_eq!(help.commands.iter().any(|line| line.contains(expected)), is_command, "{files:?}: {help:?}");
    }
}
