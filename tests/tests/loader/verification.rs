//! Tests the checks after ld.so has loaded a library: the version in memory, and that it is the only copy.

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{ChildOutput, FakeLibrary, TempDir, compile};

use super::{JIT, child, graph_with, run};

const FUNCTION: &str = "@cudnnDestroyRNNDescriptor";
const MISMATCH: &str = "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH (1002)";

fn installation(code: &str) -> TempDir {
    let dir = graph_with("");
    FakeLibrary::new(Library::Ops, JIT).build(&dir.file(Library::Ops));
    FakeLibrary::new(Library::Adv, JIT).with_code(code).build(&dir.file(Library::Adv));
    dir
}

fn assert_fails(output: &ChildOutput, reason: &str) {
    assert_eq!(output.returned(FUNCTION), Some(MISMATCH), "{output:#?}");
    let error = output.last_error(FUNCTION);
    assert!(error.contains(reason) && error.contains("help: Restart the program."), "{output:#?}");
}

#[test]
fn a_library_whose_version_in_memory_differs_from_its_file_is_not_called() {
    let output = run(child(installation("").path()), &[FUNCTION]);
    assert_eq!(output.returned(FUNCTION), Some("resolved"), "{output:#?}");
    let dir = installation(
        "#include <sys/mman.h>\n
        extern const unsigned char cudnn_adv_infer_version[4];
        __attribute__((constructor)) static void change(void) {
            unsigned long page = (unsigned long)cudnn_adv_infer_version & ~4095ul;
            mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
            *(volatile unsigned char *)cudnn_adv_infer_version = 7;
        }\n",
    );
    assert_fails(&run(child(dir.path()), &[FUNCTION]), "is cuDNN 9.19.7, but the installation is 9.19.0");
}

#[test]
fn a_second_copy_that_is_loaded_at_the_same_time_is_detected() {
    let (dir, other) = (installation(""), installation(""));
    // Loads the other copy when the loader reads the file, as another thread could do at that moment.
    let preloaded = other.path().join("libmeanwhile.so");
    let code = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <fcntl.h>\n#include <stdarg.h>\n#include <string.h>\n
        #include <sys/syscall.h>\n#include <unistd.h>\n
        int open64(const char *path, int flags, ...) {{
            va_list arguments;
            va_start(arguments, flags);
            int mode = va_arg(arguments, int);
            va_end(arguments);
            if (strcmp(path, {:?}) == 0) dlopen({:?}, RTLD_NOW | RTLD_LOCAL);
            return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
        }}\n",
        dir.file(Library::Adv),
        other.file(Library::Adv)
    );
    compile(&code, &["-shared", "-fPIC", "-w"], &preloaded);
    let output = run(child(dir.path()).env("LD_PRELOAD", &preloaded), &[FUNCTION]);
    let reason = format!("is a second copy: the process has loaded {:?} first", other.file(Library::Adv));
    assert_fails(&output, &reason);
}

#[test]
fn a_library_that_is_left_over_from_a_newer_release_is_not_called_even_if_it_is_loaded() {
    let dir = graph_with("");
    FakeLibrary::new(Library::Ext, Version::new(9, 28, 0)).build(&dir.file(Library::Ext));
    let open = format!("open:{}", dir.file(Library::Ext).display());
    let function = "@cudnnCausalConv1dForward";
    for args in [&[function][..], &[&open, function]] {
        let output = run(child(dir.path()), args);
        assert_eq!(output.returned(function), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{output:#?}");
        assert!(output.last_error(function).contains("is older than this function (it needs 9."), "{output:#?}");
    }
}
