use super::*;
use crate::packages::Pip;

/// Creates records with metadata that is not UTF-8.
fn dir_with(records: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for record in records {
        std::fs::create_dir(dir.path().join(record)).unwrap();
        std::fs::write(dir.path().join(record).join("METADATA"), [0xff]).unwrap();
    }
    dir
}

fn aside(dir: &Path, name: &str) -> Vec<Aside> {
    let site = Site::Directory { dir: dir.to_owned(), pip: Pip::Any, options: Vec::new() };
    PackageChange::of(site).reinstall([name]).records_aside()
}

#[test]
fn damaged_records_are_set_aside_and_removed_one_by_one() {
    let dir = dir_with(&["a__b.dist-info", "A_b-1.0.dist-info", "other-1.0.dist-info"]);
    let commands: Vec<String> =
        with_aside(&aside(dir.path(), "a-b"), Vec::new()).iter().map(ToString::to_string).collect();
    let place = |record: &str| dir.path().join(record).display().to_string();
    let (first, second) = (place("a__b.dist-info"), place("A_b-1.0.dist-info"));
    let expected = [
        format!("mv {first} {first}.aside-1"),
        format!("mv {second} {second}.aside-1"),
        format!("rm -r {first}.aside-1"),
        format!("rm -r {second}.aside-1"),
    ];
    assert_eq!(commands, expected);
}

#[test]
fn a_record_is_put_back_unless_the_installer_has_written_another_one() {
    let put_back = &["mv -T "][..];
    for (written, files, expected) in [
        (None, &[][..], put_back),
        (Some("x-1.dist-info"), &["METADATA", "RECORD"], &["rm -r "]),
        (Some("x-2.dist-info"), &["METADATA", "RECORD"], &["rm -r "]),
        // The disk was full.
        (Some("x-2.dist-info"), &["METADATA"], &["rm -rf ", "mv -T "]),
        (Some("x-1.dist-info"), &[], &["rm -rf ", "mv -T "]),
    ] {
        let dir = dir_with(&["x.dist-info", "x-1.dist-info"]);
        let all = aside(dir.path(), "x");
        assert_eq!(all.len(), 2);
        all.iter().for_each(|aside| std::fs::rename(&aside.record, &aside.place).unwrap());
        if let Some(written) = written {
            std::fs::create_dir(dir.path().join(written)).unwrap();
            let file = |name: &&str| dir.path().join(written).join(name);
            files.iter().for_each(|name| std::fs::write(file(name), "x/METADATA,,\n").unwrap());
        }
        for aside in &all {
            let commands: Vec<String> = aside.settle().iter().map(ToString::to_string).collect();
            let is_expected = commands.iter().zip(expected).all(|(command, start)| command.starts_with(start));
            assert!(commands.len() == expected.len() && is_expected, "{written:?} {files:?}: {commands:?}");
        }
        std::fs::remove_dir_all(&all[0].place).unwrap();
        assert!(all[0].settle().is_empty());
    }
}

#[test]
fn a_record_that_an_interrupted_run_has_set_aside_is_removed_after_the_installation() {
    let dir = dir_with(&["x-1.dist-info.aside-1", "y-1.dist-info.aside-1", "y-1.dist-info"]);
    let commands = |name: &str| -> Vec<String> {
        with_aside(&aside(dir.path(), name), Vec::new()).iter().map(ToString::to_string).collect()
    };
    let place = dir.path().join("x-1.dist-info.aside-1");
    assert_eq!(commands("x"), [format!("rm -r {}", place.display())]);
    assert!(commands("y").iter().all(|command| !command.contains("rm -r ") || command.ends_with(".aside-2")));
    assert_eq!(aside(dir.path(), "x")[0].settle().len(), 1, "it is put back if the installation fails");
}
