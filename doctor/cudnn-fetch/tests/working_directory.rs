//! Checks that a `pip.py` in the working directory does not run instead of pip. This test changes the working directory
//! and environment of its process.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

use cudnn_fetch::{FetchError, Network, fetch_into, release};

#[test]
fn modules_in_the_working_directory_are_not_imported() {
    let dir = std::env::temp_dir().join(format!("cudnn-fetch-work-dir-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let marker = dir.join("ran");
    for module in ["pip.py", "runpy.py", "sitecustomize.py"] {
        std::fs::write(dir.join(module), format!("open({:?}, 'w')\n", marker.display().to_string())).unwrap();
    }
    std::env::set_current_dir(&dir).unwrap();
    // With this variable, pip fails immediately. SAFETY: no other thread of this process reads the environment.
    unsafe { std::env::set_var("PIP_NO_INDEX", "1") };
    // SAFETY: as above.
    unsafe { std::env::remove_var("PIP_FIND_LINKS") };
    let result = fetch_into(release("jit-cu12-9.19.0").unwrap(), &dir.join("cache"), Network::Allowed);
    assert!(matches!(result, Err(FetchError::Pip { .. })), "{result:?}");
    assert!(!marker.exists());
    std::env::set_current_dir("/").unwrap();
    let _ = std::fs::remove_dir_all(dir);
}
