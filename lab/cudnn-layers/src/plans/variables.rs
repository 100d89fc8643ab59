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

/// Variables that known releases read and that may affect compiled code. A test records the variables of each release.
const KNOWN: &[&str] = &[
    "CAN_FINALIZE_DEBUG",
    "CUDA_7a3f9c2d",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDNN_CONV_WSCAP_DBG",
    "CUDNN_CUDA_GRAPH_RETENTION",
    "CUDNN_CUSTOM_LUT_CALIBRATOR_LOG",
    "CUDNN_ENABLE_DEFAULT_KERNEL_CACHE",
    "CUDNN_ERRSRC_DBG",
    "CUDNN_FORCE_JIT_DBG",
    "CUDNN_FORT_FFMA_CONV1D_SELECT",
    "CUDNN_FORT_SASS_CODEGEN_TACTIC_DBG",
    "CUDNN_FORT_SASS_DBG",
    "CUDNN_FREECOUNT_DBG",
    "CUDNN_GA10X_SMEM_DBG",
    "CUDNN_GCTX_ENABLE_DBG",
    "CUDNN_JIT_FLAGS_DBG",
    "CUDNN_KERNEL_CACHE_SIZE_MB",
    "CUDNN_LIB_CONFIG",
    "CUDNN_MALLOCCOUNT_DBG",
    "CUDNN_NVRTC_RUNTIME_LINKING",
    "CUDNN_PREFER_SM_COUNT_DBG",
    "CUDNN_RNN_WS_SIZE_DBG",
    "CUDNN_SKIPHEUR_DBG",
    "CUDNN_STRICT_DBG",
    "CUDNN_TENSOR_IR_MLIR_THREADING",
    "CUTE_DSL_DUMP_DIR",
    "CUTE_DSL_KEEP",
    "EDG_BASE",
    "EDG_MODULES_PATH",
    "FINALIZER_CUBIE",
    "FINALIZER_USE_LEGACY_ELF_BUILDER",
    "LIBNVVM_DISABLE_CONCURRENT_API",
    "LLVM_IGNORED_ENV_VAR",
    "LLVM_OVERRIDE_PRODUCER",
    "NVIDIA_TF32_OVERRIDE",
    "NVRTCWIZ",
    "NVRTC_APPEND_FLAGS",
    "NVRTC_DISABLE_CONCURRENT_NVVM",
    "NVRTC_DISABLE_PCH",
    "NVRTC_INTERNAL_GLOBAL_LOCK",
    "NVRTC_PCH_HEAP_SIZE",
    "NVRTC_PREPEND_FLAGS",
    "NVVM_IR_VER_CHK",
    "NVVM_OVERRIDE_OPTIONS",
    "NV_NVVM_VERSION",
    "TENSOR_IR_CODEGEN_STRATEGY",
    "TENSOR_IR_DUMP_IR",
    "TENSOR_IR_DUMP_TILEIR_BC",
    "TENSOR_IR_DUMP_TO",
    "TENSOR_IR_LOAD_TILEIR_BC",
    "TENSOR_IR_MAX_TILE_CANDIDATES",
    "TENSOR_IR_PRINT_IR",
    "TENSOR_IR_PRINT_IR_AFTER_ALL",
    "TENSOR_IR_PRINT_IR_TREE_DIR",
    "TENSOR_IR_TIMING",
];

/// Variables that control only logging, tracing, caching and loading. They are full names, because a future variable
/// with a similar prefix could affect compiled code.
const HARMLESS: &[&str] = &[
    // cuDNN, cuBLAS and NVRTC: logs, dumps and a cache.
    "AS_SECURE_LOG_FILE",
    "CASK_ENHANCED_API_LOGGING",
    "CASK_LOG_INFO",
    "CUBLASLT_LOG_LEVEL",
    "CUBLASLT_LOG_MASK",
    "CUBLASLT_NVTX_LEVEL",
    "CUDA_CACHE_DISABLE",
    "CUDNN_LOGDEST_DBG",
    "CUDNN_LOGERR_DBG",
    "CUDNN_LOGINFO_DBG",
    "CUDNN_LOGLEVEL_DBG",
    "CUDNN_LOGWARN_DBG",
    "DUMP_KNOBS_TO_FILE",
    // The CPU instructions that cuBLAS uses.
    "CUBLASLT_DISABLE_CPU_INSTRUCTIONS_MASK",
    // How compiler threads wait, the CPU instructions that OpenSSL uses, and make's job server.
    "CUDA_PREFER_SPINLOCKS_ON_HOST",
    "MAKEFLAGS",
    "OPENSSL_ia32cap",
    // LLVM looks up this name but ignores the value.
    "bar",
    // The working directory, which NVRTC uses in messages.
    "PWD",
    // This project's own variables. A test compares them with the list in the documentation.
    "CUDNN_CAPTURE",
    "CUDNN_CAPTURE_DATA",
    "CUDNN_ERRATA",
    "CUDNN_EXPLAIN",
    "CUDNN_EXPLAIN_OUTPUT",
    "CUDNN_FETCH_CACHE",
    "CUDNN_LAYERS",
    "CUDNN_LAYER_PATH",
    "CUDNN_LOADER_DIR",
    "CUDNN_LOADER_PAGES",
    "CUDNN_LOADER_PRELOAD",
    "CUDNN_LOADER_VERBOSE_ERRORS",
    "CUDNN_PLANS_DIR",
    "CUDNN_PLANS_LIMIT",
    "CUDNN_PLANS_PACK",
    "CUDNN_PLANS_SUMMARY",
    "CUDNN_SYS_INCLUDE_DIR",
    "CUDNN_SYS_LIB_DIR",
    "CUDNN_TESTS_ALL",
    "CUDNN_TESTS_ATTACKS",
    "CUDNN_TESTS_FUZZ",
    "CUDNN_TESTS_FUZZ_RELEASE",
    "CUDNN_TESTS_MACHINES",
    "CUDNN_TESTS_OFFLINE",
    "CUDNN_TESTS_PROFILE",
    "CUDNN_TESTS_WRITE",
    "CUDNN_TRACE",
    "CUDNN_TRACE_ARGUMENTS",
    "CUDNN_TRACE_LIMIT",
    "CUDNN_TRACE_LINES",
    "CUDNN_TRACE_SUMMARY",
    "CUDNN_TUNED",
    "CUDNN_TUNED_ONLY",
    "CUDNN_VALIDATE",
    // cudnn-frontend.
    "CUDNN_FRONTEND_LOG_FILE",
    "CUDNN_FRONTEND_LOG_INFO",
    // Used by build systems, but not read by cuDNN.
    "CUDNN_DIR",
    "CUDNN_HOME",
    "CUDNN_INCLUDE_DIR",
    "CUDNN_INCLUDE_PATH",
    "CUDNN_LIBRARY",
    "CUDNN_LIBRARY_PATH",
    "CUDNN_LIB_DIR",
    "CUDNN_LIB_PATH",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_ROOT_DIR",
    "CUDNN_VERSION",
];

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
    if HARMLESS.contains(&name) {
        VariableUse::Harmless
    } else if KNOWN.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
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
        values.extend(KNOWN.iter().map(|name| (name.into(), None)));
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
        for name in HARMLESS.iter().chain(&["PATH", "CUDA_VISIBLE_DEVICES"]) {
            assert_eq!(written(&[(name, "1")]), written(&[]), "{name}");
            assert!(!KNOWN.contains(name), "{name}");
        }
        assert!(KNOWN.is_sorted(), "in order");
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
