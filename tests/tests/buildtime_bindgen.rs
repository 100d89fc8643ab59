//! Generates bindings from the user's headers, which are older than the checked-in bindings.

use std::path::Path;
use std::process::Command;

use cudnn_loader::{Function, Version};
use support::release;

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn bindings_from_the_users_headers_contain_the_functions_of_that_release() {
    let Some(libclang) = release("libclang") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (id, version) in [("cu12-9.0.0", Version::new(9, 0, 0)), ("cu12-9.10.2", Version::new(9, 10, 2))] {
        let Some(release) = release(id) else { return };
        let target = root.join("target/buildtime");
        let output = Command::new(env!("CARGO"))
            .current_dir(&root)
            // The loader compiles with the same bindings, although they contain fewer functions.
            .args(["build", "--package", "cudnn-sys", "--package", "cudnn-loader"])
            .args(["--features", "cudnn-sys/buildtime-bindgen", "--message-format", "json"])
            .arg("--target-dir")
            .arg(&target)
            .env("CUDNN_SYS_INCLUDE_DIR", release.join("nvidia/cudnn/include"))
            .env("LIBCLANG_PATH", libclang.join("clang/native"))
            .output()
            .expect("cargo starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{id}: {text}");
        // Cargo's message about the build script contains the path of the output directory.
        let messages = String::from_utf8_lossy(&output.stdout);
        let message =
            messages.lines().find(|line| line.contains("build-script-executed") && line.contains("cudnn-sys"));
        let out = message.and_then(|line| line.split("\"out_dir\":\"").nth(1)?.split('"').next()).unwrap();
        let table = std::fs::read_to_string(Path::new(out).join("functions.rs")).unwrap();
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
