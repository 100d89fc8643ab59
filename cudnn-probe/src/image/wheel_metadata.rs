//! Reads the CUDA version from the metadata of a wheel.

use crate::facts;
use std::path::Path;

/// Returns the CUDA major version from the metadata directory of a wheel (`nvidia_cudnn_cu13-9.28.0.42.dist-info`), if
/// the file is part of an installed wheel.
pub(super) fn cuda_major(path: &Path) -> Option<u32> {
    // Examples: site-packages/nvidia/cudnn/lib/libcudnn_graph.so.9 and
    // site-packages/nvidia/cudnn/bin/x86_64/cudnn_graph64_9.dll
    let product =
        path.ancestors().skip(2).take(2).find(|dir| dir.parent().is_some_and(|above| above.ends_with("nvidia")))?;
    let site_packages = product.parent()?.parent()?;
    // The JIT-only wheel has a different directory and separate metadata.
    let package = match product.file_name()?.to_str()? {
        "cudnn_jit" => "nvidia_cudnn_jit_cu",
        _ => "nvidia_cudnn_cu",
    };
    let majors: Vec<u32> = facts::read_dir(site_packages)
        .ok()?
        .into_iter()
        .filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?.strip_prefix(package)?.strip_suffix(".dist-info")?;
            name.split('-').next()?.parse().ok()
        })
        .collect();
    // Two directories mean that one wheel was installed over another, and neither is reliable.
    match majors.as_slice() {
        [major] => Some(*major),
        _ => None,
    }
}
