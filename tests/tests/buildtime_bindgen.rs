//! Generates bindings from the user's headers, which may be older than the checked-in bindings.

use std::path::Path;
use std::process::{Command, Output};

use cudnn_bindgen::Source;
use cudnn_loader::{Function, Version};
use support::{TempDir, release};

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn bindings_contain_the_functions_of_the_headers_and_the_feature_removes_none() {
    let Some(libclang) = release("libclang") else { return };
    // SAFETY: this program has no other test that could read the environment now.
    unsafe { std::env::set_var("LIBCLANG_PATH", libclang.join("clang/native")) };
    bindings_of_older_headers_contain_the_functions_of_that_release();
    the_feature_removes_no_functions();
}

fn bindings_of_older_headers_contain_the_functions_of_that_release() {
    for (id, version) in [("cu12-9.0.0", Version::new(9, 0, 0)), ("cu12-9.10.2", Version::new(9, 10, 2))] {
        let Some(release) = release(id) else { return };
        let source = Source {
            cudnn_include: release.join("nvidia/cudnn/include"),
            description: id.to_owned(),
            command: "a test".to_owned(),
            unknown_since: None,
        };
        let files = cudnn_bindgen::generate(&source, TempDir::new().path()).unwrap();
        let table = &files.iter().find(|file| file.name == "functions.rs").unwrap().text;
        // The table contains the deprecations even though the comments of these headers omit them.
        assert!(table.matches("deprecated(true)").count() > 100, "{id}");
        for function in Function::ALL {
            let Version { major, minor, patch } = function.since();
            let row = table.lines().find(|line| line.contains(&format!(" fn {function}/")));
            assert_eq!(row.is_some(), function.since() <= version, "{function} in the bindings of {id}");
            let since = format!("since({major}, {minor}, {patch})");
            assert!(row.is_none_or(|row| row.contains(&since)), "{row:?} is not {since}");
        }
    }
}

/// cargo enables a feature for all crates of a build, which may call any function of the checked-in bindings.
fn the_feature_removes_no_functions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let build = |release: &Path| -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(&root).args(["check", "--quiet", "--package", "cudnn-sys", "--package", "cudnn-loader"]);
        cargo.args(["--features", "cudnn-sys/buildtime-bindgen", "--target-dir"]).arg(root.join("target/buildtime"));
        cargo.env("CUDNN_SYS_INCLUDE_DIR", release.join("nvidia/cudnn/include")).output().expect("cargo starts")
    };
    let (Some(older), Some(newest)) = (release("cu12-9.10.2"), release("cu13")) else { return };
    let refused = build(&older);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("are of cuDNN 9.10.2, and the bindings of cudnn-sys"), "{text}");
    let built = build(&newest);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
