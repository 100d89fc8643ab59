#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn paths_and_records_determine_the_kind_of_aarch64() {
    const JETSON: &str = "repo.download.nvidia.com_jetson_common_dists_r36.4_main_binary-arm64_Packages";
    const SERVER: &str = "developer.download.nvidia.com_compute_cuda_repos_ubuntu2204_sbsa_Packages";
    const ON_JETSON: &str = "developer.download.nvidia.com_compute_cuda_repos_ubuntu2204_arm64_Packages";
    const LOCAL: &str = "_var_cudnn-local-tegra-repo-ubuntu2204-9.3.0_Packages";
    let other = "Package: libcudnn9-cuda-13\nVersion: 9.3.0.75-1\n\nPackage: libcudnn9-cuda-12\nVersion: 9.1.0.70-1\n";
    let index = &format!("{other}\nPackage: libcudnn9-cuda-12\nArchitecture: arm64\nVersion: 9.3.0.75-1\n");
    let conda =
        |variant: &str| format!("{{\"depends\": [\"__glibc >=2.34\", \"arm-variant * {variant}\", \"libcublas\"]}}");
    let (tegra, sbsa) = (&conda("tegra"), &conda("sbsa"));
    let lib = "usr/lib/aarch64-linux-gnu";
    let dpkg = Some((Installer::Dpkg, "libcudnn9-cuda-12", "9.3.0.75-1"));
    let conda = Some((Installer::Conda, "libcudnn", "9.10.2.21"));
    let record = "conda-meta/libcudnn-9.10.2.21-hc3efb29_0.json";
    let lists = |file: &str| format!("var/lib/apt/lists/{file}");
    let (l4t, server) = (Some(ArmVariant::L4t), Some(ArmVariant::Sbsa));
    for (number, (dir, package, files, expected)) in [
        ("usr/local/cuda-12.6/targets/aarch64-linux/lib", None, vec![], l4t),
        ("usr/local/cuda-13.0/targets/sbsa-linux/lib", None, vec![], server),
        ("usr/local/cuda-13.0/targets/x86_64-linux/lib", None, vec![], None),
        (lib, None, vec![], None),
        ("x/lib", Some((Installer::Archive, "cudnn-linux-aarch64-9.12.0.46_cuda12-archive", "9")), vec![], l4t),
        ("x/lib", Some((Installer::Archive, "cudnn-linux-sbsa-9.12.0.46_cuda12-archive", "9")), vec![], server),
        ("x/lib", Some((Installer::Archive, "cudnn-linux-x86_64-9.12.0.46_cuda12-archive", "9")), vec![], None),
        ("x/lib", Some((Installer::Pip, "nvidia-cudnn-cu12", "9.28.0.42")), vec![], server),
        ("x/lib", Some((Installer::Pip, "torch", "2.8.0")), vec![], None),
        (lib, dpkg, vec![(lists(JETSON), index)], l4t),
        (lib, dpkg, vec![(lists(ON_JETSON), index), (lists(LOCAL), index)], l4t),
        (lib, dpkg, vec![(lists(SERVER), index)], server),
        // The version is in both repositories, in neither, or the repository does not belong to NVIDIA.
        (lib, dpkg, vec![(lists(SERVER), index), (lists(JETSON), index)], None),
        (lib, dpkg, vec![(lists(JETSON), &other.to_owned())], None),
        (lib, dpkg, vec![(lists("ports.ubuntu.com_dists_jammy_main_binary-arm64_Packages"), index)], None),
        (lib, conda, vec![(record.to_owned(), tegra)], l4t),
        (lib, conda, vec![(record.to_owned(), sbsa)], server),
        (lib, conda, vec![("conda-meta/libcudnn-dev-9.10.2.21-h_0.json".to_owned(), sbsa)], None),
        (lib, conda, vec![(record.to_owned(), &r#"{"depends": ["arm-variant "]}"#.to_owned())], None),
    ]
    .into_iter()
    .enumerate()
    {
        let root = std::env::temp_dir().join(format!("cudnn-frameworks-arm-{}-{number}", std::process::id()));
        let files: Vec<(String, &String)> = files;
        for (file, text) in &files {
            let file: PathBuf = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let package =
            package.map(|(installer, name, version)| Package::new(installer, name, Some(version), root.clone()));
        let found = detect(&root.join(dir), package.as_ref(), &Host::sandbox(&root));
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(found.as_ref().map(|(variant, _)| *variant), expected, "{dir} {package:?} {files:?}");
        let value = found.map(|(_, evidence)| evidence.value);
        assert_eq!(value, expected.map(|variant| format!("{variant} build")));
    }
}
