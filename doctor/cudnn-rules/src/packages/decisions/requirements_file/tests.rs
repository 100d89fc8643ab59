use super::*;
use cudnn_probe::facts::{Changes, Facts};

#[test]
fn lines_are_read_like_pip_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("all.txt", "# nothing\na==1\t# why\nb \\\n  >=2\n-c more/c.txt\n--requirement=all.txt\n");
    std::fs::create_dir(dir.path().join("more")).unwrap();
    write("more/c.txt", "# old: \\\nc<3\r\n./u@x/d_e-1-py3-none-any.whl\nf @ https://x/f-1-y.whl\n");
    let mut found: Vec<String> = decisions_in(&dir.path().join("all.txt")).into_iter().map(|one| one.text).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, ["a==1", "b   >=2", "c<3", "d_e @ ./u@x/d_e-1-py3-none-any.whl", "f @ https://x/f-1-y.whl"]);
}

#[test]
fn options_name_other_files_like_in_pip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().replace('\\', "/");
    // On Windows, the path starts with a drive.
    let place = format!("/{}", path.trim_start_matches('/'));
    for name in ["a", "b", "a b", "a%20b"] {
        std::fs::write(dir.path().join(name), format!("found==1+{}\n", name.replace([' ', '%'], "."))).unwrap();
    }
    for (line, expected) in [
        ("-r a -c b", Some("a")),
        ("-c b -r a", Some("a")),
        ("-c a -c b", Some("a")),
        ("--index-url x -cb --pre", Some("b")),
        ("--constraint 'a b'", Some("a.b")),
        (r"-r a\ b", Some("a.b")),
        ("-r \"a b\"", Some("a.b")),
        ("-r a%20b", Some("a.20b")),
        (&format!("-r file://{place}/a%20b"), Some("a.b")),
        (&format!("--constraint=file://localhost{place}/b"), Some("b")),
        (&format!("-r FILE://{place}/b"), Some("b")),
        ("--constr b", Some("b")),
        ("--requirem=b", Some("b")),
        ("--require-hashes b", None),
        ("-r", None),
        ("-e a", None),
        ("-r 'a", None),
    ] {
        std::fs::write(dir.path().join("all.txt"), line).unwrap();
        let found = decisions_in(&dir.path().join("all.txt"));
        let found: Vec<&str> = found.iter().filter_map(|one| one.text.strip_prefix("found==1+")).collect();
        assert_eq!(found, Vec::from_iter(expected), "{line}");
    }
    let found = decisions_in_files(&format!("file://{place}/a%20b\nb"), dir.path());
    assert_eq!(found.iter().map(|one| &one.text).collect::<Vec<_>>(), ["found==1+a.b", "found==1+b"]);
}

#[test]
fn files_have_the_encodings_and_variables_that_pip_knows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("constraints.txt");
    let mut changes = Changes::default();
    changes.set_variable("CUDA_OF_9", Some("12".into()));
    changes.set_variable("NOTHING", None);
    let found = |bytes: Vec<u8>| {
        std::fs::write(&file, bytes).unwrap();
        let found = Facts::recorder().after(changes.clone()).within(|| decisions_in(&file));
        found.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    let text = "\u{feff}a<9 # \u{e4}\nb-cu${CUDA_OF_9}==1\n";
    let units = text.encode_utf16();
    for bytes in [
        text.as_bytes().to_vec(),
        units.clone().flat_map(u16::to_le_bytes).collect(),
        units.flat_map(u16::to_be_bytes).collect(),
        b"# -*- coding: latin-1 -*-\na<9 # \xe4\nb-cu12==1\n".to_vec(),
        b"a<9\rb-cu12==1\r".to_vec(),
        b"# c\x0ba<9\x0cb-cu12==\\\r\n1\xc2\x85".to_vec(),
    ] {
        assert_eq!(found(bytes.clone()), ["a<9", "b-cu12==1"], "{bytes:?}");
    }
    // An unset variable stays, and makes the line invalid.
    for line in ["a${NOTHING}b", "${lower}", "${"] {
        assert_eq!(found(line.into()), [format!("has the line `{line}`, so that nothing can be installed")]);
    }
}

/// pip 23.2 or uv 0.13 refuse all of these.
#[test]
fn files_that_pip_or_uv_refuse_have_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("constraints.txt");
    let line = |line: &str| format!("has the line `{line}`");
    for (bytes, expected) in [
        (&b"a<9 # \xe4\n"[..], "is in an encoding that pip does not expect".to_owned()),
        (b"\xff\xfea", "is in an encoding that pip does not expect".to_owned()),
        (b"# why\n!!!\n", line("!!!")),
        (b"a 9\n", line("a 9")),
        (b"a =1\n", line("a =1")),
        (b"./x.tar.gz\n", line("./x.tar.gz")),
        (b"--foo=1\n", line("--foo=1")),
        (b"-e .\n", line("-e .")),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let found: Vec<String> = decisions_in(&file).into_iter().map(|one| one.text).collect();
        assert_eq!(found, [format!("{expected}, so that nothing can be installed")], "{bytes:?}");
    }
    for line in ["a<9 --hash=sha256:00", "--no-index", "--find-l x", "-ihttps://x", "a[b]<9; python_version > '3'", "a"]
    {
        std::fs::write(&file, line).unwrap();
        assert!(decisions_in(&file).iter().all(|one| !one.text.starts_with("has ")), "{line}");
    }
    let found = decisions_in(dir.path()).remove(0).text;
    assert!(found.starts_with("is a directory, not a file, so that"), "{found}");
    assert!(decisions_in(Path::new("/dev/null")).is_empty());
}
