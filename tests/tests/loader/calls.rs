//! Tests single calls: the libraries that they load, the result, and the error text.

use cudnn_loader::{DIR_VARIABLE, Function};
use cudnn_probe::Library;
use support::{Child, lib_dir};

use super::{DRIVER, JIT, child, complete_jit, graph_with, mapped, run};

#[test]
fn every_function_has_the_name_and_signature_of_its_cudnn_sys_declaration() {
    macro_rules! same {
        ($($library:ident { $(
            since($($since:literal),*) deprecated($deprecated:literal)
            fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
        )* })*) => { $(
            #[allow(unused_imports, deprecated, reason = "all signatures and the types that they need")]
            mod $library {
                use cudnn_sys::types::*;
                // Compiled, but not linked or run.
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$library::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_sys::$name; )*
            }
        )* };
    }
    cudnn_sys::for_each_function!(same);
}

#[test]
fn the_first_call_loads_only_the_required_libraries() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    assert_eq!(mapped(&run(child(&dir), &["maps"])).len(), 0);
    let output = run(child(&dir), &["cudnnGetVersion", "maps"]);
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"));
    let graph = std::fs::canonicalize(dir.join("libcudnn_graph.so.9")).unwrap();
    assert_eq!(mapped(&output), [graph]);
    // The functions that the loader implements itself load no library.
    assert_eq!(mapped(&run(child(&dir), &["cudnnGetErrorString", "cudnnGetLastErrorString", "maps"])).len(), 0);
    let complete = complete_jit(&dir);
    let output = run(child(complete.path()), &["cudnnDestroyConvolutionDescriptor", "maps"]);
    let names: Vec<String> =
        mapped(&output).iter().filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect();
    for library in [Library::Graph, Library::Ops, Library::Cnn] {
        assert!(names.iter().any(|name| name.starts_with(library.file_name())), "{output:#?}");
    }
    assert_eq!(names.len(), 3, "{output:#?}");
}

#[test]
fn last_errors_are_reported_once_and_the_newest_first() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let cudnns = "handle == __null";
    let loaders = "cudnnDestroyTensorDescriptor cannot be called: ";
    let message_after = |args: &[&str]| {
        let output = run(child(&dir), args);
        let (_, after) = output.stdout.rsplit_once(" = ").unwrap();
        after.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    for (args, wanted, unwanted) in [
        (&["~cudnnCreate", "last"][..], cudnns, loaders),
        (&["~cudnnDestroyTensorDescriptor", "last"], loaders, cudnns),
        (&["~cudnnCreate", "~cudnnDestroyTensorDescriptor", "last"], loaders, cudnns),
        (&["~cudnnDestroyTensorDescriptor", "~cudnnCreate", "last"], cudnns, loaders),
    ] {
        let message = message_after(args);
        assert!(message.contains(wanted) && !message.contains(unwanted), "{args:?}: {message}");
        let twice: Vec<&str> = args.iter().copied().chain(["last"]).collect();
        assert_eq!(message_after(&twice), message, "the first call clears it: {args:?}");
        let load_error: Vec<&str> = args.iter().copied().chain(["load-error"]).collect();
        let both = message_after(&load_error);
        let expected = usize::from(args.contains(&"~cudnnDestroyTensorDescriptor"));
        assert_eq!(both.strip_prefix(&*message).unwrap().matches(loaders).count(), expected, "{args:?}: {both}");
    }
    // Errors are per thread.
    assert_eq!(message_after(&["~cudnnDestroyTensorDescriptor", "last-of-other-thread"]), "");
}

#[test]
fn the_error_for_a_newer_function_names_the_release_that_added_it() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let newer: Vec<&Function> = Function::ALL.iter().filter(|function| function.since() > JIT).collect();
    assert!(!newer.is_empty());
    for function in newer {
        let output = run(child(&dir), &[function.name()]);
        let message = output.last_error(function.name());
        assert_eq!(output.returned(function.name()), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{output:#?}");
        for fragment in [
            &format!("{function} cannot be called: cuDNN 9.19.0 in "),
            "is older than this function",
            &format!("cuDNN {}", function.since()),
        ] {
            assert!(message.contains(fragment), "{fragment}: {message}");
        }
    }
}

#[test]
fn any_symbol_loads_its_library_and_a_missing_symbol_is_named() {
    let dir = graph_with("");
    let output = run(child(dir.path()), &["graph:cudnn_graph_version", "graph:cudnnOfNoRelease"]);
    let file = dir.file(Library::Graph);
    let loaded = format!("loaded = Some(({file:?}, Some({JIT:?}))) of Some({:?})", dir.path());
    assert!(output.stdout.starts_with("loaded = None of None\ncudnn_graph_version = [0, 19, 9, 0]\n"), "{output:#?}");
    assert_eq!(output.stdout.lines().filter(|line| *line == loaded).count(), 3, "{loaded}: {output:#?}");
    assert_eq!(output.returned("cudnnOfNoRelease"), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{output:#?}");
    let error = output.last_error("cudnnOfNoRelease");
    assert!(error.starts_with(&format!("{file:?} does not export \"cudnnOfNoRelease\"\nhelp: ")), "{output:#?}");
}

#[test]
fn a_checked_call_reports_the_failure_with_the_text_of_cudnn_or_the_loader() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let output = run(child(&real), &["check"]);
    assert_eq!(
        output.returned("check"),
        Some(
            "cudnnBackendFinalize returned CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002): nullptr == descriptor; category \
             CUDNN_STATUS_BAD_PARAM (2000)"
        ),
        "{output:#?}"
    );
    let output = run(Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere"), &["check"]);
    assert!(output.stdout.contains("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008): cannot be called: "), "{output:#?}");
    assert!(output.stdout.contains("help: "), "{output:#?}");
}

#[test]
fn cudnns_log_reaches_a_closure_parsed_and_panics_of_the_closure_are_contained() {
    for id in ["jit-cu12-9.19.0", "jit-cu13-9.27.0"] {
        let Some(real) = lib_dir(id) else { return };
        for arg in ["log", "log:panic"] {
            let output = run(child(&real), &[arg, "~cudnnBackendFinalize", "check", "cudnnGetVersion"]);
            assert_eq!(output.returned("log"), Some("Ok(())"), "{output:#?}");
            let has = |text: &str| output.stdout.lines().any(|line| line.starts_with(text));
            assert!(has("event info: cudnnBackendFinalize(descriptor=NULL_PTR): 0 Some("), "{output:#?}");
            let error =
                "event error: cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM_NULL_POINTER: nullptr == descriptor: 2002";
            assert!(has(error), "{output:#?}");
            // Without a handle, cuDNN does not set the device.
            assert!(output.stdout.lines().filter(|line| line.starts_with("event")).all(|line| line.ends_with("None")));
            assert!(output.returned("cudnnGetVersion").is_some_and(|version| version != "0"), "{output:#?}");
        }
    }
}
