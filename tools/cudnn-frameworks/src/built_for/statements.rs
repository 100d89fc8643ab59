//! What a framework's version file states. The files are Python or JSON; they are read line by line, and never run.

use std::path::{Path, PathBuf};

use crate::kind::{Kind, VersionFile, read_text};

/// The statements of a version file, as text.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// The file, if it can be read.
    pub(crate) file: Option<PathBuf>,
    pub(crate) cuda: Option<String>,
    pub(crate) cudnn: Option<String>,
    pub(crate) uses_gpu: Option<bool>,
    /// The release of ROCm, or an empty text where only a build for ROCm is stated.
    pub(crate) rocm: Option<String>,
}

/// Reads the version file of a framework, whose module is in this directory.
pub(crate) fn read(kind: &Kind, dir: &Path) -> Statements {
    let file = match &kind.version_file {
        VersionFile::Assignments { path, .. } | VersionFile::Tuples { path, .. } | VersionFile::Json { path, .. } => {
            dir.join(path)
        }
        VersionFile::None => return Statements::default(),
    };
    let Some(text) = read_text(&file) else { return Statements::default() };
    let statements = match &kind.version_file {
        VersionFile::Assignments { cuda, cudnn, .. } => assignments(&text, cuda, cudnn),
        VersionFile::Tuples { cuda, cudnn, is_gpu, .. } => tuples(&text, cuda, cudnn, is_gpu),
        VersionFile::Json { cuda, cudnn, .. } => json(&text, cuda, cudnn),
        VersionFile::None => Statements::default(),
    };
    Statements { file: Some(file), ..statements }
}

/// The version that a version file of assignments states of its framework: `__version__ = '2.8.0+cu128'`.
pub(crate) fn own_version(kind: &Kind, dir: &Path) -> Option<String> {
    let VersionFile::Assignments { path, .. } = &kind.version_file else { return None };
    let text = read_text(&dir.join(path))?;
    let version = text.lines().rev().find_map(|line| assigned(line, "__version__"))?;
    unquoted(version).map(str::to_owned)
}

/// `cuda: Optional[str] = '12.8'`. `None` and `'False'` stand for a build without CUDA.
fn assignments(text: &str, cuda: &str, cudnn: &str) -> Statements {
    let value = |name: &str| text.lines().rev().find_map(|line| assigned(line, name));
    let quoted = |name: &str| value(name).and_then(unquoted).filter(|value| *value != "False" && !value.is_empty());
    let is_release = |value: &&str| value.starts_with(|first: char| first.is_ascii_digit());
    let package = value("package_name").and_then(unquoted);
    let uses_gpu = match (value(cuda), package) {
        (_, Some(package)) => Some(package.contains("gpu")),
        (Some(_), _) => Some(quoted(cuda).is_some()),
        (None, _) => None,
    };
    let hip = quoted("hip").filter(is_release).map(str::to_owned);
    let is_rocm_package = package.is_some_and(|package| package.ends_with("rocm") || package.ends_with("migraphx"));
    Statements {
        cuda: quoted(cuda).filter(is_release).map(str::to_owned),
        cudnn: quoted(cudnn).filter(is_release).map(str::to_owned),
        uses_gpu,
        rocm: hip.or_else(|| is_rocm_package.then(String::new)),
        file: None,
    }
}

/// The right side of an assignment to this name at the start of a line.
fn assigned<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    if name.is_empty() {
        return None;
    }
    let (left, right) = line.split_once('=')?;
    let target = left.split(':').next().unwrap_or(left);
    (target.trim_end() == name).then_some(right.trim())
}

/// The text between the quotes.
fn unquoted(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    Some(value.get(1..)?.split_once(quote)?.0)
}

/// `('cuda_version', '12.5.1')`, `('is_cuda_build', True)`.
fn tuples(text: &str, cuda: &str, cudnn: &str, is_gpu: &str) -> Statements {
    let value = |name: &str| {
        let (_, after) = text.split_once(&format!("('{name}', "))?;
        Some(after.split([')', ',']).next()?.trim())
    };
    let quoted = |name: &str| value(name).and_then(unquoted).map(str::to_owned);
    let uses_gpu = value(is_gpu).map(|value| value == "True");
    let rocm = (value("is_rocm_build") == Some("True")).then(String::new);
    Statements { cuda: quoted(cuda), cudnn: quoted(cudnn), uses_gpu, rocm, file: None }
}

