//! Tests the loader in programs that change their own process: programs that change the environment, fork, handle
//! crashes, run with another user's rights, or replace files at the wrong moment.

use std::process::Command;

use cudnn_loader::{DIR_VARIABLE, VERBOSE_VARIABLE};
use support::{Child, ChildOutput, TempDir, compile, graph_with, not_run};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

fn run(child: Child, args: &[&str]) -> ChildOutput {
    child.run_successfully(args)
}

#[test]
fn an_error_string_does_not_read_an_environment_that_another_thread_changes() {
    if support::is_emulated(
        "an_error_string_does_not_read_an_environment_that_another_thread_changes",
        "an emulator is slow",
    ) {
        return;
    }
    let dir = graph_with("");
    for _ in 0..3 {
        let output = run(Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()), &["setenv"]);
        assert_eq!(output.returned("setenv"), Some("done"), "{output:#?}");
    }
}

#[test]
fn a_forked_child_does_not_wait_for_the_lock_of_verbose_error_strings() {
    let nowhere = Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere").env(VERBOSE_VARIABLE, "1");
    let output = run(nowhere, &["fork-during-error-strings"]);
    assert_eq!(output.returned("children that hung"), Some("0"), "{output:#?}");
}

/// cuDNN's error functions take the log's lock, which another thread of the parent may have held during the fork.
#[test]
fn a_failed_call_in_a_forked_child_does_not_wait_for_cudnns_log() {
    let dir = graph_with(
        "#include <unistd.h>\n\
         static int owner;\n\
         __attribute__((constructor)) static void note(void) { owner = getpid(); }\n\
         void cudnnGetLastErrorString(char *message, unsigned long long size) {\n\
             while (getpid() != owner) pause();\n\
             if (size) *message = 0;\n\
         }\n\
         #define cudnnGetLastErrorString(message, size) unused(message, size)\n",
    );
    let child = Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()).env(VERBOSE_VARIABLE, "1");
    let output = run(child, &["fork-after-failure"]);
    assert_eq!(output.returned("the child exited with"), Some("0"), "{output:#?}");
}

#[test]
fn a_crash_in_a_thread_of_a_preload_reaches_the_programs_handler() {
    let dir = graph_with("__attribute__((constructor)) static void crash(void) { *(volatile int *)0 = 0; }");
    for preload in ["preload:background", "preload:"] {
        let output = Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()).run(&["handle-crashes", preload]);
        assert_eq!(output.code, Some(42), "{preload}: {output:#?}");
        assert!(output.stdout.contains("the crash handler ran"), "{preload}: {output:#?}");
    }
}

#[test]
fn only_the_status_of_the_last_error_has_a_verbose_error_string() {
    for (variable, status, expected) in [
        ("1", "1008", "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED: cudnnCreate cannot be called: no usable cuDNN 9 found"),
        ("1", "3000", "CUDNN_STATUS_NOT_SUPPORTED"),
        ("0", "1008", "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"),
    ] {
        let nowhere = Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere").env(VERBOSE_VARIABLE, variable);
        let output = run(nowhere, &["~cudnnCreate", &format!("error-string:{status}")]);
        let text = output.returned("error-string").unwrap();
        assert_eq!(text.split(": \"").next(), Some(expected), "{variable} {status}: {output:#?}");
    }
}

#[test]
fn the_variable_of_verbose_error_strings_is_read_when_the_program_is_loaded() {
    for (at_start, later) in [("1", "0"), ("0", "1")] {
        let nowhere = Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere").env(VERBOSE_VARIABLE, at_start);
        let set = format!("setenv:{VERBOSE_VARIABLE}={later}");
        let output = run(nowhere, &[&set, "~cudnnCreate", "error-string:1008"]);
        let text = output.returned("error-string").unwrap();
        assert_eq!(text.contains("cannot be called"), at_start == "1", "{output:#?}");
    }
}

