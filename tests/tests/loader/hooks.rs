//! Tests processes in which another library replaces `dlopen` or `dlsym`, as tools that share GPUs and sanitizers do.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use cudnn_loader::DIR_VARIABLE;
use cudnn_os::libraries::Library as LoadedObject;
use cudnn_probe::{Library, Version};
use support::{Child, ChildOutput, FakeLibrary, TempDir, client, compile, drop_in, drop_in_alone, lib_dir};

use super::{DRIVER, JIT, graph_with, run};

fn hook(dir: &TempDir, name: &str, code: &str) -> PathBuf {
    let file = dir.path().join(name);
    let headers = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <string.h>\n";
    compile(&format!("{headers}{code}"), &["-shared", "-fPIC", "-w", "-ldl"], &file);
    file
}

const REAL_DLSYM: &str = "typedef void *lookup(void *, const char *);
    static lookup *real_dlsym(void) {
        static lookup *real;
        if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.2.5\");
        if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.17\");
        if (!real) real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");
        return real;
    }\n";

/// The first one is like tools that share GPUs: it answers names that begin with "cu" from all libraries of the
/// process, where the drop-in exports them.
#[test]
fn a_hook_of_dlsym_changes_neither_the_called_functions_nor_the_version() {
    let (dir, drop_in_dir) = (TempDir::new(), drop_in_alone());
    let bodies = [
        "if (!strncmp(name, \"cu\", 2)) { void *found = real_dlsym()(RTLD_DEFAULT, name); if (found) return found; }",
        "if (!strncmp(name, \"cu\", 2)) return real_dlsym()(RTLD_DEFAULT, name);",
        "if (!strncmp(name, \"cu\", 2)) return abort;",
    ];
    let (Some(jit), Some(client)) = (lib_dir("jit-cu12-9.19.0"), client("client.c", drop_in_dir.path(), &[])) else {
        return;
    };
    for (number, body) in bodies.iter().enumerate() {
        let code =
            format!("{REAL_DLSYM} void *dlsym(void *at, const char *name) {{ {body} return real_dlsym()(at, name); }}");
        let hook = hook(&dir, &format!("libhook{number}.so"), &code);
        for layers in ["", "explain,validate,errata,tuned,capture,plans,trace"] {
            let child = Child::bare(client.path().join("client"))
                .env("LD_LIBRARY_PATH", drop_in_dir.path())
                .env("LD_PRELOAD", &hook)
                .env(DIR_VARIABLE, &jit)
                .env("CUDNN_LAYER_PATH", drop_in().join("lib"))
                .env("CUDNN_LAYERS", layers)
                .within(dir.path());
            let output = run(child, &["cudnnGetVersion", "cudnnDestroy"]);
            assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{body} {layers:?} {output:#?}");
            let returned = output.returned("cudnnDestroy").unwrap_or_default();
            assert!(returned.starts_with("CUDNN_STATUS_"), "{body} {layers:?} {output:#?}");
            assert!(!output.last_error("cudnnDestroy").contains("cannot be called"), "{body} {layers:?} {output:#?}");
        }
    }
}

fn with_hook(hook: &Path, dir: &Path) -> Child {
    Child::bare(DRIVER).env(DIR_VARIABLE, dir).env("LD_PRELOAD", hook)
}

/// Returns the library of a hook that replaces `dlopen` for files of cuDNN.
fn dlopen_hook(dir: &TempDir, answer: &str) -> PathBuf {
    let code = format!(
        "void *dlopen(const char *file, int flags) {{
            void *(*real)(const char *, int) = dlsym(RTLD_NEXT, \"dlopen\");
            if (file && strstr(file, \"libcudnn\")) {{ {answer} }}
            return real(file, flags);
        }}"
    );
    hook(dir, "libdlopenhook.so", &code)
}

#[test]
fn a_hook_of_dlopen_that_opens_the_file_in_another_way_is_harmless() {
    let (dir, hooks) = (graph_with(""), TempDir::new());
    for answer in [
        "return real(file, flags | RTLD_GLOBAL);",
        "return real(file, flags | RTLD_DEEPBIND);",
        "return real(file, RTLD_LAZY | RTLD_GLOBAL);",
        "return real(file, flags) ? (void *)-1 : 0;",
    ] {
        let output = run(with_hook(&dlopen_hook(&hooks, answer), dir.path()), &["cudnnGetVersion"]);
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{answer} {output:#?}");
    }
}

#[test]
fn a_hook_of_dlopen_that_opens_something_else_is_named() {
    let (dir, elsewhere, hooks) = (graph_with(""), TempDir::new(), TempDir::new());
    FakeLibrary::new(Library::Graph, JIT).build(&elsewhere.file(Library::Graph));
    let other = format!("return real(\"{}\", flags);", elsewhere.file(Library::Graph).display());
    let test = "a_hook_of_dlopen_that_opens_something_else_is_named, by its handle";
    let is_emulated = support::is_emulated(test, "an emulator lacks process_vm_readv");
    for (answer, opened) in [
        ("return 0;", "opened nothing instead"),
        ("return (void *)-1;", "opened nothing instead"),
        ("return dlmopen(LM_ID_NEWLM, file, flags & ~RTLD_GLOBAL);", "opened nothing instead"),
        ("return real(0, flags);", if is_emulated { "instead" } else { "/driver\" instead" }),
        (other.as_str(), "instead"),
    ] {
        let hook = dlopen_hook(&hooks, answer);
        let output: ChildOutput = run(with_hook(&hook, dir.path()), &["cudnnDestroy"]);
        let returned = output.returned("cudnnDestroy").unwrap_or_default();
        assert!(returned.ends_with("(1008)") || returned.ends_with("(1002)"), "{answer} {output:#?}");
        let error = output.last_error("cudnnDestroy");
        for text in [opened, &hook.display().to_string(), "help: Run the program without"] {
            assert!(error.contains(text), "{text} {answer} {output:#?}");
        }
        if answer == other && !is_emulated {
            assert!(error.contains(&elsewhere.file(Library::Graph).display().to_string()), "{output:#?}");
        }
    }
}

/// Returns a graph library that opens its heuristics by name, like the real one.
fn graph_with_heuristics() -> TempDir {
    let dir = graph_with(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n
        int cudnnBackendFinalize(void *descriptor) {
            return dlopen(\"libcudnn_heuristic.so.9\", RTLD_NOW) ? 0 : 1008;
        }",
    );
    FakeLibrary::new(Library::Heuristic, JIT).build(&dir.file(Library::Heuristic));
    dir
}

/// With a replaced `dlopen`, ld.so does not apply the run path of graph, because another library is the caller.
#[test]
fn graph_finds_its_engines_if_another_library_replaces_dlopen() {
    let dir = graph_with_heuristics();
    let hooks = TempDir::new();
    let output = run(with_hook(&dlopen_hook(&hooks, ""), dir.path()), &["cudnnBackendFinalize"]);
    assert_eq!(output.returned("cudnnBackendFinalize"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
}

#[test]
fn a_hook_of_dlopen_that_opens_engines_of_another_release_is_noticed_before_cudnn_plans() {
    let dir = graph_with_heuristics();
    let (elsewhere, hooks) = (TempDir::new(), TempDir::new());
    FakeLibrary::new(Library::Heuristic, Version::new(9, 14, 0)).build(&elsewhere.file(Library::Heuristic));
    let other = elsewhere.file(Library::Heuristic).display().to_string();
    let answer = format!("if (strstr(file, \"heuristic\")) return real(\"{other}\", flags);");
    let output = run(with_hook(&dlopen_hook(&hooks, &answer), dir.path()), &["cudnnBackendFinalize"]);
    assert_ne!(output.returned("cudnnBackendFinalize"), Some("CUDNN_STATUS_SUCCESS (0)"), "{output:#?}");
    assert!(output.last_error("cudnnBackendFinalize").contains(&other), "{output:#?}");
}

/// The loader reads these tables itself, so that no hook of `dlsym` matters.
#[test]
fn exported_symbols_are_found_in_both_kinds_of_hash_tables() {
    let dir = TempDir::new();
    let code: String = (0..50).map(|number| format!("int function{number}(void) {{ return {number}; }}\n")).collect();
    let others = "extern int getpid(void); static int hidden(void) { return 0; }
        int uses(void) { return hidden() + getpid(); }";
    for style in ["gnu", "sysv"] {
        let file = dir.path().join(format!("lib{style}.so"));
        compile(&format!("{code}{others}"), &["-shared", "-fPIC", &format!("-Wl,--hash-style={style}")], &file);
        // SAFETY: the library has no constructors.
        let library = unsafe { LoadedObject::open(&file) }.unwrap();
        for number in 0..50 {
            let address = library.symbol(&CString::new(format!("function{number}")).unwrap()).unwrap();
            // SAFETY: the code above defines the function with this type.
            let function: extern "C" fn() -> i32 = unsafe { cudnn_os::functions::pointer_as(address) };
            assert_eq!(function(), number, "{style}");
        }
        for name in [c"hidden", c"getpid", c"function50", c""] {
            assert_eq!(library.symbol(name), None, "{style} {name:?}");
        }
    }
}
