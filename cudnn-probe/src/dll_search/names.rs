//! Recognizes DLL names that Windows treats specially. This module only compares text.

/// The DLLs that every process loads from the system directory, regardless of other files with the same name. Windows
/// stores the list in the registry (`KnownDLLs`) and extends it with dependencies.
const KNOWN: [&str; 36] = [
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "cfgmgr32.dll",
    "clbcatq.dll",
    "combase.dll",
    "comdlg32.dll",
    "coml2.dll",
    "gdi32.dll",
    "gdi32full.dll",
    "gdiplus.dll",
    "imagehlp.dll",
    "imm32.dll",
    "kernel32.dll",
    "kernelbase.dll",
    "msctf.dll",
    "msvcp_win.dll",
    "msvcrt.dll",
    "normaliz.dll",
    "nsi.dll",
    "ntdll.dll",
    "ole32.dll",
    "oleaut32.dll",
    "psapi.dll",
    "rpcrt4.dll",
    "sechost.dll",
    "setupapi.dll",
    "shcore.dll",
    "shell32.dll",
    "shlwapi.dll",
    "ucrtbase.dll",
    "user32.dll",
    "win32u.dll",
    "wldap32.dll",
    "wow64.dll",
    "ws2_32.dll",
];

/// Returns whether Windows always loads this DLL from the system directory.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether this is the name of an API set. Windows maps API sets to system DLLs without searching for a file.
/// Examples are `api-ms-win-core-file-l1-1-0.dll` and `ext-ms-win-ntuser-window-l1-1-0.dll`.
#[must_use]
pub fn is_virtual(name: &str) -> bool {
    ["api-ms-", "ext-ms-"].iter().any(|set| name.get(..set.len()).is_some_and(|start| start.eq_ignore_ascii_case(set)))
}

/// Returns the name that Windows searches for. A name without a dot gets the suffix `.dll`, and a trailing dot is
/// removed.
pub(super) fn with_extension(name: &str) -> String {
    let base = name.rsplit(['\\', '/']).next().unwrap_or(name);
    match name.strip_suffix('.') {
        Some(without) => without.to_owned(),
        None if base.contains('.') => name.to_owned(),
        None => format!("{name}.dll"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_system_are_recognised_in_any_case() {
        for (name, known, set) in [
            ("KERNEL32.dll", true, false),
            ("ucrtbase.DLL", true, false),
            ("API-MS-Win-CRT-heap-l1-1-0.dll", false, true),
            ("ext-ms-win-ntuser-window-l1-1-0.dll", false, true),
            ("api-m", false, false),
            ("vcruntime140.dll", false, false),
            ("größe.dll", false, false),
        ] {
            assert_eq!((is_known(name), is_virtual(name)), (known, set), "{name}");
        }
    }

    #[test]
    fn a_name_without_a_dot_means_a_dll() {
        for (name, expected) in [
            ("cudnn64_9", "cudnn64_9.dll"),
            ("cudnn64_9.dll", "cudnn64_9.dll"),
            ("plugin.", "plugin"),
            (r"C:\v1.2\plugin", r"C:\v1.2\plugin.dll"),
            ("C:/v1.2/plugin", "C:/v1.2/plugin.dll"),
        ] {
            assert_eq!(with_extension(name), expected, "{name}");
        }
    }
}
