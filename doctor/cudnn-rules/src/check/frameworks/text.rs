//! Formats frameworks, their files, and the sources of facts for messages.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::releases::{Citation, EvidenceKind};
use cudnn_frameworks::{Framework, OpenedFile, SearchRule, ValueSource};
use cudnn_probe::dll_search;
use cudnn_probe::ld_so::Rule;

use crate::dependencies::with_canonical_dir;

pub(crate) fn title(framework: &Framework) -> String {
    format!("{} {}", framework.kind.name, framework.version)
}

/// Returns a reminder if reinstalling the wheel would overwrite the drop-in.
pub(super) fn drop_in_note(framework: &Framework) -> Option<&'static str> {
    let opened = &framework.opens.cudnn;
    let is_in_wheel = || {
        let dir = |index: usize| cudnn_probe::canonicalize(opened.get(index)?.path.parent()?).ok();
        dir(0) == dir(1)
    };
    (framework.opens.has_drop_in && is_in_wheel())
        .then_some("the wheel contains NVIDIA's shim: install the drop-in again afterwards")
}

/// Describes how the framework finds a file.
pub fn how(opened: &OpenedFile) -> String {
    match &opened.by {
        SearchRule::Python => "opened by its Python code".into(),
        SearchRule::Variable(name) => format!("opened by its Python code, from {name}"),
        SearchRule::LdSo(rule) => rule.to_string(),
        SearchRule::Windows(rule) => rule.to_string(),
        SearchRule::DropIn => "selected by the drop-in".into(),
        _ => String::new(),
    }
}

/// Describes in a word or two how the framework finds a file.
pub fn how_in_short(opened: &OpenedFile) -> &'static str {
    match &opened.by {
        SearchRule::Python => "its Python code",
        SearchRule::Variable(name) => name,
        SearchRule::DropIn => "the drop-in",
        SearchRule::LdSo(Rule::Rpath(_)) => "RPATH",
        SearchRule::LdSo(Rule::Runpath(_)) => "RUNPATH",
        SearchRule::LdSo(Rule::LibraryPath) => "LD_LIBRARY_PATH",
        SearchRule::LdSo(Rule::Cache) => "ld.so.cache",
        SearchRule::LdSo(Rule::Preload) => "LD_PRELOAD",
        SearchRule::LdSo(Rule::Loaded) => "already loaded",
        SearchRule::Windows(rule) => match rule {
            dll_search::Rule::PathVariable => "PATH",
            dll_search::Rule::Loaded => "already loaded",
            dll_search::Rule::DllDir => "beside it",
            dll_search::Rule::ApplicationDir => "beside Python",
            dll_search::Rule::WorkingDir => "working directory",
            dll_search::Rule::AddedDir => "its Python code",
            _ => "directory of Windows",
        },
        _ => "default directory",
    }
}

pub(super) fn found(opened: &OpenedFile) -> String {
    format!("{}: {}", with_canonical_dir(&opened.path).printable(), how(opened))
}

pub(super) fn first_of(texts: &[String]) -> Option<String> {
    let (first, others) = texts.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first}, and {} more", others.len()) })
}

/// Describes where a fact comes from.
pub fn source(source: &ValueSource) -> String {
    match source {
        ValueSource::File(file) => file.printable(),
        ValueSource::Requirement(requirement) => format!("it requires {requirement}"),
        ValueSource::Fact { citation: Citation { evidence, url, date, .. }, is_older_than_package } => {
            let what = match evidence {
                EvidenceKind::Metadata => "metadata of its releases, ",
                EvidenceKind::Wheel => "wheels of its releases, ",
                _ => "",
            };
            let doubt = if *is_older_than_package { "; this release is newer than that" } else { "" };
            format!("{what}{url}, read on {date}{doubt}")
        }
        _ => String::new(),
    }
}

/// Formats a CUDA release: `12.8`, or `12` without a minor.
pub fn release(major: u32, minor: Option<u32>) -> String {
    minor.map_or(major.to_string(), |minor| format!("{major}.{minor}"))
}
