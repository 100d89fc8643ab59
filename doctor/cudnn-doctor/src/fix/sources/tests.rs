#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use cudnn_probe::facts::{Changes, Facts};

#[test]
fn paths_are_found_in_all_notations_of_settings() {
    for text in [
        "[install]\nfind-links =\n    /own/x\n",
        "find-links: file:///own/x",
        "index-url = file://localhost/own/x",
        "--find-links=/own/x",
        "-f/own/x",
        "package @ file:///own/x#sha256=12",
        "package@git+file:///own/x",
        "[tool.uv]\nindex = [{ name = \"own\", url = \"file:///own/x\" }]",
        "-c x",
        "-f '/own/x'",
    ] {
        let found = paths_in(text, Path::new("/own")).unwrap();
        assert!(found.contains(&PathBuf::from("/own/x")), "{text}: {found:?}");
    }
    let encoded = paths_in("find-links = file:///own%20dir/x%23y#z", Path::new("/")).unwrap();
    assert!(encoded.contains(&PathBuf::from("/own dir/x#y")), "{encoded:?}");
    let several = paths_in("/tmp/a /tmp/b", Path::new("/")).unwrap();
    assert!(several.iter().all(|path| path.starts_with("/tmp/a") || path.starts_with("/tmp/b")), "{several:?}");
    let with_space = paths_in("find-links = /own dir/x", Path::new("/")).unwrap();
    assert!(with_space.contains(&PathBuf::from("/own dir/x")), "{with_space:?}");
    let quoted = paths_in("-f \"/own a=b, c/x\"", Path::new("/")).unwrap();
    assert!(quoted.contains(&PathBuf::from("/own a=b, c/x")), "{quoted:?}");
    // Comments contain no sources, and the root directory is not one.
    let none = paths_in("# /own/x\n; /own/x\nprefix = /\n", Path::new("/etc")).unwrap();
    assert!(none.iter().all(|path| path.starts_with("/etc") && path != Path::new("/etc")), "{none:?}");
}

#[test]
fn the_settings_of_a_project_are_found_from_below() {
    let dir = tempfile::tempdir().unwrap();
    let (below, at) = (dir.path().join("a/b"), |name: &str| dir.path().join(name));
    std::fs::create_dir_all(&below).unwrap();
    let found = || {
        let mut changes = Changes::default();
        changes.set_answer("working directory", "", &Ok::<_, std::io::Error>(below.clone()));
        Facts::recorder().after(changes).within(uv_project_settings)
    };
    assert_eq!(found(), None);
    std::fs::write(at("pyproject.toml"), "[tool.uvicorn]\nname = \"a\"").unwrap();
    assert_eq!(found(), None);
    std::fs::write(at("pyproject.toml"), "[tool.uv]\nno-index = true").unwrap();
    assert_eq!(found(), Some(at("pyproject.toml")));
    std::fs::write(at("a/uv.toml"), "no-index = true").unwrap();
    assert_eq!(found(), Some(at("a/uv.toml")));
}

#[test]
fn a_source_may_be_the_directory_of_its_file_or_relative_to_the_root_directory() {
    for (text, expected) in
        [("find-links = /env", "/env"), ("-f .", "/env/."), ("find-links = wheels", "/wheels"), ("x ~= 1.0", "/env/x")]
    {
        let found = paths_in(text, Path::new("/env")).unwrap();
        assert!(found.contains(&PathBuf::from(expected)), "{text}: {found:?}");
    }
    for text in ["find-links = ~user/x", "-f~user", "--find-links=~user"] {
        assert!(paths_in(text, Path::new("/env")).is_err(), "{text}");
    }
}

#[test]
fn text_that_is_not_understood_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    let text = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        text_of(&file)
    };
    assert_eq!(text(b"# \\d $x\nx~=1.0\n"), Ok("# \\d $x\nx~=1.0\n".to_owned()));
    let utf_16: Vec<u8> = [0xff, 0xfe].into_iter().chain(b"-f /own".iter().flat_map(|byte| [*byte, 0])).collect();
    for (bytes, expected) in [
        (&b"-f ${OWN}\n"[..], "contains `$`"),
        (b"-f \\\n/own\n", "contains `\\`"),
        (b"# Ren\xe9\n", "is not UTF-8"),
        (&utf_16, "is not UTF-8"),
        (b"# coding: utf-7\n-f +AC8-own\n", "declares an encoding"),
        (b"# x\r-f /own\n", "ends a line only for some programs"),
        (b"# x\x0c-f /own\n", "ends a line only for some programs"),
        ("# x\u{2028}-f /own\n".as_bytes(), "ends a line only for some programs"),
        (b"-f \"/ow\"n\n", "a quote within a word"),
        (b"-f /o'wn'\n", "a quote within a word"),
        (b"-f \"/o\"\"wn\"\n", "a quote within a word"),
    ] {
        assert!(text(bytes).unwrap_err().contains(expected), "{bytes:?}");
    }
    for whole in
        ["[x]\r\ny = [{ url = \"file:///own\", z = '' }] # it's\n", "-f \"/own\" 'x'; \"y\"\n", "\"a\": [\"b\"]\n"]
    {
        assert_eq!(text(whole.as_bytes()).as_deref(), Ok(whole));
    }
    // Packages contain no sources, even if they are long.
    let len = usize::try_from(MAX_LEN).unwrap() + 1;
    assert_eq!(text(&vec![0; len]), Ok(String::new()));
    assert!(text(&vec![b'#'; len]).unwrap_err().contains("more than 1048576"));
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIH/own/AgI\n-----END CERTIFICATE-----\n";
    assert_eq!(text(certificate.as_bytes()), Ok(String::new()));
    let later = format!("[global]\n{certificate}");
    assert_eq!(text(later.as_bytes()), Ok(later.clone()));
    std::fs::create_dir(dir.path().join("package")).unwrap();
    assert!(!has_pages(dir.path()));
    std::fs::write(dir.path().join("package/index.html"), "").unwrap();
    assert!(has_pages(dir.path()) && text_of(&dir.path().join("package/index.html")).is_err());
}
