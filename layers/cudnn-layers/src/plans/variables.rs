//! The variables of the environment that change what cuDNN computes. cuDNN reads some when its graph library is loaded
//! and others while it plans, so a plan is only kept or restored while they are what they were when the library was
//! loaded.
//!
//! The whole environment is read once, by the loader. Reading it again is not safe next to `setenv` in another thread,
//! so later changes are found by asking for names.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;

use crate::shadow::canonical::Bytes;

/// What the names of variables begin with that may change compiled code: of cuDNN, of its tensor-IR engines, of NVRTC
/// and of NVVM. A newer release may have more of them.
const PREFIXES: &[&str] = &["CUDNN_", "CUTE_DSL_", "FINALIZER_", "LIBNVVM_", "NVRTC_", "NVVM_", "TENSOR_IR_"];

/// Variables that may change compiled code and that known releases read, with and without these prefixes. A test
/// records what releases ask for.
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

/// Variables that choose what is logged, traced, kept or loaded, and not what is computed. They may differ. Names and
/// no prefixes: a future variable of cuDNN may begin like one of these.
const HARMLESS: &[&str] = &[
    // Of cuDNN, cuBLAS and NVRTC: logs, dumps and a cache.
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
    // Which instructions of the processor cuBLAS uses.
    "CUBLASLT_DISABLE_CPU_INSTRUCTIONS_MASK",
    // How the compilers' threads wait, which instructions of the processor OpenSSL uses, and the job server of make.
    "CUDA_PREFER_SPINLOCKS_ON_HOST",
    "MAKEFLAGS",
    "OPENSSL_ia32cap",
    // LLVM asks for this name without using the value.
    "bar",
    // The working directory, which NVRTC notes for its messages.
    "PWD",
    // Of this project: a test compares them with its list of variables.
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
    "CUDNN_TESTS_ATTACKS",
    "CUDNN_TESTS_BUILT",
    "CUDNN_TESTS_OFFLINE",
    "CUDNN_TESTS_WRITE",
    "CUDNN_TRACE",
    "CUDNN_TRACE_ARGUMENTS",
    "CUDNN_TRACE_GPU",
    "CUDNN_TRACE_LIMIT",
    "CUDNN_TRACE_LINES",
    "CUDNN_TRACE_SUMMARY",
    // Of cudnn-frontend.
    "CUDNN_FRONTEND_LOG_FILE",
    "CUDNN_FRONTEND_LOG_INFO",
    // For build systems, which cuDNN does not read.
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

/// How plans depend on a variable of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableUse {
    /// It may change compiled code, so it is a part of the key.
    Key,
    /// It changes no code.
    Harmless,
    /// Nothing is known about it, and it is not a part of the key.
    Unknown,
}

/// How plans depend on the variable of this name.
#[must_use]
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

/// The variables that matter: those that are set, and those that known releases read, with their values at some time.
pub(super) struct Variables {
    /// In the order of the names.
    values: Vec<(OsString, Option<OsString>)>,
    /// One of them was seen with another value: cuDNN may have read that one.
    has_changed: AtomicBool,
}

impl Variables {
    /// As they were when cuDNN's graph library was loaded. `None` if the loader does not know that.
    pub(super) fn at_load(host: Host) -> Option<Self> {
        // SAFETY: the bytes are of strings of the environment, cut at an ASCII character.
        let text = |bytes: &[u8]| unsafe { OsStr::from_encoded_bytes_unchecked(bytes) }.to_owned();
        Some(Self::among(host.environment()?.map(|(name, value)| (text(name), text(value)))))
    }

    /// As they are now. For programs that change none in other threads.
    pub(super) fn now() -> Self {
        Self::among(std::env::vars_os())
    }

    fn among(variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let set = variables.filter(|(name, _)| variable_use(name) == VariableUse::Key);
        let mut values: Vec<_> = set.map(|(name, value)| (name, Some(value))).collect();
        values.extend(KNOWN.iter().map(|name| (name.into(), None)));
        // Stable: of a name that is there twice the first value stays, as `getenv` returns it.
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.dedup_by(|(later, _), (first, _)| later == first);
        Variables { values, has_changed: AtomicBool::new(false) }
    }

    /// Whether one of them has, or had when this was asked before, another value.
    pub(super) fn have_changed(&self) -> bool {
        if !self.has_changed.load(Ordering::Relaxed)
            && self.values.iter().any(|(name, value)| std::env::var_os(name) != *value)
        {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        self.has_changed.load(Ordering::Relaxed)
    }

    /// The names and values of those that are set.
    pub(super) fn write(&self, to: &mut Bytes) {
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
        let mut bytes = Bytes::default();
        Variables::among(variables.iter().map(|(name, value)| (name.into(), value.into()))).write(&mut bytes);
        bytes.0
    }

    #[test]
    fn a_name_that_is_there_twice_has_its_first_value() {
        let first = written(&[("CUDNN_JIT_FLAGS_DBG", "b")]);
        assert_eq!(written(&[("CUDNN_JIT_FLAGS_DBG", "b"), ("PATH", "/"), ("CUDNN_JIT_FLAGS_DBG", "a")]), first);
        assert_ne!(written(&[("CUDNN_JIT_FLAGS_DBG", "a")]), first);
    }

    #[test]
    fn variables_of_compilers_count_and_logs_do_not() {
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
