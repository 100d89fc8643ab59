//! What one call loads, what it returns, and the error text it leaves.

use cudnn_loader::{DIR_VARIABLE, Function};
use cudnn_probe::Library;
use support::{Child, lib_dir};

use super::{DRIVER, JIT, child, completed, mapped, run};

#[test]
fn every_function_has_the_name_and_signature_of_its_cudnn_sys_declaration() {
    macro_rules! same {
        ($($library:ident { $(
            $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
            fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
        )* })*) => { $(
            #[allow(unused_imports, reason = "the types that the signatures need")]
            mod $library {
                use cudnn_sys::types::*;
                // Compiled, never run: nothing is linked here.
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_loader::$library::$name; )*
                $( const _: unsafe extern "C" fn($($type),*) -> $returns = cudnn_sys::$name; )*
            }
        )* };
    }
    cudnn_sys::for_each_function!(same);
}

#[test]
fn nothing_is_loaded_before_the_first_call_and_then_only_what_it_needs() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    assert_eq!(mapped(&run(child(&folder), &["maps"])).len(), 0);
    let ended = run(child(&folder), &["cudnnGetVersion", "maps"]);
    assert_eq!(ended.returned("cudnnGetVersion"), Some("91900"));
    let graph = std::fs::canonicalize(folder.join("libcudnn_graph.so.9")).unwrap();
    assert_eq!(mapped(&ended), [graph]);
    // The functions that are served without cuDNN load none.
    assert_eq!(mapped(&run(child(&folder), &["cudnnGetErrorString", "cudnnGetLastErrorString", "maps"])).len(), 0);
    let complete = completed(&folder);
    let ended = run(child(complete.path()), &["cudnnDestroyConvolutionDescriptor", "maps"]);
    let names: Vec<String> =
        mapped(&ended).iter().filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect();
    for library in [Library::Graph, Library::Ops, Library::Cnn] {
        assert!(names.iter().any(|name| name.starts_with(library.file_name())), "{ended:#?}");
    }
    assert_eq!(names.len(), 3, "{ended:#?}");
}

#[test]
fn each_last_error_is_reported_once_and_the_newest_first() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    let of_cudnn = "handle == __null";
    let of_ours = "cudnnDestroyTensorDescriptor (in libcudnn_ops.so.9 since cuDNN 9.0.0) cannot be called";
    let story_after = |words: &[&str]| {
        let ended = run(child(&folder), words);
        let (_, after) = ended.stdout.rsplit_once(" = ").unwrap();
        after.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    for (words, wanted, unwanted) in [
        (&["~cudnnCreate", "last"][..], of_cudnn, of_ours),
        (&["~cudnnDestroyTensorDescriptor", "last"], of_ours, of_cudnn),
        (&["~cudnnCreate", "~cudnnDestroyTensorDescriptor", "last"], of_ours, of_cudnn),
        (&["~cudnnDestroyTensorDescriptor", "~cudnnCreate", "last"], of_cudnn, of_ours),
    ] {
        let story = story_after(words);
        assert!(story.contains(wanted) && !story.contains(unwanted), "{words:?}: {story}");
        let twice: Vec<&str> = words.iter().copied().chain(["last"]).collect();
        assert_eq!(story_after(&twice), story, "fetched, it is gone: {words:?}");
    }
    // It is the thread's own.
    assert_eq!(story_after(&["~cudnnDestroyTensorDescriptor", "last-of-other-thread"]), "");
}

#[test]
fn a_function_newer_than_the_installation_names_the_release_that_added_it() {
    let Some(folder) = lib_dir("jit-cu12-9.19.0") else { return };
    let newer: Vec<&Function> = Function::ALL.iter().filter(|function| function.since() > JIT).collect();
    assert!(!newer.is_empty());
    for function in newer {
        let ended = run(child(&folder), &[function.name()]);
        let story = ended.last_error(function.name());
        assert_eq!(ended.returned(function.name()), Some("CUDNN_STATUS_NOT_SUPPORTED (3000)"), "{ended:#?}");
        for words in
            [&format!("{function} (in"), "is 9.19.0, and too old for it", &format!("cuDNN {}", function.since())]
        {
            assert!(story.contains(words), "{words}: {story}");
        }
    }
}

#[test]
fn a_checked_call_reports_what_failed_with_cudnns_text_or_the_loaders() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let ended = run(child(&real), &["check"]);
    assert_eq!(
        ended.returned("check"),
        Some(
            "cudnnBackendFinalize gave CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002): nullptr == descriptor; category \
             CUDNN_STATUS_BAD_PARAM (2000)"
        ),
        "{ended:#?}"
    );
    let ended = run(Child::bare(DRIVER).env(DIR_VARIABLE, "/nowhere"), &["check"]);
    assert!(
        ended.stdout.contains("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED (1008): cudnnBackendFinalize (in "),
        "{ended:#?}"
    );
    assert!(ended.stdout.contains("What to do: "), "{ended:#?}");
}

#[test]
fn cudnns_log_reaches_a_closure_parsed_and_panics_of_the_closure_are_contained() {
    for id in ["jit-cu12-9.19.0", "jit-cu13-9.27.0"] {
        let Some(real) = lib_dir(id) else { return };
        for word in ["log", "log:panic"] {
            let ended = run(child(&real), &[word, "~cudnnBackendFinalize", "check", "cudnnGetVersion"]);
            assert_eq!(ended.returned("log"), Some("Ok(())"), "{ended:#?}");
            let has = |text: &str| ended.stdout.lines().any(|line| line.starts_with(text));
            assert!(has("event info: cudnnBackendFinalize(descriptor=NULL_PTR): 0 Some("), "{ended:#?}");
            let error =
                "event error: cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM_NULL_POINTER: nullptr == descriptor: 2002";
            assert!(has(error), "{ended:#?}");
            // cuDNN leaves the device undefined where there is no handle.
            assert!(ended.stdout.lines().filter(|line| line.starts_with("event")).all(|line| line.ends_with("None")));
            assert!(ended.returned("cudnnGetVersion").is_some_and(|version| version != "0"), "{ended:#?}");
        }
    }
}
