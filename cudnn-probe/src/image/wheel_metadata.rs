//! What stands beside a file and tells of it: a wheel's record.

use std::path::Path;

/// The CUDA major in the name of the wheel's record that the file came with
/// (`nvidia_cudnn_cu13-9.28.0.42.dist-info`), if it lies where a wheel puts it.
pub(super) fn cuda_major(path: &Path) -> Option<u32> {
    // site-packages/nvidia/cudnn/lib/libcudnn_graph.so.9
    let site_packages = path.ancestors().nth(4)?;
    if path.ancestors().nth(3)?.file_name()? != "nvidia" {
        return None;
    }
    // A JIT wheel's folder has a record of its own.
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
    // With the records of two, as after one wheel was installed over another, neither is believed.
    match majors.as_slice() {
        [major] => Some(*major),
        _ => None,
    }
}
