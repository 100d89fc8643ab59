//! `facts`: the data behind the other commands: releases, drivers, GPUs, and the kinds of findings.

use cudnn_probe::release_facts;
use serde_json::{Value, json};

use crate::check::machine::capability;
use crate::check::{FINDINGS, FindingKind};
use crate::output::{Format, Outcome, SCHEMA, document, outln};

pub(crate) fn run(format: Format) -> Outcome {
    match format {
        Format::Json => document(&value()),
        Format::Text => text(),
    }
    Outcome::Fine
}

fn value() -> Value {
    json!({
        "schema": SCHEMA,
        "min_driver": release_facts::MIN_DRIVER.iter().map(|(cuda, driver)| json!({ "cuda_major": cuda, "driver": driver })).collect::<Vec<_>>(),
        "min_compute_capability": release_facts::MIN_COMPUTE_CAPABILITY.iter().map(|(since, oldest)| json!({
            "since": since.to_string(),
            "compute_capability": capability(*oldest),
        })).collect::<Vec<_>>(),
        "library_since": release_facts::LIBRARY_SINCE
            .iter().map(|(library, since)| json!({ "library": library.file_name(), "since": since.to_string() })).collect::<Vec<_>>(),
        "known_issues": release_facts::KNOWN_ISSUES.iter().map(|issue| json!({
            "from": issue.from.to_string(),
            "fixed_in": issue.fixed_in.to_string(),
            "message": issue.description,
        })).collect::<Vec<_>>(),
        "findings": FINDINGS.iter().map(|kind| json!({
            "code": kind.code,
            "severity": kind.severity.as_str(),
            "title": kind.title,
            "cause": kind.cause,
        })).collect::<Vec<_>>(),
    })
}

fn text() {
    outln!("Minimum Linux driver for each CUDA major (NVIDIA's CUDA compatibility table):");
    for (cuda, driver) in release_facts::MIN_DRIVER {
        outln!("  CUDA {cuda}: {driver}");
    }
    outln!("\nMinimum compute capability for each cuDNN release (NVIDIA's support matrix):");
    for (since, oldest) in release_facts::MIN_COMPUTE_CAPABILITY {
        outln!("  since {since}: {}", capability(*oldest));
    }
    outln!("\nLibraries that later releases added (from the wheels of every minor release):");
    for (library, since) in release_facts::LIBRARY_SINCE {
        outln!("  {library}: since {since}");
    }
    outln!("\nKnown issues (NVIDIA's release notes):");
    for issue in release_facts::KNOWN_ISSUES {
        outln!("  {} through releases before {}: {}", issue.from, issue.fixed_in, issue.description);
    }
    outln!("\nFindings of `cudnn-doctor check`:");
    for FindingKind { code, severity, title, cause } in FINDINGS {
        outln!("  {code} {:<8} {title}\n       {cause}", severity.as_str());
    }
}
