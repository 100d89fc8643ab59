//! The umbrella headers, carried in this crate so that it works from anywhere. Their text is `headers/`'s.

use std::path::Path;

const HEADERS: [(&str, &str); 8] = [
    ("cuda.h", include_str!("../headers/cuda.h")),
    ("graph.h", include_str!("../headers/graph.h")),
    ("ops.h", include_str!("../headers/ops.h")),
    ("cnn.h", include_str!("../headers/cnn.h")),
    ("adv.h", include_str!("../headers/adv.h")),
    ("ext.h", include_str!("../headers/ext.h")),
    ("cuda/cuda_runtime_api.h", include_str!("../headers/cuda/cuda_runtime_api.h")),
    ("cuda/library_types.h", include_str!("../headers/cuda/library_types.h")),
];

/// Writes them all below `folder`.
pub(crate) fn write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("cuda"))?;
    for (name, text) in HEADERS {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
