//! `facts`: what is known of releases and machines, and the kinds of findings; the data that the other commands go by.

use cudnn_probe::release_facts;
use serde_json::json;

use crate::check::{FINDINGS, FindingKind};
use crate::output::{Format, Outcome, document, outln};

pub(crate) fn run(format: Format) -> Outcome {
    let tenths = |processor: u32| format!("{}.{}", processor / 10, processor % 10);
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "drivers": release_facts::MIN_DRIVER.map(|(cuda, driver)| json!({ "cuda_major": cuda, "oldest_driver": driver })),
            "compute_capability": release_facts::MIN_COMPUTE_CAPABILITY
                .map(|(since, oldest)| json!({ "since": since.to_string(), "oldest": tenths(oldest) })),
            "later_libraries": release_facts::LIBRARY_SINCE
                .map(|(library, since)| json!({ "library": library.file_name(), "since": since.to_string() })),
            "known_faults": release_facts::KNOWN_ISSUES.map(|fault| json!({
                "from": fault.from.to_string(),
                "until": fault.fixed_in.to_string(),
                "what": fault.what,
            })),
            "findings": FINDINGS.iter().map(|kind| json!({
                "code": kind.code,
                "severity": kind.severity.word(),
                "title": kind.title,
                "cause": kind.cause,
            })).collect::<Vec<_>>(),
        })),
        Format::Text => {
            outln!("Oldest Linux driver, by CUDA major (NVIDIA's table of CUDA compatibility):");
            for (cuda, driver) in release_facts::MIN_DRIVER {
                outln!("  CUDA {cuda}: {driver}");
            }
            outln!("\nOldest GPU, by cuDNN release (NVIDIA's support matrix):");
            for (since, oldest) in release_facts::MIN_COMPUTE_CAPABILITY {
                outln!("  from {since} on: compute capability {}", tenths(oldest));
            }
            outln!("\nLibraries that came later (the wheels of every minor release):");
            for (library, since) in release_facts::LIBRARY_SINCE {
                outln!("  {library}: from {since} on");
            }
            outln!("\nKnown faults (NVIDIA's release notes):");
            for fault in release_facts::KNOWN_ISSUES {
                outln!("  from {} up to, and not with, {}: {}", fault.from, fault.fixed_in, fault.what);
            }
            outln!("\nWhat `check` may find:");
            for FindingKind { code, severity, title, cause } in FINDINGS {
                outln!("  {code} {:<8} {title}\n       {cause}", severity.word());
            }
        }
    }
    Outcome::Fine
}
