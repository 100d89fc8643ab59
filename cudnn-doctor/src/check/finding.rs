//! What a check finds: a stable code, how bad it is, what, why, and what to do.

use anstyle::AnsiColor;
use serde_json::{Value, json};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Worth knowing.
    Note,
    /// May go wrong, or will for some programs.
    Warning,
    /// Goes wrong.
    Problem,
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }

    pub(crate) fn colour(self) -> AnsiColor {
        match self {
            Severity::Note => AnsiColor::Cyan,
            Severity::Warning => AnsiColor::Yellow,
            Severity::Problem => AnsiColor::Red,
        }
    }
}

/// A kind of finding: one row of docs/findings.md.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FindingKind {
    /// Never given to another kind.
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// In a few words.
    pub(crate) title: &'static str,
    /// How it comes about.
    pub(crate) cause: &'static str,
}

macro_rules! findings {
    ($($constant:ident = $code:literal $severity:ident $title:literal : $cause:literal;)*) => {
        $( pub(crate) const $constant: FindingKind =
            FindingKind { code: $code, severity: Severity::$severity, title: $title, cause: $cause }; )*
        /// All kinds, by code.
        pub(crate) const FINDINGS: &[FindingKind] = &[$($constant),*];
    };
}

findings! {
    NO_DRIVER = "C001" Warning "the driver's library is not here":
        "libcuda.so.1 comes with NVIDIA's driver, not with cuDNN or CUDA. A container without the GPU runtime, or WSL \
         without its folder on the search path, has none.";
    OLD_DRIVER = "C002" Problem "the driver is too old for this cuDNN's CUDA":
        "Each CUDA major needs a driver of some age.";
    NO_CUDNN = "C010" Problem "no cuDNN 9 is installed":
        "Nothing in any place that is searched. An older cuDNN may be there: another major does not serve.";
    REFUSED = "C011" Warning "an installation is passed over":
        "Its libcudnn_graph.so.9 cannot be used: it is cut, for another processor, unreadable, or no library.";
    INCOMPLETE = "C012" Problem "the set of libraries is incomplete":
        "Some of the files of a release were copied, and not all.";
    BROKEN = "C013" Problem "a library of the installation cannot be used":
        "It is cut, unreadable, for another processor, or no library.";
    MIXED_VERSIONS = "C014" Problem "libraries of two releases are mixed":
        "Two packages wrote into one folder, or an update was interrupted.";
    MIXED_CUDA = "C015" Problem "libraries for two CUDA majors are mixed":
        "The cu12 and cu13 wheels were installed over each other. Nothing in cuDNN notices it.";
    SEVERAL = "C016" Note "several cuDNNs are installed":
        "Which one a program gets depends on how it looks for it.";
    KNOWN_FAULT = "C017" Warning "this release has a known fault":
        "NVIDIA's release notes own to it.";
    TOO_OLD = "C018" Problem "the installation is not what the program needs":
        "Frameworks are compiled for a release or newer, and for one CUDA major.";
    LACKS = "C019" Problem "a function that is needed is not in this installation":
        "It came with a later release, or with the full cuDNN where a JIT-only one is.";
    NOT_ON_PATH = "C020" Warning "the dynamic linker does not find cuDNN by its name":
        "The folder of a wheel is on no search path. Programs that load cuDNN by its bare name fail.";
    OTHER_ON_PATH = "C021" Warning "the dynamic linker finds another cuDNN":
        "LD_LIBRARY_PATH, the linker's cache or its folders lead to another installation first.";
    LINKER_MIX = "C022" Problem "the dynamic linker would mix two installations":
        "NVIDIA's shim and the libraries that it opens are found by different rules.";
    NO_CUBLAS = "C030" Warning "cuBLASLt is not found":
        "Full releases open it for some engines. It comes with CUDA, or as a wheel of the same CUDA major.";
    NO_NVRTC = "C031" Warning "NVRTC is not found":
        "Engines that compile their kernels when they are used need it. It comes with CUDA, or as a wheel.";
    NO_BUILTINS = "C032" Warning "NVRTC is without its builtins":
        "NVRTC opens libnvrtc-builtins when it compiles. Copying libnvrtc alone leaves it behind.";
    OLD_GPU = "C040" Problem "a GPU is too old for this release":
        "From 9.11 on there are no kernels for processors below compute capability 7.5.";
    DIED = "C050" Problem "cuDNN ended the process that loaded it":
        "It was loaded in a process of its own, which did not come to its end.";
    NOT_LOADED = "C051" Problem "cuDNN cannot be loaded":
        "The loader says why.";
    CHECK_FAILED = "C052" Problem "cuDNN's own version check fails":
        "cuDNN was loaded and says itself that its libraries do not belong together.";
    NO_CONVOLUTION = "C053" Problem "a convolution fails":
        "With `--gpu`: everything was loaded, and computing does not work, or gives a wrong result.";
}

/// Something that was found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// What, in one sentence.
    pub(crate) what: String,
    /// The evidence: paths, versions, rules.
    pub(crate) notes: Vec<String>,
    /// What to do: a command, or a line to add.
    pub(crate) help: String,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, what: impl Into<String>) -> Self {
        Finding { kind, what: what.into(), notes: Vec::new(), help: String::new() }
    }

    pub(crate) fn note(mut self, why: impl Into<String>) -> Self {
        self.notes.push(why.into());
        self
    }

    pub(crate) fn help(mut self, cure: impl Into<String>) -> Self {
        self.help = cure.into();
        self
    }

    pub(crate) fn value(&self) -> Value {
        json!({
            "code": self.kind.code,
            "severity": self.kind.severity.word(),
            "title": self.kind.title,
            "what": self.what,
            "why": self.notes,
            "cure": self.help,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        for (index, kind) in FINDINGS.iter().enumerate() {
            assert!(FINDINGS.iter().skip(index + 1).all(|other| other.code != kind.code), "{}", kind.code);
        }
    }

    #[test]
    fn the_list_in_the_docs_is_this_one() {
        let mut text = String::from(
            "# Findings of `cudnn-doctor check`\n\n\
             A code never changes its meaning. Each finding tells what, why (paths, versions, rules) and what to do.\n\
             Written by `CUDNN_TESTS_WRITE=1 cargo test -p cudnn-doctor`.\n\n\
             | code | severity | what | how it comes about |\n| --- | --- | --- | --- |\n",
        );
        for FindingKind { code, severity, title, cause } in FINDINGS {
            let _ = writeln!(text, "| {code} | {} | {title} | {cause} |", severity.word());
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/findings.md");
        if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
            let _ = std::fs::write(file, &text);
        }
        assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), text, "run with CUDNN_TESTS_WRITE=1");
    }
}
