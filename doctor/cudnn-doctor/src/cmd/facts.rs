//! `facts`: prints the data behind the other commands, such as releases, drivers, findings and statuses.

use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, count, outln};
use cudnn_frameworks::releases::{self, Fact};
use cudnn_probe::release_facts;
use cudnn_rules::check::frameworks::release;
use cudnn_rules::check::machine::capability;
use cudnn_rules::check::{FINDINGS, FindingKind};
use cudnn_rules::cudnn_status;
use cudnn_rules::release_facts::{InUse, KnownIssue, ReleaseRange, in_use};
use serde_json::{Value, json};

use super::facts_update;
use crate::docs;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Explain only this finding or status of cuDNN: C014, CUDNN_STATUS_BAD_PARAM, 2000.
    #[arg(value_name = "CODE")]
    code: Option<String>,

    /// Store newer facts about releases, which later commands of this user use. FILE.sha256 next to the file must contain
    /// its SHA-256, unless --sha256 does.
    #[arg(long, value_name = "FILE", conflicts_with = "code")]
    update: Option<PathBuf>,

    /// The SHA-256 of the file in hexadecimal digits, from its publisher.
    #[arg(long, value_name = "DIGITS", requires = "update")]
    sha256: Option<String>,

    /// Remove the stored facts, so that those of this build are used again.
    #[arg(long, conflicts_with_all = ["code", "update"])]
    reset: bool,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    if let Some(file) = &arguments.update {
        let stored = facts_update::update(file, arguments.sha256.as_deref())?;
        let text = || outln!("Stored {} in {}.", described(&stored), place(&stored));
        format.report(|| json!({ "release_facts": release_facts_value(&stored) }), text);
        return Ok(Outcome::Fine);
    }
    if arguments.reset {
        let removed = facts_update::reset()?;
        let what = removed.map_or("No facts were stored".to_owned(), |file| format!("Removed {}", file.printable()));
        let now = in_use();
        let text = || outln!("{what}. Now in use: {}, {}.", described(&now), place(&now));
        format.report(|| json!({ "release_facts": release_facts_value(&now) }), text);
        return Ok(Outcome::Fine);
    }
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
    let facts = in_use();
    json!({
        "min_driver": release_facts::MIN_DRIVER.iter().map(|(cuda, driver)| json!({ "cuda_major": cuda, "driver": driver })).collect::<Vec<_>>(),
        "min_compute_capability": release_facts::MIN_COMPUTE_CAPABILITY.iter().map(|(since, oldest)| json!({
            "since": since.to_string(),
            "compute_capability": capability(*oldest),
        })).collect::<Vec<_>>(),
        "library_since": release_facts::LIBRARY_SINCE
            .iter().map(|(library, since)| json!({ "library": library.file_name(), "since": since.to_string() })).collect::<Vec<_>>(),
        "release_facts": release_facts_value(&facts),
        "known_issues": facts.facts.known_issues.iter().map(issue_value).collect::<Vec<_>>(),
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

fn release_facts_value(InUse { facts, file, ignored }: &InUse) -> Value {
    json!({
        "version": facts.version,
        "date": facts.date,
        "file": file.as_ref().map(|file| file.to_string_lossy()),
        "ignored": ignored,
    })
}

fn issue_value(issue: &KnownIssue) -> Value {
    let range =
        |range: &ReleaseRange| json!({ "from": range.from, "fixed_in": range.before, "last_observed": range.through });
    let gpus = issue.compute_capability.as_ref();
    json!({
        "name": issue.name,
        "from": issue.releases.first().map(|range| range.from),
        "fixed_in": issue.releases.last().and_then(|range| range.before),
        "releases": issue.releases.iter().map(range).collect::<Vec<_>>(),
        "compute_capability": {
            "from": gpus.map(|range| range.from),
            "before": gpus.and_then(|range| range.before),
        },
        "min_gpus": issue.min_gpus,
        "cublas": issue.cublas,
        "operation": issue.operation,
        "message": issue.effect,
        "condition": issue.condition,
        "source": issue.source,
        "erratum": issue.erratum,
    })
}

fn described(InUse { facts, .. }: &InUse) -> String {
    let count = count(facts.known_issues.len(), "known issue");
    format!("version {} of {} with {count}", facts.version, facts.date)
}

fn place(InUse { file, .. }: &InUse) -> String {
    file.as_ref().map_or("which this build contains".to_owned(), |file| file.printable())
}

fn print_issue(issue: &KnownIssue) {
    let releases: Vec<String> = issue.releases.iter().map(ToString::to_string).collect();
    outln!("  {}: {}", releases.join("; "), issue.effect);
    let gpus = issue.compute_capability.as_ref().map(|range| format!("only with {range}"));
    let count = issue.min_gpus.map(|count| format!("only with {count} or more GPUs"));
    let cublas = issue.cublas.as_ref().map(|releases| format!("only with cuBLAS {releases}"));
    let condition = issue.condition.as_ref().map(|condition| format!("only if {condition}"));
    let rule = issue.erratum.as_ref().map(|rule| format!("`run --errata known` blocks it ({rule})"));
    for detail in [gpus, count, cublas, condition, rule, Some(issue.source.clone())].into_iter().flatten() {
        outln!("       {detail}");
    }
}

fn status_value((name, number, meaning): (&str, u32, &str)) -> Value {
    json!({ "name": name, "number": number, "meaning": meaning })
}

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
    let facts = in_use();
    outln!("\nKnown issues (version {} of {}, {}):", facts.facts.version, facts.facts.date, place(&facts));
    facts.ignored.iter().for_each(|reason| outln!("  the stored facts are not used: {}", reason.printable()));
    facts.facts.known_issues.iter().for_each(print_issue);
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