/// An allocator may take locks of its own, wait for a thread that waits for ld.so, or throw.
#[test]
fn the_loader_does_not_allocate_while_ld_so_holds_its_locks() {
    let dir = graph_with("");
    // A library for LD_PRELOAD that detects allocations in callbacks of `dl_iterate_phdr`.
    let guard = dir.path().join("libguard.so");
    let code = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <link.h>\n#include <stdlib.h>\n#include <unistd.h>\n
        typedef int callback(struct dl_phdr_info *, size_t, void *);
        extern void *__libc_malloc(size_t);
        extern void *__libc_realloc(void *, size_t);
        static __thread int inside;
        static __thread struct { callback *function; void *data; } now;
        static int call(struct dl_phdr_info *info, size_t size, void *unused) {
            inside++;
            int result = now.function(info, size, now.data);
            inside--;
            return result;
        }
        int dl_iterate_phdr(callback *function, void *data) {
            int (*real)(callback *, void *) = dlsym(RTLD_NEXT, \"dl_iterate_phdr\");
            now.function = function;
            now.data = data;
            write(1, \"iterated\\n\", 9);
            return real(call, 0);
        }
        static void check(void) { if (inside) { write(1, \"allocated\\n\", 10); } }
        void *malloc(size_t size) { check(); return __libc_malloc(size); }
        void *realloc(void *at, size_t size) { check(); return __libc_realloc(at, size); }";
    compile(code, &["-shared", "-fPIC", "-w", "-ldl"], &guard);
    let child = Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()).env("LD_PRELOAD", &guard);
    let output = run(child, &["cudnnGetVersion"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
    assert!(output.stdout.contains("iterated\n") && !output.stdout.contains("allocated\n"), "{output:#?}");
}

#[test]
fn a_setuid_program_has_no_verbose_error_strings() {
    if support::is_emulated("a_setuid_program_has_no_verbose_error_strings", "an emulator ignores the set-user-ID bit")
    {
        return;
    }
    if !cudnn_os::rights::is_root() {
        not_run(
            "a_setuid_program_has_no_verbose_error_strings",
            "only root can make a program setuid for another user",
        );
        return;
    }
    let dir = TempDir::new();
    let program = dir.path().join("driver");
    support::copy_program(DRIVER, &program);
    let args = ["cudnnCreate", "error-string:1008"];
    let error_string = || {
        let child = Child::bare(&program).env(VERBOSE_VARIABLE, "1").without_privileges();
        run(child, &args).returned("error-string").unwrap().to_owned()
    };
    assert!(error_string().contains("cannot be called"), "{}", error_string());
    for command in [["chown", "65533"], ["chmod", "u+s"]] {
        assert!(Command::new(command[0]).arg(command[1]).arg(&program).status().unwrap().success());
    }
    assert_eq!(error_string(), "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
}

#[test]
fn a_file_that_becomes_a_pipe_at_the_wrong_moment_does_not_hang_the_loader() {
    let dir = graph_with("");
    // A library for LD_PRELOAD that replaces graph by a pipe after the first `statx` of the file.
    let swap = dir.path().join("libswap.so");
    let code =
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/stat.h>\n
        #include <unistd.h>\n
        int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
            int (*real)(int, const char *, int, unsigned, struct statx *) = dlsym(RTLD_NEXT, \"statx\");
            int result = real(dir, path, flags, mask, out);
            static int swapped;
            if (!result && strstr(path, \"libcudnn_graph.so.9\") && S_ISREG(out->stx_mode) && !swapped++) {
                unlink(path);
                mkfifo(path, 0644);
                fputs(\"swapped\\n\", stderr);
            }
            return result;
        }";
    compile(code, &["-shared", "-fPIC", "-ldl"], &swap);
    let child = Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()).env("LD_PRELOAD", &swap);
    let output = run(child, &["cudnnGetVersion"]);
    assert!(output.stderr.contains("swapped"), "{output:#?}");
    assert!(output.last_error("cudnnGetVersion").contains("a pipe, a socket or a device"), "{output:#?}");
}

#[test]
fn a_sandbox_may_deny_seeking_and_reading_links() {
    if support::is_emulated("a_sandbox_may_deny_seeking_and_reading_links", "an emulator does not support filters") {
        return;
    }
    let dir = graph_with("");
    let sandbox = dir.path().join("libsandbox.so");
    let code = "#include <errno.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n#include <stddef.h>\n\
        #include <stdlib.h>\n#include <sys/prctl.h>\n#include <sys/syscall.h>\n\
        __attribute__((constructor)) static void deny(void) {\n\
            struct sock_filter filter[] = {\n\
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lseek, 2, 0),\n\
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlinkat, 1, 0),\n\
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),\n\
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),\n\
            };\n\
        #ifdef SYS_readlink\n\
            filter[2].k = SYS_readlink;\n\
        #endif\n\
            struct sock_fprog program = {sizeof filter / sizeof *filter, filter};\n\
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();\n\
        }";
    compile(code, &["-shared", "-fPIC"], &sandbox);
    let child = Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()).env("LD_PRELOAD", &sandbox);
    let output = run(child, &["cudnnGetVersion"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
}

#[test]
fn a_panic_in_a_log_hook_is_contained_even_if_its_payload_panics_again() {
    let dir = graph_with("");
    for hook in ["log:panic", "log:panic-on-drop"] {
        let output = run(
            Child::bare(DRIVER).env(DIR_VARIABLE, dir.path()),
            &[hook, "cudnnGetVersion", "~cudnnDestroyTensorDescriptor"],
        );
        assert!(output.stdout.contains("event "), "{hook}: {output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{hook}: {output:#?}");
    }
}
