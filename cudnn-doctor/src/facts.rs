//! `facts`: what is known of releases and machines, and the kinds of findings; the data that the other commands go by.

use cudnn_probe::support;
use serde_json::json;

use crate::check::{KINDS, Kind};
use crate::output::{Format, Outcome, document, say};

pub(crate) fn run(format: Format) -> Outcome {
    let tenths = |processor: u32| format!("{}.{}", processor / 10, processor % 10);
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "drivers": support::DRIVERS.map(|(cuda, driver)| json!({ "cuda_major": cuda, "oldest_driver": driver })),
            "compute_capability": support::PROCESSORS
                .map(|(since, oldest)| json!({ "since": since.to_string(), "oldest": tenths(oldest) })),
            "later_libraries": support::LATER_LIBRARIES
                .map(|(library, since)| json!({ "library": library.file_name(), "since": since.to_string() })),
            "known_faults": support::KNOWN_FAULTS.map(|fault| json!({
                "from": fault.from.to_string(),
                "until": fault.until.to_string(),
                "what": fault.what,
            })),
            "findings": KINDS.iter().map(|kind| json!({
                "code": kind.code,
                "severity": kind.severity.word(),
                "title": kind.title,
                "cause": kind.cause,
            })).collect::<Vec<_>>(),
        })),
        Format::Text => {
            say!("Oldest Linux driver, by CUDA major (NVIDIA's table of CUDA compatibility):");
            for (cuda, driver) in support::DRIVERS {
                say!("  CUDA {cuda}: {driver}");
            }
            say!("\nOldest GPU, by cuDNN release (NVIDIA's support matrix):");
            for (since, oldest) in support::PROCESSORS {
                say!("  from {since} on: compute capability {}", tenths(oldest));
            }
            say!("\nLibraries that came later (the wheels of every minor release):");
            for (library, since) in support::LATER_LIBRARIES {
                say!("  {library}: from {since} on");
            }
            say!("\nKnown faults (NVIDIA's release notes):");
            for fault in support::KNOWN_FAULTS {
                say!("  from {} up to, and not with, {}: {}", fault.from, fault.until, fault.what);
            }
            say!("\nWhat `check` may find:");
            for Kind { code, severity, title, cause } in KINDS {
                say!("  {code} {:<8} {title}\n       {cause}", severity.word());
            }
        }
    }
    Outcome::Fine
}
