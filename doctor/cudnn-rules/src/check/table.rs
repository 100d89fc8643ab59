//! Provides the table of findings, with one row for each code.

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

/// A kind of finding, which has a page in docs/findings.
#[derive(Clone, Copy, Debug)]
pub struct FindingKind {
    /// Codes are never reused.
    pub code: &'static str,
    /// The severity, unless a check reports a milder case.
    pub severity: Severity,
    /// The short description shown in tables.
    pub title: &'static str,
    /// The usual cause.
    pub cause: &'static str,
    /// The names of the checks that can report it, which `checks.rs` defines.
    pub(super) checks: &'static [&'static str],
}

macro_rules! findings {
    ($($constant:ident = $code:literal $severity:ident $title:literal by [$($check:ident),*] : $cause:literal;)*) => {
        $( pub(crate) const $constant: FindingKind =
            FindingKind {
                code: $code,
                severity: Severity::$severity,
                title: $title,
                cause: $cause,
                checks: &[$(stringify!($check)),*],
            }; )*
        /// All kinds of findings, sorted by code.
        pub const FINDINGS: &[FindingKind] = &[$($constant),*];
    };
}

findings! {
    NO_DRIVER = "C001" Warning "NVIDIA's driver is missing or not responding" by [load, driver]:
        "libcuda.so.1 comes with NVIDIA's driver, not with CUDA or cuDNN. It is missing in containers that were \
         started without GPU access. WSL stores it in a directory that ld.so may not search. This is a note if no \
         framework of the active environment uses a GPU.";
    OLD_DRIVER = "C002" Error "the driver is too old for this cuDNN's CUDA release" by [old_driver]:
        "Each CUDA major requires a minimum driver version.";
    DRIVER_CRASHED = "C003" Error "the driver crashed or hung" by [load]:
        "A child process loaded and started libcuda.so.1, then crashed or hung. The library is damaged or belongs to \
         a different driver, or the kernel driver is not responding.";
    NO_CUDNN = "C010" Error "no usable cuDNN 9 was found" by [no_cudnn]:
        "No searched directory contains a usable libcudnn_graph.so.9. Older majors do not count, because cuDNN \
         majors are not interchangeable. This is a note if the frameworks of the active environment work without \
         cuDNN.";
    REJECTED = "C011" Warning "an installation was rejected" by [rejected]:
        "The file libcudnn_graph.so.9 is truncated, unreadable, built for another architecture, or not a library.";
    INCOMPLETE = "C012" Error "libraries of the release are missing" by [incomplete, search, linked_programs]:
        "The release was copied or installed only in part. On Windows this also means that programs find \
         cudnn64_9.dll, but not the DLLs that it opens by name.";
    UNUSABLE_LIBRARY = "C013" Error "a library of the installation is unusable" by [unusable, linked_programs]:
        "The file is truncated, unreadable, built for another architecture, or not a library. This is a warning if only a \
         name for linking, such as libcudnn.so, leads nowhere, or if the file is no part of an installation, and a note if \
         ld.so passes over it.";
    MIXED_VERSIONS = "C014" Error "libraries of two releases are mixed" by [mixed, linked_programs]:
        "Two packages were installed into the same directory, or an update was interrupted. This is a note if all files of \
         several releases are there, as after unpacking archives over one another, and the links lead to one release.";
    MIXED_CUDA = "C015" Error "libraries for two CUDA majors are mixed" by [mixed, linked_programs]:
        "The cu12 and cu13 wheels install into the same directory. cuDNN itself does not detect the mix.";
    SEVERAL = "C016" Note "several cuDNN installations were found" by [other_installations]:
        "Programs that search directories in a different order load a different cuDNN.";
    KNOWN_ISSUE = "C017" Note "the release has a known issue" by [known_issues]:
        "NVIDIA or a framework reports this issue; `cudnn-doctor facts` lists the sources. It matters only to programs that \
         do what the message names.";
    REQUIREMENT = "C018" Error "the installation does not meet the program's requirements"
        by [requirements, search, other_major]:
        "The program was built for a newer cuDNN or for a different CUDA major.";
    LACKS_FUNCTION = "C019" Error "a required function is missing from the installation" by [requirements]:
        "The function was added in a later release, or is in a library that this installation does not include.";
    NOT_ON_PATH = "C020" Warning "programs that load cuDNN by name will not find it" by [search]:
        "Wheels install into a directory outside ld.so's search path, so loading libcudnn.so.9 by name fails in \
         programs without a run path. On Windows, cudnn64_9.dll is not in any directory on PATH.";
    OTHER_ON_PATH = "C021" Warning "programs that load cuDNN by name find a different one" by [search]:
        "LD_LIBRARY_PATH, /etc/ld.so.cache or a default directory leads to a different installation first. On \
         Windows, PATH or a Windows directory does.";
    LD_SO_MIX = "C022" Error "programs would mix two installations" by [search]:
        "ld.so and Windows use different rules for finding NVIDIA's shim and the libraries that it opens. Here the \
         two searches lead to different directories.";
    OVERLAPPING_PACKAGES = "C023" Warning "several packages own the same files" by [overlapping_packages]:
        "Wheels for two CUDA majors, or the full and the JIT-only wheel, install into the same directory, and the \
         last one overwrites the others. An interrupted upgrade leaves two records of one wheel.";
    NOT_AS_INSTALLED = "C024" Warning "a file has changed since installation" by [not_as_installed]:
        "The file was overwritten by another package or a copy, patched, or damaged. A wheel records the size and \
         sha256 of its files. The sha256 is only compared with `--verify`.";
    LINKED_MIX = "C025" Warning "ld.so would mix two installations for programs linked to a sub-library" by [search]:
        "LD_LIBRARY_PATH leads to a different installation, or to a single library from one. It is searched before \
         the run path that a sub-library uses to find the other libraries.";
    NOT_VERIFIED = "C026" Warning "files could not be verified" by [not_verified]:
        "Verification (`--verify`) needs the sha256 from a wheel's record. Records of conda, Debian and RPM packages \
         are not read, and files from archives or copies have no record.";
    RELATIVE_PATH = "C027" Note "the search path contains a relative directory" by [relative_path]:
        "A relative directory in LD_LIBRARY_PATH (on Windows, in PATH) depends on the working directory of the \
         program. This project's search ignores such directories.";
    LOST_PYTHON = "C028" Warning "a virtual environment no longer matches its Python" by [lost_python]:
        "The system was upgraded to a different Python version, or the Python that the packages were installed for \
         was removed.";
    NO_CUBLAS = "C030" Warning "cuBLASLt is missing or damaged" by [search, load]:
        "Precompiled engines open cuBLASLt, which comes with the CUDA toolkit or as a wheel for the same CUDA major. \
         The doctor loads it in a child process, which also reveals missing dependencies. libcublas must be from the same \
         release.";
    NO_NVRTC = "C031" Warning "NVRTC is missing or damaged" by [search, load]:
        "Engines that compile kernels at run time open NVRTC, which comes with the CUDA toolkit or as a wheel for \
         the same CUDA major. The doctor loads it in a child process, too.";
    NO_BUILTINS = "C032" Warning "NVRTC's builtins library is missing or damaged" by [search]:
        "NVRTC opens libnvrtc-builtins when it compiles a kernel. The file is often forgotten when only libnvrtc is \
         copied.";
    OLD_GPU = "C040" Error "a GPU is too old for this release" by [old_gpu]:
        "cuDNN 9.11 and later have no kernels for compute capabilities below 7.5.";
    NO_KERNELS = "C041" Error "cuDNN has no kernels for a GPU" by [no_kernels]:
        "On aarch64, a server build (SBSA) such as a wheel is installed on a Jetson, or a build for CUDA 12 on \
         Jetson Thor. On other machines, the GPU is newer than the release. cuDNN loads, but fails when it computes.";
    CRASHED = "C050" Error "cuDNN crashed or hung while it was loaded" by [load]:
        "A child process loaded cuDNN, then crashed or hung. The message names the step.";
    NOT_LOADED = "C051" Error "cuDNN failed to load" by [load]:
        "A library that cuDNN needs is missing, damaged, or incompatible (a symbol is missing). The message names \
         the library.";
    CHECK_FAILED = "C052" Error "cuDNN's own check failed" by [load]:
        "cuDNN was loaded, but a version check or the registration of its engines failed, usually because the \
         libraries are from different releases. This is a warning if the engines were rejected for another reason: a \
         newer cuDNN may reject the device that the doctor describes, and still work.";
    NO_CONVOLUTION = "C053" Error "a convolution failed" by [load]:
        "With `--gpu`: cuDNN was loaded, but the convolution failed or computed a wrong result.";
    NO_MEMORY = "C054" Error "cuDNN ran out of memory while it was loaded" by [load]:
        "A memory limit of the shell (`ulimit -v`), the container or the batch system is too low.";
    NOT_TESTED = "C055" Error "the doctor could not load cuDNN or run a framework to check it"
        by [load, driver, framework_runs]:
        "The test runs in a child process, which failed to start because of a limit (`ulimit -n`, `ulimit -u`), \
         TMPDIR or the system. Static builds of the doctor cannot load libraries. The exit status is 3, because the \
         finding is not about cuDNN itself.";
    NO_EFFECT = "C060" Warning "an environment variable has no effect" by [variables]:
        "The name or the value of the variable is misspelled, or it names an environment that no longer exists. The \
         loader ignores such variables.";
    FRAMEWORK_NO_CUDNN = "C070" Error "a framework would not find cuDNN" by [frameworks]:
        "The wheel that the framework requires is not installed in the environment, or the framework searches in the \
         wrong place.";
    FRAMEWORK_OLD_CUDNN = "C071" Error "a framework would load a cuDNN that it does not accept" by [frameworks]:
        "A different cuDNN comes first on a search path (LD_LIBRARY_PATH, PYTHONPATH, the user's packages), or \
         another package has replaced the required one. Frameworks only accept the cuDNN major and CUDA major that \
         they were built for. Newer cuDNN minors are fine.";
    FRAMEWORK_MIX = "C072" Error "a framework would mix libraries of different cuDNN installations" by [frameworks]:
        "The framework's own search finds the shim, while LD_LIBRARY_PATH or LD_PRELOAD leads to the libraries of a \
         different cuDNN. The same happens if a copy or another package has overwritten a file in the framework's \
         directory.";
    FRAMEWORK_PIN = "C073" Warning "a required package has the wrong version" by [frameworks]:
        "The package was replaced when another package was installed later. pip only prints a warning when this \
         happens.";
    FRAMEWORK_NO_CUDA = "C074" Error "a framework would find a CUDA library missing or damaged" by [frameworks]:
        "The CUDA wheels are missing or for a different CUDA major, or LD_LIBRARY_PATH leads to a damaged file.";
    FRAMEWORK_DRIVER = "C075" Error "the driver is too old for a framework's CUDA release" by [frameworks]:
        "The framework's wheels were built for a newer CUDA than the driver supports.";
    FRAMEWORK_OLD_GPU = "C076" Error "a framework has no kernels for a GPU" by [frameworks]:
        "Newer releases drop support for old GPUs, and older releases do not support new GPUs.";
    FRAMEWORK_PTX = "C077" Note "a framework has only PTX for a GPU" by [frameworks]:
        "The driver compiles the PTX on first use.";
    FRAMEWORKS_TOGETHER = "C078" Warning "two frameworks disagree about cuDNN in one process" by [frameworks]:
        "A process can only load one libcudnn.so.9, and the framework imported first decides which one.";
    FRAMEWORK_CPU_ONLY = "C079" Warning "a framework is built without GPU support" by [frameworks]:
        "The CPU build was installed, or has replaced the GPU build.";
    PACKAGES_UNREADABLE = "C080" Note "packages could not be examined" by [frameworks]:
        "The packages have damaged metadata, or were installed twice, zipped, or from a source directory, or pip was \
         interrupted and left directories. If this user cannot read a framework's library, the finding is an error.";
    PROGRAM_UNREADABLE = "C081" Error "the program cannot be examined" by [program]:
        "The `--for` argument must be a Linux program or library for this processor.";
    PROGRAM_DEPENDENCY = "C082" Error "the program would not find its libraries" by [program]:
        "ld.so cannot find a library, or finds libraries that do not belong together, or the program's ELF \
         interpreter does not exist.";
    PROGRAM_FUNCTION = "C083" Error "the program calls a function that is missing from its cuDNN" by [program]:
        "The program was built with a newer cuDNN.";
    PROGRAM_NO_CUDNN = "C084" Note "the program does not reference cuDNN" by [program]:
        "It may still load libraries that use cuDNN, or assemble the name of cuDNN at run time.";
    FRAMEWORK_OPTIONAL_CUDNN = "C085" Note "a framework would not find cuDNN, but works without it" by [frameworks]:
        "Only some of the framework's functions use cuDNN.";
    FRAMEWORK_DAMAGED = "C086" Error "a framework's own libraries are missing or damaged" by [frameworks]:
        "An installation was interrupted, or files were deleted or copied for a different processor. If no import \
         needs the files, the finding is a note.";
    FRAMEWORK_DAMAGED_CUDNN = "C087" Error "the cuDNN of a framework is incomplete or damaged" by [frameworks]:
        "An installation was interrupted, or only some files were copied. If heuristics or engines are missing, \
         cuDNN fails only when it plans an operation.";
    FRAMEWORK_HALF_SEARCHED = "C088" Note "a framework searches for cuDNN in a directory with too many files"
        by [frameworks]:
        "The framework's Python code searches a directory recursively, for example with CUDA_HOME=/usr. The doctor \
         only examines a limited number of files.";
    PROGRAM_OPENS = "C089" Warning "the program contains the name of a cuDNN that ld.so does not find" by [program]:
        "Programs that open cuDNN with dlopen contain its name. cuDNN may be installed in a directory that ld.so \
         does not search.";
    FRAMEWORK_FAILED = "C090" Error "a framework failed" by [framework_runs]:
        "With `--run`: the framework could not be imported, or its convolution, attention or RNN failed. The message \
         shows the first cause, reported by the framework, by cuDNN's log or by ld.so.";
    FRAMEWORK_ON_CPU = "C091" Warning "a framework computes on the CPU" by [framework_runs]:
        "With `--run`: the framework was built without CUDA, or could not use CUDA, cuDNN or the GPU. Most \
         frameworks then compute on the CPU without an error.";
    FRAMEWORK_ELSEWHERE = "C092" Note "a framework was run with modules from outside the environment"
        by [framework_runs]:
        "With `--run`: PYTHONHOME or PYTHONPATH leads to a different environment, or the interpreter starts a \
         different one.";
    PROGRAM_UNLINKED = "C100" Warning "the program calls cuDNN but is not linked to it" by [program]:
        "The library was linked without cuDNN. It only works in a program that is linked to cuDNN, or has loaded it \
         globally (RTLD_GLOBAL). For an executable, the finding is an error.";
    DROP_IN_REPLACED = "C110" Warning "a cuDNN upgrade has replaced the drop-in" by [drop_in]:
        "pip, uv and conda overwrite the files that they installed, but leave other files alone. NVIDIA's \
         libcudnn.so.9 is active again, and the backup made by `cudnn-doctor install` is still there.";
    STALE_SHIM = "C111" Warning "the drop-in is installed without a matching backup of NVIDIA's shim" by [drop_in]:
        "The cuDNN libraries were replaced, but the drop-in was not. The backup of NVIDIA's shim made by \
         `cudnn-doctor install` is damaged or from a different release, so `cudnn-doctor uninstall` cannot restore \
         it.";
    OLD_DROP_IN = "C112" Error "the drop-in is older than the cuDNN behind it" by [drop_in]:
        "NVIDIA's shim has functions that the drop-in does not. A program that calls one of these functions fails \
         with \"undefined symbol\", either at startup or on the first call.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_share_a_code() {
        for (index, kind) in FINDINGS.iter().enumerate() {
            assert!(FINDINGS.iter().skip(index + 1).all(|other| other.code != kind.code), "{}", kind.code);
        }
    }
}
