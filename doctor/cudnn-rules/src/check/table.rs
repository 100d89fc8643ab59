//! Lists the kinds of findings by code. `data/findings.json` describes them.

use std::sync::LazyLock;

use serde_json::Value;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information only.
    Note,
    /// Some programs fail, or may compute wrong results.
    Warning,
    /// Programs fail.
    Error,
}

impl Severity {
    /// Returns the word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A kind of finding, which docs/data/findings.json lists.
#[derive(Clone, Copy, Debug)]
pub struct FindingKind {
    /// The code, which is never reused.
    pub code: &'static str,
    /// The severity, unless a check reports a milder case.
    pub severity: Severity,
}

static DESCRIPTIONS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/findings.json")).unwrap_or_default());

impl FindingKind {
    /// Returns the short description shown in tables.
    pub fn title(&self) -> &'static str {
        self.description("title")
    }

    /// Returns the usual cause.
    pub fn cause(&self) -> &'static str {
        self.description("cause")
    }

    fn description(&self, key: &str) -> &'static str {
        DESCRIPTIONS.get(self.code).and_then(|kind| kind.get(key)?.as_str()).unwrap_or_default()
    }
}

macro_rules! kinds {
    ($($constant:ident = $code:literal $severity:ident,)*) => {
        $( pub(crate) const $constant: FindingKind = FindingKind { code: $code, severity: Severity::$severity }; )*
        /// All kinds of findings, sorted by code.
        pub const FINDINGS: &[FindingKind] = &[$($constant),*];
    };
}

kinds! {
    NO_DRIVER = "C001" Warning,
    OLD_DRIVER = "C002" Error,
    DRIVER_CRASHED = "C003" Error,
    NO_CUDNN = "C010" Error,
    REJECTED = "C011" Warning,
    INCOMPLETE = "C012" Error,
    UNUSABLE_LIBRARY = "C013" Error,
    MIXED_VERSIONS = "C014" Error,
    MIXED_CUDA = "C015" Error,
    SEVERAL = "C016" Note,
    KNOWN_ISSUE = "C017" Note,
    REQUIREMENT = "C018" Error,
    LACKS_FUNCTION = "C019" Error,
    NOT_ON_PATH = "C020" Warning,
    OTHER_ON_PATH = "C021" Warning,
    LD_SO_MIX = "C022" Error,
    OVERLAPPING_PACKAGES = "C023" Warning,
    NOT_AS_INSTALLED = "C024" Warning,
    LINKED_MIX = "C025" Warning,
    NOT_VERIFIED = "C026" Warning,
    RELATIVE_PATH = "C027" Note,
    LOST_PYTHON = "C028" Warning,
    NO_CUBLAS = "C030" Warning,
    NO_NVRTC = "C031" Warning,
    NO_BUILTINS = "C032" Warning,
    OLD_GPU = "C040" Error,
    NO_KERNELS = "C041" Error,
    CRASHED = "C050" Error,
    NOT_LOADED = "C051" Error,
    CHECK_FAILED = "C052" Error,
    NO_CONVOLUTION = "C053" Error,
    NO_MEMORY = "C054" Error,
    NOT_TESTED = "C055" Error,
    NO_EFFECT = "C060" Warning,
    FRAMEWORK_NO_CUDNN = "C070" Error,
    FRAMEWORK_OLD_CUDNN = "C071" Error,
    FRAMEWORK_MIX = "C072" Error,
    FRAMEWORK_PIN = "C073" Warning,
    FRAMEWORK_NO_CUDA = "C074" Error,
    FRAMEWORK_DRIVER = "C075" Error,
    FRAMEWORK_OLD_GPU = "C076" Error,
    FRAMEWORK_PTX = "C077" Note,
    FRAMEWORKS_TOGETHER = "C078" Warning,
    FRAMEWORK_CPU_ONLY = "C079" Warning,
    PACKAGES_UNREADABLE = "C080" Note,
    PROGRAM_UNREADABLE = "C081" Error,
    PROGRAM_DEPENDENCY = "C082" Error,
    PROGRAM_FUNCTION = "C083" Error,
    PROGRAM_NO_CUDNN = "C084" Note,
    FRAMEWORK_OPTIONAL_CUDNN = "C085" Note,
    FRAMEWORK_DAMAGED = "C086" Error,
    FRAMEWORK_DAMAGED_CUDNN = "C087" Error,
    FRAMEWORK_HALF_SEARCHED = "C088" Note,
    PROGRAM_OPENS = "C089" Warning,
    FRAMEWORK_FAILED = "C090" Error,
    FRAMEWORK_ON_CPU = "C091" Warning,
    FRAMEWORK_ELSEWHERE = "C092" Note,
    PROGRAM_UNLINKED = "C100" Warning,
    DROP_IN_REPLACED = "C110" Warning,
    STALE_SHIM = "C111" Warning,
    OLD_DROP_IN = "C112" Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_described_and_used_once() {
        let codes: Vec<&str> = FINDINGS.iter().map(|kind| kind.code).collect();
        let described = DESCRIPTIONS.as_object().into_iter().flatten().map(|(code, _)| code);
        assert_eq!(codes, described.collect::<Vec<_>>());
        assert!(codes.is_sorted_by(|one, other| one < other));
        assert!(FINDINGS.iter().all(|kind| !kind.title().is_empty() && !kind.cause().is_empty()));
    }
}
