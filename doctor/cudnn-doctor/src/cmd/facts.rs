//! `facts`: prints the data behind the other commands, such as releases, drivers, findings and statuses.

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_frameworks::releases::{self, Fact};
use cudnn_probe::release_facts;
use cudnn_rules::check::frameworks::release;
use cudnn_rules::check::machine::capability;
use cudnn_rules::check::{FINDINGS, FindingKind};
use cudnn_rules::cudnn_status;
use serde_json::{Value, json};

use crate::docs;

/// The options of `facts`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Explain only this finding or status of cuDNN: C014, CUDNN_STATUS_BAD_PARAM, 2000.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let Some(code) = &arguments.code else {
        format.report(value, text);
        return Ok(Outcome::Fine);
    };
    if let Some(status) = cudnn_status::find(code) {
        format.report(
            || json!({ "statuses": [status_value(status)] }),
            || {
                if code.parse::<u32>().is_ok_and(|number| number != status.1) {
                    outln!("{code} is a number of cuDNN 8. In cuDNN 9, the status is:");
                }
                outln!("{} ({}): {}", status.0, status.1, status.2);
            },
        );
        return Ok(Outcome::Fine);
    }
    let kind = FINDINGS.iter().find(|kind| kind.code.eq_ignore_ascii_case(code));
    let kind = kind.ok_or_else(|| format!("error: no finding or status has the code {}", code.printable()))?;
    format.report(
        || json!({ "findings": [finding(kind)] }),
        || {
            print(kind);
            docs::page(kind.code).iter().for_each(|page| outln!("read more: {page}"));
        },
    );
    Ok(Outcome::Fine)
}

fn value() -> Value {
    json!({
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
        "frameworks": releases::all().iter().map(|fact| json!({
            "package": fact.package,
            "since": fact.since,
            "cudnn": cudnn(fact),
            "cuda": cuda(fact),
            "evidence": fact.source.evidence,
            "url": fact.source.url,
            "date": fact.source.date,
        })).collect::<Vec<_>>(),
        "findings": FINDINGS.iter().map(finding).collect::<Vec<_>>(),
        "statuses": cudnn_status::all().map(status_value).collect::<Vec<_>>(),
    })
}

fn status_value((name, number, meaning): (&str, u32, &str)) -> Value {
    json!({ "name": name, "number": number, "meaning": meaning })
}

/// Returns a kind of finding as JSON.
pub(super) fn finding(kind: &FindingKind) -> Value {
    json!({
        "code": kind.code,
        "severity": kind.severity.as_str(),
        "title": kind.title(),
        "cause": kind.cause(),
        "read_more": docs::page(kind.code),
    })
}

fn print(kind: &FindingKind) {
    outln!("  {} {:<8} {}\n       {}", kind.code, kind.severity.as_str(), kind.title(), kind.cause());
}

fn cudnn(fact: &Fact) -> Option<String> {
    fact.cudnn.map(|cudnn| cudnn.to_string())
}

fn cuda(fact: &Fact) -> Option<String> {
    fact.cuda.map(|(major, minor)| release(major, minor))
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
    outln!("\nReleases of cuDNN and CUDA that frameworks were built for or accept, where their files do not say:");
    for fact in releases::all() {
        let cudnn = cudnn(fact).map_or("no cuDNN".to_owned(), |cudnn| format!("cuDNN {cudnn}"));
        let cuda = cuda(fact).map_or(String::new(), |cuda| format!(", CUDA {cuda}"));
        let source = fact.source;
        outln!("  {} since {}: {cudnn}{cuda}", fact.package, fact.since);
        outln!("       {}: {}, read on {}", source.evidence, source.url, source.date);
    }
    outln!("\nFindings of `cudnn-doctor check`:");
    FINDINGS.iter().for_each(print);
}
