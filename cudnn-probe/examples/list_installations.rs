//! Lists every directory of the search that contains cuDNN, with version, CUDA release and origin, in search order.
//!
//! `cargo run -p cudnn-probe --example list_installations`. Exits with status 1 if there is no installation.

use std::collections::BTreeSet;
use std::process::ExitCode;

use cudnn_probe::{Host, Library, Requirements, Search, check_dir, shown_path};

fn main() -> ExitCode {
    let search = Search::new(Host::current());
    let mut seen = BTreeSet::new();
    for candidate in search.candidates() {
        // Directories without a usable cuDNN are the topic of the example `why_not_found`.
        let Ok(found) = check_dir(&candidate, &Requirements::new()) else { continue };
        if !seen.insert(found.dir.clone()) {
            continue;
        }
        let cuda = found.cuda_major.or_else(|| found.cuda_major_from_gpu_code());
        let cuda = cuda.map_or("an unknown CUDA".into(), |major| format!("CUDA {major}"));
        let libraries = Library::ALL.iter().filter(|library| found.has(**library)).count();
        println!("cuDNN {} for {cuda} in {} ({})", found.version, shown_path(&found.dir), found.origin);
        println!("  {libraries} libraries");
    }
    if seen.is_empty() {
        eprintln!("no cuDNN 9 found");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
