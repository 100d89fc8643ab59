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
        let found = evaluate(marker, &Platform::new(None), &["and-cuda".into()]).unwrap();
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
        assert!(evaluate(marker, &Platform::new(None), &[]).is_none(), "{marker}");
    }
}
