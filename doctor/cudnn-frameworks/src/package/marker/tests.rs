#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn versions_strings_and_extras_are_compared() {
    for (marker, expected) in [
        ("python_version < '3.9'", Some(false)),
        ("python_version<'3.13'", Some(true)),
        ("python_version >= \"3.9\" and python_version < \"3.12\"", Some(false)),
        ("'3.9' < python_version", Some(true)),
        ("python_version == '3.*'", Some(true)),
        ("python_version ~= '3.10'", Some(true)),
        ("python_version in '3.11 3.12'", Some(true)),
        ("python_version not in '3.11, 3.12'", Some(false)),
        ("python_full_version > '3.11.9'", Some(true)),
        ("sys_platform == 'linux' or sys_platform == 'win32' and os_name == 'nt'", Some(true)),
        ("(sys_platform == 'linux' or sys_platform == 'win32') and os_name == 'nt'", Some(false)),
        ("sys_platform in 'linux darwin'", Some(true)),
        ("'nux' in sys_platform", Some(true)),
        ("'win' not in sys_platform", Some(true)),
        ("platform_python_implementation != 'CPython'", Some(false)),
        ("extra == 'And_Cuda'", Some(true)),
        ("'and-cuda' == extra", Some(true)),
        ("extra != 'and.cuda'", Some(false)),
        ("extra == 'x'", Some(false)),
        ("'a' == 'a'", None),
        ("os_name == sys_platform", None),
        ("os_name ~= 'posix' and extra == 'x'", Some(false)),
        ("python_version < 'x' or extra == 'x'", Some(false)),
    ] {
        let found = evaluate(marker, &Platform::new(Os::Linux, None, None), &["and-cuda".into()]).unwrap();
        assert_eq!(found.0, expected, "{marker}");
    }
}

#[test]
fn invalid_markers_are_errors() {
    for marker in [
        "",
        "nonsense == 'x'",
        "os_name",
        "os_name ==",
        "os_name === 'x'",
        "os_name == 'x",
        "os_name not 'x'",
        "os_name inside 'x'",
        "(os_name == 'x'",
        "os_name == 'x')",
        "os_name == 'x' and",
        "os_name == 'x' xor os_name == 'y'",
        "\u{1b}[31m",
    ] {
        assert!(evaluate(marker, &Platform::default(), &[]).is_none(), "{marker}");
    }
}

#[test]
fn variables_describe_the_python_of_the_environment() {
    let windows = "os_name == 'nt' and sys_platform == 'win32' and platform_system == 'Windows'";
    let linux = "os_name == 'posix' and sys_platform == 'linux' and platform_system == 'Linux'";
    let of_windows = "platform_machine == 'AMD64' or platform_machine == 'ARM64'";
    let of_linux = "platform_machine == 'x86_64' or platform_machine == 'aarch64'";
    for (os, [holds, others]) in [
        (Os::Windows, [[windows, of_windows], [linux, of_linux]]),
        (Os::Linux, [[linux, of_linux], [windows, of_windows]]),
    ] {
        for (markers, expected) in [(holds, true), (others, false)] {
            for marker in markers {
                let found = evaluate(marker, &Platform::new(os, None, None), &[]).unwrap();
                assert_eq!(found.0, Some(expected), "{os} {marker}");
            }
        }
    }
    for (python, stated, expected) in [
        (Some((3, 11)), Some("3.11.7"), "3.11.7"),
        (Some((3, 11)), Some("3.11.7.final.0"), "3.11.7"),
        // The settings describe another Python of the environment.
        (Some((3, 11)), Some("3.12.1"), "3.11.0"),
        (Some((3, 11)), None, "3.11.0"),
    ] {
        assert_eq!(Platform::new(Os::Linux, python, stated).python_full_version, expected, "{python:?} {stated:?}");
    }
}
