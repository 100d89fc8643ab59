//! The metadata of the wheel that a file came with.

use crate::facts;
use std::path::Path;

/// The CUDA major version in the name of the wheel's metadata directory (`nvidia_cudnn_cu13-9.28.0.42.dist-info`), if
/// the file is where a wheel installs it.
pub(super) fn cuda_major(path: &Path) -> Option<u32> {
    // site-packages/nvidia/cudnn/lib/libcudnn_graph.so.9, site-packages/nvidia/cudnn/bin/x86_64/cudnn_graph64_9.dll
    let product =
        path.ancestors().skip(2).take(2).find(|dir| dir.parent().is_some_and(|above| above.ends_with("nvidia")))?;
    let site_packages = product.parent()?.parent()?;
    // The JIT-only wheel installs elsewhere, and has its own metadata.
    let package = match product.file_name()?.to_str()? {
        "cudnn_jit" => "nvidia_cudnn_jit_cu",
        _ => "nvidia_cudnn_cu",
    };
    let majors: Vec<u32> = facts::read_dir(site_packages)
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
