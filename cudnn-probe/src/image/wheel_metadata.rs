//! The metadata of the wheel that a file came with.

use std::path::Path;

/// The CUDA major version in the name of the wheel's metadata directory (`nvidia_cudnn_cu13-9.28.0.42.dist-info`), if
/// the file is where a wheel installs it.
pub(super) fn cuda_major(path: &Path) -> Option<u32> {
    // site-packages/nvidia/cudnn/lib/libcudnn_graph.so.9
    let site_packages = path.ancestors().nth(4)?;
    if path.ancestors().nth(3)?.file_name()? != "nvidia" {
        return None;
    }
    // The JIT-only wheel installs elsewhere, and has its own metadata.
    let package = match path.ancestors().nth(2)?.file_name()?.to_str()? {
        "cudnn_jit" => "nvidia_cudnn_jit_cu",
        _ => "nvidia_cudnn_cu",
    };
    let majors: Vec<u32> = std::fs::read_dir(site_packages)
        .ok()?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let name = name.to_str()?.strip_prefix(package)?.strip_suffix(".dist-info")?;
            name.split('-').next()?.parse().ok()
        })
        .collect();
    // If one wheel was installed over another, there are two directories, and neither can be trusted.
    match majors.as_slice() {
        [major] => Some(*major),
        _ => None,
    }
}
