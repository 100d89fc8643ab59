//! Tests when the loader retries a failure: after the process has loaded more libraries, after some time, and after a
//! preload.
//! preload.

use cudnn_probe::Library;
use support::{Child, FakeLibrary, TempDir, compile};

use super::{DRIVER, JIT, child, graph_with, run};

fn three_libraries() -> TempDir {
    let dir = graph_with("");
    for library in [Library::Ops, Library::Adv] {
        FakeLibrary::new(library, JIT).build(&dir.file(library));
    }
    dir
}

#[test]
fn a_failed_search_is_repeated_when_the_process_has_loaded_more_libraries() {
    let cudnn = graph_with("");
    // A framework's library with a run path that leads to cuDNN, and cuDNN itself.
    let frameworks = TempDir::new();
    let framework = frameworks.path().join("libframework.so");
    let run_path = format!("-Wl,-rpath,{}", cudnn.path().display());
    compile("int framework;", &["-shared", "-fPIC", &run_path], &framework);
    for (file, origin) in [
        (framework.clone(), format!("run path of {framework:?}")),
        (cudnn.file(Library::Graph), "already loaded".into()),
    ] {
        let output =
            run(Child::bare(DRIVER), &["?cudnnCreate", &format!("open:{}", file.display()), "cudnnGetVersion"]);
        assert_eq!(output.returned("?cudnnCreate"), Some("false"), "{output:#?}");
        assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{origin}: {output:#?}");
        let output = run(Child::bare(DRIVER), &["?cudnnCreate", &format!("open:{}", file.display()), "load:"]);
        assert!(output.returned("load").unwrap().contains(&origin), "{output:#?}");
    }
}

#[test]
fn a_failure_expires_after_some_time() {
    let good = graph_with("");
    let later = TempDir::new();
    let arrives = format!("copy:{},{}", good.file(Library::Graph).display(), later.file(Library::Graph).display());
    let output = run(child(later.path()), &["?cudnnCreate", &arrives, "sleep:100", "cudnnGetVersion"]);
    assert_eq!(output.returned("?cudnnCreate"), Some("false"), "{output:#?}");
    assert_eq!(output.returned("cudnnGetVersion"), Some("91900"), "{output:#?}");
    // A call uses the requirements of the failed search, and no others.
    let found = Child::bare(DRIVER).env("LD_LIBRARY_PATH", good.path());
    let output = run(found, &["load:min=9.28.0", "sleep:100", "?cudnnCreate", "load:"]);
    assert_eq!(output.returned("?cudnnCreate"), Some("false"), "{output:#?}");
    assert!(output.stdout.contains("\nload = 9.19.0 "), "{output:#?}");
}

/// The process has used up all descriptors for a while.
#[test]
fn a_temporary_shortage_of_descriptors_has_no_lasting_effect() {
    let dir = three_libraries();
    let (take, free, later) = ("take-descriptors", "free-descriptors", "sleep:200");
    let (graph_function, ops_function, adv_function) =
        ("cudnnCreate", "cudnnDestroyTensorDescriptor", "cudnnDestroyRNNDescriptor");
    let failing = format!("?{adv_function}");
    for args in [
        // Before the first call, in a sub-library, and in a preload, after which the first call does not wait.
        &[take, &failing, free, later, graph_function, ops_function, adv_function][..],
        &[graph_function, take, &failing, free, later, ops_function, adv_function],
        &[take, "preload:", &failing, free, later, graph_function, ops_function, adv_function],
        &[take, "preload:", free, graph_function, ops_function, adv_function],
        &[graph_function, take, "preload:", free, ops_function, adv_function],
    ] {
        let output = run(child(dir.path()), args);
        assert_ne!(output.returned(&failing), Some("true"), "{args:?}: {output:#?}");
        assert!(
            output.returned("preload").is_none_or(|preload| preload.starts_with("failed")),
            "{args:?}: {output:#?}"
        );
        for function in [graph_function, ops_function, adv_function] {
            assert_eq!(output.returned(function), Some("CUDNN_STATUS_SUCCESS (0)"), "{args:?}: {output:#?}");
        }
    }
}
