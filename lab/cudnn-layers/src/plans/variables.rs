//! Tracks the environment variables that affect the code that cuDNN compiles.
//!
//! cuDNN reads some variables when the graph library is loaded and others while it builds a plan. Plans are cached and
//! restored only while all variables have the values from load time. The loader reads the whole environment once,
//! because iterating over it is unsafe while another thread calls `setenv`. Later changes are detected by looking up
//! names.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;

use super::bytes::KeyBytes;

/// Prefixes of variables that may affect compiled code: cuDNN, the tensor-IR engines, NVRTC and NVVM. Newer releases
/// may read more variables with these prefixes.
const PREFIXES: &[&str] = &["CUDNN_", "CUTE_DSL_", "FINALIZER_", "LIBNVVM_", "NVRTC_", "NVVM_", "TENSOR_IR_"];

/// Variables that known releases read and that may affect compiled code.
const KNOWN: &str = include_str!("compiler_variables.txt");
/// Variables that do not affect compiled code.
const HARMLESS: &str = include_str!("harmless_variables.txt");

/// Returns the names in one of these lists.
fn names(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// How a plan depends on an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableUse {
    /// The variable may affect compiled code, so it is part of the cache key.
    Key,
    /// The variable does not affect compiled code.
    Harmless,
    /// The variable is unknown and excluded from the cache key.
    Unknown,
}

/// Returns how plans depend on the variable with this name.
pub fn variable_use(name: &OsStr) -> VariableUse {
    let Some(name) = name.to_str() else { return VariableUse::Unknown };
    if names(HARMLESS).any(|harmless| harmless == name) {
        VariableUse::Harmless
    } else if names(KNOWN).any(|known| known == name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        VariableUse::Key
    } else {
        VariableUse::Unknown
    }
}

/// The values at one point in time of the relevant variables, which are set or known.
pub(super) struct Variables {
    /// Sorted by name.
    values: Vec<(OsString, Option<OsString>)>,
    /// A different value was seen for one of them, which cuDNN may have read.
    has_changed: AtomicBool,
}

impl Variables {
    /// Returns the values from when cuDNN's graph library was loaded, if the loader knows them.
    pub(super) fn at_load(host: Host) -> Option<Self> {
        // SAFETY: the bytes are environment strings, split at an ASCII character.
        let text = |bytes: &[u8]| unsafe { OsStr::from_encoded_bytes_unchecked(bytes) }.to_owned();
        Some(Self::among(host.environment()?.map(|(name, value)| (text(name), text(value)))))
    }

    /// Returns the current values. The program must not change the environment in other threads.
    pub(super) fn now() -> Self {
        Self::among(std::env::vars_os())
    }

    fn among(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let set = variables.filter(|(name, _)| variable_use(name) == VariableUse::Key);
        let mut values: Vec<_> = set.map(|(name, value)| (name, Some(value))).collect();
        values.extend(names(KNOWN).map(|name| (name.into(), None)));
        // If a name occurs twice, the stable sort puts the value first that `getenv` would return.
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.dedup_by(|(later, _), (first, _)| later == first);
        Variables { values, has_changed: AtomicBool::new(false) }
    }

    /// Returns whether a variable has changed, now or in an earlier call.
    pub(super) fn have_changed(&self) -> bool {
        if !self.has_changed.load(Ordering::Relaxed)
            && self.values.iter().any(|(name, value)| std::env::var_os(name) != *value)
        {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        self.has_changed.load(Ordering::Relaxed)
    }

    pub(super) fn write(&self, to: &mut KeyBytes) {
        for (name, value) in &self.values {
            if let Some(value) = value {
                to.block(name.as_encoded_bytes());
                to.block(value.as_encoded_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(variables: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = KeyBytes::default();
        Variables::among(variables.iter().map(|(name, value)| (name.into(), value.into()))).write(&mut bytes);
        bytes.0
    }

    #[test]
    fn a_duplicate_name_uses_the_first_value() {
        let first = written(&[("CUDNN_JIT_FLAGS_DBG", "b")]);
        assert_eq!(written(&[("CUDNN_JIT_FLAGS_DBG", "b"), ("PATH", "/"), ("CUDNN_JIT_FLAGS_DBG", "a")]), first);
        assert_ne!(written(&[("CUDNN_JIT_FLAGS_DBG", "a")]), first);
    }

    #[test]
    fn compiler_variables_are_part_of_the_key_and_log_variables_are_not() {
        for name in [
            "FINALIZER_USE_LEGACY_ELF_BUILDER",
            "TENSOR_IR_NEW",
            "CUTE_DSL_NEW",
            "NVRTC_NEW",
            "NVVM_NEW",
            "LIBNVVM_NEW",
            "CUDNN_NEW_DBG",
            "CUDNN_LAYER_NORM_NEW",
            "CUDNN_LOG_NEW",
            "CUDA_HOME",
            "CUDA_PATH",
        ] {
            assert_ne!(written(&[(name, "1")]), written(&[]), "{name}");
        }
        for name in names(HARMLESS).chain(["PATH", "CUDA_VISIBLE_DEVICES"]) {
            assert_eq!(written(&[(name, "1")]), written(&[]), "{name}");
            assert!(names(KNOWN).all(|known| known != name), "{name}");
        }
        assert!(names(KNOWN).is_sorted(), "in order");
    }

    #[test]
    fn the_projects_own_variables_change_no_code() {
        let page = include_str!("../../../../docs/guide/environment.md");
        let words = page.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("CUDNN_")).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert_eq!(variable_use(name.as_ref()), VariableUse::Harmless, "{name}");
        }
    }
}
