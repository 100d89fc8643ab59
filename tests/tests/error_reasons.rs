//! Checks the reasons of failures in `cudnnGetErrorString`, with `CUDNN_LOADER_VERBOSE_ERRORS=1`.

use cudnn_loader::{DIR_VARIABLE, VERBOSE_VARIABLE};
use support::{Child, ChildOutput, FakeLibrary, Library, TempDir, Version, compile};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");

/// cuDNN's error functions. A failed call sets the text, fetching clears it, and a successful call leaves it unchanged.
const ERRORS: &str = r#"
    #include <stdio.h>
    #include <string.h>
    static __thread char text[400];
    const char *cudnnGetErrorString(int status) { return status == 3000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER"; }
    void cudnnGetLastErrorString(char *message, unsigned long long size) {
        fprintf(stderr, "fetched\n");
        snprintf(message, size, "%s", text);
        text[0] = 0;
    }
    int cudnnCreate(void *handle) { strcpy(text, "nBlocks.y > 65535"); return 3000; }
    int cudnnDestroy(void *handle) { strcpy(text, "err 710\n at: launch\n"); return 5000; }
    int cudnnGetStream(void *handle, void *stream) { return 3000; }
    struct debug { unsigned version; int status; char rest[200]; };
    typedef void (*callback)(int, void *, const struct debug *, const char *);
    static callback function; static void *data; static unsigned mask;
    int cudnnSetCallback(unsigned new_mask, void *new_data, callback new_function) {
        fprintf(stderr, "mask %u\n", new_mask);
        mask = new_mask; data = new_data; function = new_function;
        return 0;
    }
    int cudnnGetCallback(unsigned *its_mask, void **its_data, callback *its_function) {
        *its_mask = mask; *its_data = data; *its_function = function;
        return 0;
    }
    /* What is not supported is a warning, and leaves no text. */
    int cudnnSetStream(void *handle, void *stream) {
        static const struct debug debug = { 91900, 3000 };
        static const char lines[] = "CuDNN (v91900) function cudnnSetStream() called:\0"
            "        Warning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: nBlocks.y > 65535\0"
            "        Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: finalize_internal()\0";
        if (function && (mask & 4)) function(2, data, &debug, lines);
        return 3000;
    }
    #define cudnnSetCallback(mask, data, function) unused6(mask, data, function)
    #define cudnnGetCallback(mask, data, function) unused7(mask, data, function)
    #define cudnnSetStream(handle, stream) unused8(handle, stream)
    #define cudnnGetErrorString(status) unused1(status)
    #define cudnnGetLastErrorString(message, size) unused2(message, size)
    #define cudnnCreate(handle) unused3(handle)
    #define cudnnDestroy(handle) unused4(handle)
    #define cudnnGetStream(handle, stream) unused5(handle, stream)
"#;

/// A driver with two devices (compute capability 9.0), the second one current, and full memory or a failed kernel.
const CUDA: &str = r#"
    int cuCtxGetCurrent(void **context) { *context = context; return 0; }
    int cuCtxGetDevice(int *device) { *device = 1; return 0; }
    int cuDeviceGetCount(int *count) { *count = 2; return 0; }
    int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
    int cuMemGetInfo_v2(unsigned long *free, unsigned long *total) {
        *free = 3 << 20; *total = 80ul << 30;
        return ERROR;
    }
    int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_ASSERT"; return 0; }
"#;

struct World(TempDir);

impl World {
    fn new() -> Self {
        let dir = TempDir::new();
        FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(ERRORS).build(&dir.file(Library::Graph));
        World(dir)
    }

    fn run(&self, verbose: &str, args: &[&str]) -> ChildOutput {
        let child = Child::bare(DRIVER).env(DIR_VARIABLE, self.0.path()).env(VERBOSE_VARIABLE, verbose);
        child.run_successfully(args)
    }

    /// Returns an argument that lets the driver open a fake CUDA library with memory functions that return this error.
    fn cuda(&self, error: u32) -> String {
        let file = self.0.path().join("libcuda.so.1");
        let flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", &format!("-DERROR={error}")];
        compile(CUDA, &flags, &file);
        format!("open:{}", file.display())
    }
}

/// Returns the output lines for the arguments after the first failing call.
fn lines(output: &ChildOutput) -> Vec<&str> {
    output.stdout.lines().skip_while(|line| !line.starts_with("error-string")).collect()
}

#[test]
fn a_failure_of_cudnn_is_explained() {
    let world = World::new();
    let error_string = |args: &[&str]| {
        let output = world.run("1", args);
        output.returned("error-string").map(str::to_owned)
    };
    for (call, status, expected) in [
        ("~cudnnCreate", "3000", "CUDNN_STATUS_NOT_SUPPORTED: nBlocks.y > 65535"),
        ("~cudnnDestroy", "5000", "CUDNN_STATUS_OTHER: err 710; at: launch"),
        // A warning without an error text.
        ("~cudnnSetStream", "3000", "CUDNN_STATUS_NOT_SUPPORTED: nBlocks.y > 65535"),
        // A failure without an error text.
        ("~cudnnGetStream", "3000", "CUDNN_STATUS_NOT_SUPPORTED"),
    ] {
        let found = error_string(&[call, &format!("error-string:{status}")]);
        assert_eq!(found.as_deref(), Some(expected), "{call}");
    }
    assert_eq!(error_string(&["~cudnnCreate", "error-string:0"]).as_deref(), Some("CUDNN_STATUS_OTHER"));
    // The last failure counts, and repeated calls return the same text.
    let output = world
        .run("1", &["~cudnnCreate", "error-string:3000", "~cudnnDestroy", "error-string:5000", "error-string:5000"]);
    assert_eq!(
        lines(&output).into_iter().filter(|line| line.starts_with("error-string")).collect::<Vec<_>>(),
        [
            "error-string = CUDNN_STATUS_NOT_SUPPORTED: nBlocks.y > 65535",
            "error-string = CUDNN_STATUS_OTHER: err 710; at: launch",
            "error-string = CUDNN_STATUS_OTHER: err 710; at: launch",
        ]
    );
}

/// The program receives the same error text as without the variable.
#[test]
fn verbose_errors_do_not_change_the_last_error_text() {
    let world = World::new();
    for args in [
        &["~cudnnCreate", "error-string:3000", "last", "last"][..],
        &["~cudnnCreate", "error-string:3000", "error-string:3000", "last", "last"],
        &["~cudnnCreate", "error-string:3000", "~cudnnDestroy", "last", "last"],
        &["~cudnnDestroy", "error-string:5000", "~cudnnGetStream", "last", "last"],
        &["~cudnnCreate", "last", "error-string:3000", "last"],
        // The loader's own failure is newer than cuDNN's, and vice versa.
        &["~cudnnCreate", "error-string:3000", "~cudnnCreateTensorDescriptor", "last", "last"],
        &["~cudnnCreateTensorDescriptor", "error-string:3009", "~cudnnCreate", "error-string:3000", "last", "last"],
    ] {
        let last = |verbose: &str| {
            let output = world.run(verbose, args);
            let without = |line: &&str| !line.starts_with("error-string");
            output.stdout.lines().filter(without).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(last("1"), last("0"), "{args:?}");
    }
}

/// The loader installs its own callback but forwards all requested messages to the program's callback.
#[test]
fn verbose_errors_do_not_change_the_calls_of_the_programs_callback() {
    let world = World::new();
    for mask in ["0", "2", "4", "14"] {
        let set = format!("callback:{mask}");
        for args in [
            &["get-callback", "~cudnnSetStream"][..],
            &[&set, "get-callback", "~cudnnSetStream", "get-callback"],
            &["~cudnnSetStream", &set, "~cudnnSetStream", "get-callback"],
        ] {
            let seen = |verbose: &str| {
                let output = world.run(verbose, args);
                // The number of retries for a missing library depends on timing.
                let without = |line: &&str| !line.contains("function cudnn_loader::");
                output.stdout.lines().filter(without).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(seen("1"), seen("0"), "{args:?}");
        }
    }
    let output = world.run("1", &["log:quiet", "~cudnnSetStream", "error-string:3000"]);
    assert!(output.returned("error-string").unwrap().ends_with("nBlocks.y > 65535"), "{output:#?}");
}

/// cuDNN writes no log while a callback is installed, so the loader installs none if a log is enabled.
#[test]
fn verbose_errors_do_not_replace_a_log_enabled_by_the_environment() {
    let world = World::new();
    let child = Child::bare(DRIVER).env(DIR_VARIABLE, world.0.path()).env(VERBOSE_VARIABLE, "1");
    let output = child.env("CUDNN_LOGLEVEL_DBG", "2").env("CUDNN_LOGDEST_DBG", "NULL").run(&["~cudnnSetStream"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:#?}");
}

#[test]
fn without_the_variable_no_error_text_is_fetched() {
    let output = World::new().run("0", &["~cudnnCreate", "error-string:3000"]);
    assert_eq!(output.returned("error-string"), Some("CUDNN_STATUS_NOT_SUPPORTED"));
    assert_eq!(output.stderr, "", "{output:#?}");
}

#[test]
fn the_device_is_described_if_it_may_be_the_cause() {
    let world = World::new();
    let of = " is 1 of 2";
    for (error, call, status, expected) in [
        (
            0,
            "~cudnnCreate",
            "3000",
            "nBlocks.y > 65535 (cuDNN 9.19.0, compute capability 9.0, this thread's device is 1 of 2)",
        ),
        (
            0,
            "~cudnnDestroy",
            "5000",
            "err 710; at: launch (device 1: 3.0 MiB of 80.0 GiB free, this thread's device is 1 of 2)",
        ),
        (
            710,
            "~cudnnDestroy",
            "5000",
            "err 710; at: launch (device 1: CUDA reports error 710 (CUDA_ERROR_ASSERT), this thread's device is 1 of 2)",
        ),
        (
            0,
            "~cudnnGetStream",
            "3000",
            "CUDNN_STATUS_NOT_SUPPORTED (cuDNN 9.19.0, compute capability 9.0, this thread's device is 1 of 2)",
        ),
    ] {
        let output = world.run("1", &[&world.cuda(error), call, &format!("error-string:{status}")]);
        let found = output.returned("error-string").unwrap();
        assert!(found.ends_with(expected) && found.contains(of), "{found}");
    }
}

/// Old releases return a different last-error text while a log callback is installed, so the loader installs none.
#[test]
#[ignore = "downloads full releases of cuDNN"]
fn verbose_errors_do_not_change_the_last_error_text_of_any_release() {
    for (id, kinds) in [("cu12-9.0.0", &[2, 3][..]), ("cu12-9.10.2", &[1, 2, 5]), ("cu12-9.28.0", &[1, 2, 5])] {
        let Some(dir) = support::lib_dir(id) else { return };
        for kind in kinds {
            let last = |verbose: &str| {
                let child = Child::bare(DRIVER).env(DIR_VARIABLE, &dir).env(VERBOSE_VARIABLE, verbose);
                let output = child.run(&[&format!("finalize:{kind}"), "error-string:2000", "last"]);
                assert_eq!(output.code, Some(0), "{id}: {output:#?}");
                let without = |line: &&str| !line.starts_with("error-string");
                output.stdout.lines().filter(without).map(str::to_owned).collect::<Vec<_>>()
            };
            let unasked = last("0");
            assert!(unasked.len() > 1, "{id}: {unasked:?}");
            assert_eq!(last("1"), unasked, "{id}");
        }
    }
}