/// `"cuda": "12.x"`, `"cudnn": {"version": "8.8.1"`.
fn json(text: &str, cuda: &str, cudnn: &str) -> Statements {
    let member = |name: &str| Some(text.split_once(&format!("\"{name}\":"))?.1.trim_start());
    let version = |member: &str| {
        let (_, after) = member.strip_prefix('{')?.split('}').next()?.split_once("\"version\":")?;
        unquoted(after.trim_start()).map(str::to_owned)
    };
    Statements {
        cuda: member(cuda).and_then(unquoted).map(str::to_owned),
        cudnn: member(cudnn).and_then(version),
        uses_gpu: member(cuda).map(|_| true),
        rocm: None,
        file: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(statements: &Statements) -> (Option<&str>, Option<&str>, Option<bool>) {
        (statements.cuda.as_deref(), statements.cudnn.as_deref(), statements.uses_gpu)
    }

    #[test]
    fn assignments_are_read_as_each_framework_writes_them() {
        let torch = "__all__ = ['__version__', 'cuda', 'hip']\n__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n\
                     hip: Optional[str] = None\n";
        assert_eq!(shown(&assignments(torch, "cuda", "")), (Some("12.8"), None, Some(true)));
        assert_eq!(shown(&assignments("cuda = '11.7'\r\n", "cuda", "")), (Some("11.7"), None, Some(true)));
        let cpu = "cuda: Optional[str] = None\nhip: Optional[str] = None\n";
        assert_eq!(shown(&assignments(cpu, "cuda", "")), (None, None, Some(false)));
        let rocm = "cuda: Optional[str] = None\nhip: Optional[str] = '6.2'\n";
        assert_eq!(shown(&assignments(rocm, "cuda", "")), (None, None, Some(false)));
        assert_eq!(assignments(rocm, "cuda", "").rocm.as_deref(), Some("6.2"));
        assert_eq!(assignments(cpu, "cuda", "").rocm, None);
        let paddle = "cuda_version     = '11.8'\ncudnn_version    = '8.6.0'\n";
        assert_eq!(
            shown(&assignments(paddle, "cuda_version", "cudnn_version")),
            (Some("11.8"), Some("8.6.0"), Some(true))
        );
        let paddle = "cuda_version     = 'False'\ncudnn_version    = 'False'\n";
        assert_eq!(shown(&assignments(paddle, "cuda_version", "cudnn_version")), (None, None, Some(false)));
        let ort = "package_name = 'onnxruntime-gpu'\n__version__ = '1.31.1'\ncuda_version = '13.0'\n";
        assert_eq!(shown(&assignments(ort, "cuda_version", "cudnn_version")), (Some("13.0"), None, Some(true)));
        let ort = "package_name = 'onnxruntime'\n__version__ = '1.31.1'\n";
        assert_eq!(shown(&assignments(ort, "cuda_version", "cudnn_version")), (None, None, Some(false)));
        for text in ["", "\0\u{fffd}", "cuda", "= '1'", "cuda =", "#cuda = '1'"] {
            assert_eq!(assignments(text, "cuda", "").cuda, None, "{text:?}");
        }
    }

    #[test]
    fn tuples_and_json_are_read() {
        let text = "build_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'), \
                    ('is_cuda_build', True), ('is_rocm_build', False)])";
        let read = |text| tuples(text, "cuda_version", "cudnn_version", "is_cuda_build");
        assert_eq!(shown(&read(text)), (Some("12.5.1"), Some("9"), Some(true)));
        assert_eq!(shown(&read("OrderedDict([('is_cuda_build', False)])")), (None, None, Some(false)));
        assert_eq!(shown(&read("('cuda_version', '")), (None, None, None));
        let text = r#"{"cuda": "12.x", "nccl": {"version": "2.25"}, "cudnn": {"version": "8.8.1", "x": []}}"#;
        assert_eq!(shown(&json(text, "cuda", "cudnn")), (Some("12.x"), Some("8.8.1"), Some(true)));
        assert_eq!(shown(&json(r#"{"cuda": "12.x", "nccl": {"version": "2"}}"#, "cuda", "cudnn")).1, None);
        assert_eq!(shown(&json("{", "cuda", "cudnn")), (None, None, None));
    }
}
