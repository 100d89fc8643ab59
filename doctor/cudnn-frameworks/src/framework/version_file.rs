//! Parses the version files of frameworks, which are Python or JSON, without running any code.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::kind::{FrameworkKind, VersionFile, VersionFileFormat};
use crate::files::read_text;

/// The maximum file size in bytes. Known version files have less than 2 KB.
const MAX_LEN: u64 = 256 << 10;

#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// The file, if it is readable.
    pub(crate) file: Option<PathBuf>,
    /// The framework version: `__version__ = '2.8.0+cu128'`.
    pub(crate) version: Option<String>,
    pub(crate) cuda: Option<String>,
    pub(crate) cudnn: Option<String>,
    pub(crate) uses_gpu: Option<bool>,
    /// The ROCm release. Empty if the file only names ROCm.
    pub(crate) rocm: Option<String>,
}

pub(crate) fn read(kind: &FrameworkKind, dir: &Path) -> Statements {
    let Some(file) = &kind.version_file else { return Statements::default() };
    let path = dir.join(file.path);
    let Some(text) = read_text(&path, MAX_LEN) else { return Statements::default() };
    Statements { file: Some(path), ..parse(file, &text) }
}

fn parse(file: &VersionFile, text: &str) -> Statements {
    match file.format {
        VersionFileFormat::Assignments => assignments(file, text),
        VersionFileFormat::Tuples => tuples(file, text),
        VersionFileFormat::Json => json(file, text),
    }
}

/// Parses `cuda: Optional[str] = '12.8'`. `None` and `'False'` stand for a build without CUDA.
fn assignments(file: &VersionFile, text: &str) -> Statements {
    let value = |name: &str| text.lines().rev().find_map(|line| assigned(line, name));
    let quoted = |name: &str| value(name).and_then(unquoted);
    let release = |name: &str| quoted(name).filter(|value| value.starts_with(|first: char| first.is_ascii_digit()));
    let package = quoted("package_name");
    let has_cuda = || Some(quoted(file.cuda).is_some_and(|value| !value.is_empty() && value != "False"));
    let is_of_rocm = package.is_some_and(|package| package.ends_with("rocm") || package.ends_with("migraphx"));
    Statements {
        file: None,
        version: quoted("__version__").map(str::to_owned),
        cuda: release(file.cuda).map(str::to_owned),
        cudnn: release(file.cudnn).map(str::to_owned),
        uses_gpu: package.map(|package| package.contains("gpu")).or_else(|| value(file.cuda).and_then(|_| has_cuda())),
        rocm: release("hip").or(is_of_rocm.then_some("")).map(str::to_owned),
    }
}

/// Returns the right-hand side of an assignment to this name.
fn assigned<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (left, right) = line.split_once('=')?;
    let target = left.split(':').next()?.trim_end();
    (target == name && !name.is_empty()).then_some(right.trim())
}

fn unquoted(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    Some(value.get(1..)?.split_once(quote)?.0)
}

/// Parses `('cuda_version', '12.5.1')` and `('is_cuda_build', True)`.
fn tuples(file: &VersionFile, text: &str) -> Statements {
    let value = |name: &str| {
        let (_, after) = text.split_once(&format!("('{name}', "))?;
        Some(after.split([')', ',']).next()?.trim())
    };
    let quoted = |name: &str| value(name).and_then(unquoted).map(str::to_owned);
    let uses_gpu = value(file.is_gpu).map(|value| value == "True");
    let rocm = (value("is_rocm_build") == Some("True")).then(String::new);
    Statements { cuda: quoted(file.cuda), cudnn: quoted(file.cudnn), uses_gpu, rocm, ..Statements::default() }
}

/// Parses `"cuda": "12.x"` and `"cudnn": {"version": "8.8.1"}`.
fn json(file: &VersionFile, text: &str) -> Statements {
    let members: Value = serde_json::from_str(text).unwrap_or_default();
    let text = |value: Option<&Value>| Some(value?.as_str()?.to_owned());
    let cuda = members.get(file.cuda);
    let cudnn = members.get(file.cudnn).and_then(|cudnn| cudnn.get("version"));
    Statements { cuda: text(cuda), cudnn: text(cudnn), uses_gpu: cuda.map(|_| true), ..Statements::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(
        format: VersionFileFormat,
        names: [&'static str; 3],
        text: &str,
    ) -> (Option<String>, Option<String>, Option<bool>) {
        let [cuda, cudnn, is_gpu] = names;
        let statements = parse(&VersionFile { path: "", format, cuda, cudnn, is_gpu }, text);
        (statements.cuda, statements.cudnn, statements.uses_gpu)
    }

    #[test]
    fn assignments_are_parsed_for_each_framework() {
        let torch = ["cuda", "", ""];
        let others = ["cuda_version", "cudnn_version", ""];
        for (names, text, cuda, cudnn, uses_gpu) in [
            (
                torch,
                "__all__ = ['__version__', 'cuda', 'hip']\n__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n\
                 hip: Optional[str] = None\n",
                Some("12.8"),
                None,
                Some(true),
            ),
            (torch, "cuda = '11.7'\r\n", Some("11.7"), None, Some(true)),
            (torch, "cuda: Optional[str] = None\nhip: Optional[str] = None\n", None, None, Some(false)),
            (torch, "cuda: Optional[str] = None\nhip: Optional[str] = '6.2'\n", None, None, Some(false)),
            (
                others,
                "cuda_version     = '11.8'\ncudnn_version    = '8.6.0'\n",
                Some("11.8"),
                Some("8.6.0"),
                Some(true),
            ),
            (others, "cuda_version     = 'False'\ncudnn_version    = 'False'\n", None, None, Some(false)),
            (
                others,
                "package_name = 'onnxruntime-gpu'\n__version__ = '1.31.1'\ncuda_version = '13.0'\n",
                Some("13.0"),
                None,
                Some(true),
            ),
            (others, "package_name = 'onnxruntime'\n__version__ = '1.31.1'\n", None, None, Some(false)),
            (torch, "", None, None, None),
            (torch, "\0\u{fffd}", None, None, None),
            (torch, "cuda", None, None, None),
            (torch, "= '1'", None, None, None),
            (torch, "cuda =", None, None, Some(false)),
            (torch, "#cuda = '1'", None, None, None),
        ] {
            let expected = (cuda.map(str::to_owned), cudnn.map(str::to_owned), uses_gpu);
            assert_eq!(shown(VersionFileFormat::Assignments, names, text), expected, "{text:?}");
        }
    }

    #[test]
    fn tuples_and_json_are_parsed() {
        let text = "build_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
                    ('is_cuda_build', True), ('is_rocm_build', False)])";
        let tuples = |text| shown(VersionFileFormat::Tuples, ["cuda_version", "cudnn_version", "is_cuda_build"], text);
        assert_eq!(tuples(text), (Some("12.5.1".into()), Some("9".into()), Some(true)));
        assert_eq!(tuples("OrderedDict([('is_cuda_build', False)])"), (None, None, Some(false)));
        assert_eq!(tuples("('cuda_version', '"), (None, None, None));
        let json = |text| shown(VersionFileFormat::Json, ["cuda", "cudnn", ""], text);
        let text = r#"{"cuda": "12.x", "nccl": {"version": "2.25"}, "cudnn": {"version": "8.8.1", "x": []}}"#;
        assert_eq!(json(text), (Some("12.x".into()), Some("8.8.1".into()), Some(true)));
        assert_eq!(json(r#"{"cuda": "12.x", "nccl": {"version": "2"}}"#), (Some("12.x".into()), None, Some(true)));
        assert_eq!(json("{"), (None, None, None));
    }
}
