//! Provides the table of findings, with one row for each code.

use super::checks;
use super::finding::{Check, FindingKind, Severity};

macro_rules! findings {
    ($($constant:ident = $code:literal $severity:ident $title:literal by [$($check:ident),*] : $cause:literal;)*) => {
        $( pub(crate) const $constant: FindingKind =
            FindingKind {
                code: $code,
                severity: Severity::$severity,
                title: $title,
                cause: $cause,
                checks: &[$(Check { name: stringify!($check), run: checks::$check }),*],
            }; )*
        /// All kinds, by code.
        pub(crate) const FINDINGS: &[FindingKind] = &[$($constant),*];
    };
}

findings! {
    NO_DRIVER = "C001" Warning "NVIDIA's driver is missing or does not answer" by [load, driver]:
        "libcuda.so.1 comes with NVIDIA's driver, not with CUDA or cuDNN. Containers started without GPU access do not \
         have it, and WSL keeps it in a directory that ld.so may not search. A note where no framework of the active \
         environment uses a GPU.";
    OLD_DRIVER = "C002" Error "the driver is too old for this cuDNN's CUDA release" by [old_driver]:
        "Each CUDA major requires a minimum driver version.";
    DRIVER_CRASHED = "C003" Error "the driver crashed or hung" by [load]:
        "libcuda.so.1 was opened and started in a child process, which crashed or made no progress. The library is \
         damaged or belongs to another driver, or the kernel's driver does not answer.";
    NO_CUDNN = "C010" Error "no usable cuDNN 9 was found" by [no_cudnn]:
        "No searched directory contains a usable libcudnn_graph.so.9. An older cuDNN does not count: majors are not \
         interchangeable. A note where no framework of the active environment needs a cuDNN.";
    REJECTED = "C011" Warning "an installation was rejected" by [rejected]:
        "Its libcudnn_graph.so.9 is truncated, unreadable, built for another architecture, or not a library.";
    INCOMPLETE = "C012" Error "libraries of the release are missing" by [incomplete, search, linked_programs]:
        "Only some files of the release were copied or installed. On Windows also: programs find cudnn64_9.dll, and not \
         the DLLs that it opens by their names.";
    UNUSABLE_LIBRARY = "C013" Error "a library of the installation is unusable" by [unusable, linked_programs]:
        "The file is truncated, unreadable, built for another architecture, or not a library.";
    MIXED_VERSIONS = "C014" Error "libraries of two releases are mixed" by [mixed, linked_programs]:
        "Two packages were installed into the same directory, or an update was interrupted.";
    MIXED_CUDA = "C015" Error "libraries for two CUDA majors are mixed" by [mixed, linked_programs]:
        "The cu12 and cu13 wheels install into the same directory. cuDNN itself does not detect the mix.";
    SEVERAL = "C016" Note "several cuDNN installations were found" by [other_installations]:
        "Programs that search in different orders load different ones.";
    KNOWN_ISSUE = "C017" Warning "the release has a known issue" by [known_issues]:
        "Listed as a known issue in NVIDIA's release notes.";
    REQUIREMENT = "C018" Error "the installation does not meet the program's requirements"
        by [requirements, search, other_major]:
        "The program was built for a newer cuDNN or for another CUDA major.";
    LACKS_FUNCTION = "C019" Error "the installation lacks a required function" by [requirements]:
        "A later release added the function, or the function is in a library that this installation does not include.";
    NOT_ON_PATH = "C020" Warning "programs do not find cuDNN by its name" by [search]:
        "Wheels install into a directory that ld.so does not search. Programs that load libcudnn.so.9 by its name, \
         without a run path, fail. On Windows: no directory on PATH has cudnn64_9.dll.";
    OTHER_ON_PATH = "C021" Warning "programs find another cuDNN by its name" by [search]:
        "LD_LIBRARY_PATH, /etc/ld.so.cache or a default directory leads to another installation first; on Windows, PATH \
         or a directory of Windows.";
    LD_SO_MIX = "C022" Error "programs would mix two installations" by [search]:
        "ld.so or Windows finds NVIDIA's shim and the libraries that it opens by different rules, in two directories.";
    OVERLAPPING_PACKAGES = "C023" Warning "several packages own the same files" by [overlapping_packages]:
        "Wheels for two CUDA majors, or the full and the JIT-only wheel, install into the same directory; the last one \
         overwrites the others. An interrupted upgrade leaves two records of one wheel.";
    NOT_AS_INSTALLED = "C024" Warning "a file is not the one that its package installed" by [not_as_installed]:
        "Another package or a copy has overwritten it, or it was patched or damaged later. The record of a wheel has the \
         size and the sha256 of each file; `--verify` compares the sha256, too.";
    LINKED_MIX = "C025" Warning "ld.so would mix two installations for programs linked to a sub-library" by [search]:
        "LD_LIBRARY_PATH leads to another installation, or to a single library of one. It comes before the run path by \
         which a sub-library finds the libraries that it needs.";
    NOT_VERIFIED = "C026" Warning "files could not be verified" by [not_verified]:
        "With `--verify`: only the record of a wheel states the sha256 of its files for this. Those of conda, Debian and \
         RPM are not read, and an archive or a copy has none.";
    RELATIVE_PATH = "C027" Note "the search path contains a relative directory" by [relative_path]:
        "A relative directory in LD_LIBRARY_PATH, or in PATH on Windows, is searched below the working directory of each \
         program. This project's search ignores it.";
    LOST_PYTHON = "C028" Warning "a virtual environment has lost the Python of its packages" by [lost_python]:
        "The system was upgraded to another Python, or that Python was removed.";
    NO_CUBLAS = "C030" Warning "cuBLASLt was not found or is damaged" by [search, load]:
        "Precompiled engines open it. It comes with the CUDA toolkit, or as a wheel for the same CUDA major. The doctor \
         loads it in a child process, and so finds what it needs itself and lacks.";
    NO_NVRTC = "C031" Warning "NVRTC was not found or is damaged" by [search, load]:
        "Engines that compile kernels at run time open it. It comes with the CUDA toolkit, or as a wheel for the same \
         CUDA major. The doctor loads it, too.";
    NO_BUILTINS = "C032" Warning "NVRTC's builtins library is missing or damaged" by [search]:
        "NVRTC opens libnvrtc-builtins when it compiles a kernel. Copying libnvrtc alone leaves it behind.";
    OLD_GPU = "C040" Error "a GPU is too old for this release" by [old_gpu]:
        "cuDNN 9.11 and later have no kernels for compute capabilities below 7.5.";
    NO_KERNELS = "C041" Error "cuDNN has no kernels for a GPU" by [no_kernels]:
        "On aarch64: a build for servers (SBSA), such as a wheel, on a Jetson, or one for CUDA 12 on Jetson Thor. Elsewhere: \
         the GPU is newer than the release. cuDNN loads, and fails when it computes.";
    CRASHED = "C050" Error "cuDNN crashed or hung while it was loaded" by [load]:
        "cuDNN was loaded in a child process, which crashed or made no progress. The message names the step.";
    NOT_LOADED = "C051" Error "cuDNN cannot be loaded" by [load]:
        "A library that cuDNN needs is missing, lacks a symbol, or is damaged. The message names it.";
    CHECK_FAILED = "C052" Error "cuDNN's own check failed" by [load]:
        "cuDNN was loaded, but one of its version checks or the registration of its engines failed. Usually its libraries \
         are of different releases. A warning if the engines were refused for another reason: a newer cuDNN may refuse \
         the device that the doctor describes, and work.";
    NO_CONVOLUTION = "C053" Error "a convolution failed" by [load]:
        "With `--gpu`: cuDNN was loaded, but the convolution failed or its result was wrong.";
    NO_MEMORY = "C054" Error "cuDNN ran out of memory while it was loaded" by [load]:
        "A limit of the shell (`ulimit -v`), of the container or of the batch system leaves too little memory.";
    NOT_TESTED = "C055" Error "the doctor could not load cuDNN or run a framework to check it"
        by [load, driver, framework_runs]:
        "The doctor does so in a child process, and a limit (`ulimit -n`, `ulimit -u`), TMPDIR or the system kept it from \
         starting one; a static doctor cannot load libraries. This says nothing about cuDNN. The exit status is 3.";
    NO_EFFECT = "C060" Warning "an environment variable has no effect" by [variables]:
        "Its name or its value is misspelled, which the loader ignores, or it names an environment that is gone.";
    FRAMEWORK_NO_CUDNN = "C070" Error "a framework would find no cuDNN" by [frameworks]:
        "The environment lacks the wheel that the framework requires, or the framework searches where nothing is.";
    FRAMEWORK_OLD_CUDNN = "C071" Error "a framework would load a cuDNN that it does not accept" by [frameworks]:
        "Another cuDNN comes first (LD_LIBRARY_PATH, PYTHONPATH, the user's packages), or another package has replaced \
         the one that the framework requires. Frameworks accept the major that they were built for, and its newer minors, \
         for the CUDA major that they were built for.";
    FRAMEWORK_MIX = "C072" Error "a framework would load libraries that do not belong to one cuDNN" by [frameworks]:
        "The framework's own search finds the shim, and LD_LIBRARY_PATH or LD_PRELOAD leads to the libraries of another \
         cuDNN; or a copy or another package has overwritten a file in its directory.";
    FRAMEWORK_PIN = "C073" Warning "a package is not the version that a framework requires" by [frameworks]:
        "Another package was installed later, and replaced it; pip warns of that and goes on.";
    FRAMEWORK_NO_CUDA = "C074" Error "a framework would not find a library of CUDA, or a damaged one" by [frameworks]:
        "The wheels of another CUDA major are installed, or none; or LD_LIBRARY_PATH leads to a damaged file.";
    FRAMEWORK_DRIVER = "C075" Error "the driver is too old for a framework's CUDA release" by [frameworks]:
        "The framework's wheels were built for a newer CUDA than the driver runs.";
    FRAMEWORK_OLD_GPU = "C076" Error "a framework has no kernels for a GPU" by [frameworks]:
        "Releases drop old GPUs, and older releases do not know new ones.";
    FRAMEWORK_PTX = "C077" Note "a framework has only PTX for a GPU" by [frameworks]:
        "The driver compiles PTX when it is first used.";
    FRAMEWORKS_TOGETHER = "C078" Warning "two frameworks disagree about cuDNN in one process" by [frameworks]:
        "A process has one libcudnn.so.9: the one that was loaded first.";
    FRAMEWORK_CPU_ONLY = "C079" Warning "a framework is built without GPU support" by [frameworks]:
        "The CPU build was installed, or replaced the GPU build.";
    PACKAGES_UNREADABLE = "C080" Note "packages could not be examined" by [frameworks]:
        "Their metadata is damaged, they are installed twice, zipped, or from a source directory. A framework's library that \
         this user may not read is an error.";
    PROGRAM_UNREADABLE = "C081" Error "the program cannot be examined" by [program]:
        "The file given by `--for` is no program or library for Linux and this processor.";
    PROGRAM_DEPENDENCY = "C082" Error "the program would not find what it needs" by [program]:
        "ld.so does not find a library, or finds libraries that do not belong together; or the program's ELF interpreter does \
         not exist.";
    PROGRAM_FUNCTION = "C083" Error "the program calls a function that its cuDNN lacks" by [program]:
        "The program was built with a newer cuDNN.";
    PROGRAM_NO_CUDNN = "C084" Note "the program does not refer to cuDNN" by [program]:
        "It may still load libraries that do, or open cuDNN by a name that it puts together.";
    FRAMEWORK_OPTIONAL_CUDNN = "C085" Note "a framework would find no cuDNN, and works without it" by [frameworks]:
        "Only some of its functions use cuDNN.";
    FRAMEWORK_DAMAGED = "C086" Error "a framework's own libraries are missing or damaged" by [frameworks]:
        "An installation was interrupted, or files were deleted or copied for another processor. Files that no import needs \
         are a note.";
    FRAMEWORK_DAMAGED_CUDNN = "C087" Error "the cuDNN of a framework is incomplete or damaged" by [frameworks]:
        "An installation was interrupted, or only some files were copied. Without its heuristics or an engine, cuDNN fails \
         only when it plans an operation.";
    FRAMEWORK_HALF_SEARCHED = "C088" Note "a framework searches for cuDNN where too many files are" by [frameworks]:
        "Its Python code searches a directory and all below it, and the doctor examines a limited number of files: \
         CUDA_HOME=/usr, for example.";
    PROGRAM_OPENS = "C089" Warning "the program contains a name of cuDNN that ld.so does not find" by [program]:
        "Programs that open cuDNN themselves (dlopen) contain its name. It may be installed where ld.so does not search.";
    FRAMEWORK_FAILED = "C090" Error "a framework failed" by [framework_runs]:
        "With `--run`: the framework could not be imported, or its convolution, attention or RNN failed. The message has \
         the first cause, from the framework, from cuDNN's log or from ld.so.";
    FRAMEWORK_ON_CPU = "C091" Warning "a framework computes on the CPU" by [framework_runs]:
        "With `--run`: the framework was built without CUDA, or could not use CUDA, cuDNN or the GPU. Most frameworks then \
         compute on the CPU without an error.";
    FRAMEWORK_ELSEWHERE = "C092" Note "a framework was run with modules from outside of its environment"
        by [framework_runs]:
        "With `--run`: PYTHONHOME or PYTHONPATH leads to another environment, or the interpreter starts another one.";
    PROGRAM_UNLINKED = "C100" Warning "the program calls cuDNN and is not linked to it" by [program]:
        "The library was linked without cuDNN. It works only in a program that has loaded cuDNN for all (RTLD_GLOBAL), or \
         is linked to it. A program that can be started is an error.";
    DROP_IN_REPLACED = "C110" Warning "an upgrade of cuDNN has replaced the drop-in" by [drop_in]:
        "pip, uv and conda replace the files that they have installed, whatever is in them, and leave others: NVIDIA's \
         libcudnn.so.9 is in front again, and what `cudnn-doctor install` has kept is still there.";
    STALE_SHIM = "C111" Warning "the drop-in is in front of a cuDNN whose shim is not kept" by [drop_in]:
        "The libraries of cuDNN were replaced, and the drop-in was not; NVIDIA's shim that `cudnn-doctor install` has kept is \
         of another release, or damaged. `cudnn-doctor uninstall` cannot bring it back.";
    OLD_DROP_IN = "C112" Error "the drop-in lacks functions of NVIDIA's shim" by [drop_in]:
        "The drop-in is older than the cuDNN behind it, and lacks functions that NVIDIA's shim has. A program ends with \
         \"undefined symbol\" if it calls one of these functions: when it starts, or at the first call.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs;
    use std::fmt::Write;

    #[test]
    fn no_two_kinds_share_a_code() {
        for (index, kind) in FINDINGS.iter().enumerate() {
            assert!(FINDINGS.iter().skip(index + 1).all(|other| other.code != kind.code), "{}", kind.code);
        }
    }

    #[test]
    fn docs_findings_lists_every_kind() {
        let mut text = String::from(
            "# Findings of the doctor\n\n\
             The commands of `cudnn-doctor` print these codes. A code never changes its meaning. Each finding has a message\n\
             (what happened and where), notes (the paths, versions and rules behind it) and help (what to do on your machine,\n\
             with commands to paste).\n\n\
             `CUDNN_TESTS_WRITE=1 cargo test -p cudnn-doctor` writes this page.\n\n\
             | code | severity | finding |\n| --- | --- | --- |\n",
        );
        for FindingKind { code, severity, title, .. } in FINDINGS {
            let anchor = docs::anchor(code);
            let _ = writeln!(text, "| [{code}](#{anchor}) | {} | {title} |", severity.as_str());
        }
        for FindingKind { code, severity, title, cause, .. } in FINDINGS {
            let _ = write!(text, "\n## {code}\n\n**{}: {title}**\n\n{}", severity.as_str(), wrapped(cause));
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
            let _ = std::fs::write(file, &text);
        }
        assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), text, "run with CUDNN_TESTS_WRITE=1");
    }

    /// The text in lines of the length that Markdown has here.
    fn wrapped(text: &str) -> String {
        let mut wrapped = String::new();
        let mut width = 0;
        for word in text.split(' ') {
            if width > 0 && width + 1 + word.len() > 118 {
                wrapped.push('\n');
                width = 0;
            }
            if width > 0 {
                wrapped.push(' ');
                width += 1;
            }
            wrapped.push_str(word);
            width += word.len();
        }
        wrapped.push('\n');
        wrapped
    }
}
