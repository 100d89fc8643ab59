//! Which files a program or library would get from the dynamic linker, those that NVIDIA's shim and graph open by
//! themselves included, and whether they belong together.

use std::path::{Path, PathBuf};

use cudnn_probe::{Library, Lookup, Resolution, Rule, Simulation, Version};

use crate::file::{identity, library, version_of};
use crate::output::Printable;

/// A name that is asked for, and what comes of it.
pub(crate) struct Line {
    /// Who asks at run time; nothing for what is needed from the start.
    pub(crate) opened_by: Option<Library>,
    pub(crate) name: String,
    pub(crate) file: Option<PathBuf>,
    pub(crate) rule: String,
    pub(crate) version: Option<Version>,
    /// What is wrong with it.
    pub(crate) wrong: Option<String>,
}

/// Everything of cuDNN's and CUDA's, and whatever is wrong: what is needed from the start, then what is opened.
pub(crate) fn lines(mut prediction: Simulation) -> Vec<Line> {
    let mut lines: Vec<Line> = itself(&prediction).into_iter().collect();
    lines.extend(prediction.steps().iter().filter(|step| is_of_interest(step)).map(|step| line(None, step)));
    simulate_dlopens(&mut prediction, &mut lines);
    // Each name once: that it is loaded already when others need it says nothing new.
    let mut told = Vec::new();
    lines.retain(|line| {
        let is_new = !told.contains(&line.name);
        told.push(line.name.clone());
        is_new
    });
    lines
}

fn is_of_interest(step: &Lookup) -> bool {
    const PREFIXES: [&str; 6] = ["libcudnn", "libcublas", "libcudart", "libnvrtc", "libcuda.so", "libnvJitLink"];
    PREFIXES.iter().any(|prefix| step.name.starts_with(prefix)) || !matches!(step.outcome, Resolution::Found { .. })
}

fn line(opened_by: Option<Library>, step: &Lookup) -> Line {
    let by = Path::new(step.wanted_by.file_name().unwrap_or_default()).printable();
    let (file, rule, wrong) = match &step.outcome {
        Resolution::Found { path, rule } => (Some(with_canonical_dir(path)), rule_text(rule), None),
        Resolution::Unusable { path, rule, error: refusal } => {
            (Some(with_canonical_dir(path)), rule_text(rule), Some(refusal.to_string()))
        }
        _ => (None, "not found".into(), Some(format!("is not found; {by} needs it"))),
    };
    let version = file.as_deref().and_then(version_of);
    Line { opened_by, name: step.name.printable(), file, rule, version, wrong }
}

/// The file itself, if it is one of cuDNN's.
fn itself(prediction: &Simulation) -> Option<Line> {
    let path = &prediction.objects().first()?.path;
    let name = path.file_name()?.to_str()?.to_owned();
    library(&name)?;
    let (version, rule) = (version_of(path), "by its path".into());
    Some(Line { opened_by: None, name, file: Some(path.clone()), rule, version, wrong: None })
}

/// The file, with its folder as it is called without detours: `lib/../../nvidia` is hard to read.
fn with_canonical_dir(file: &Path) -> PathBuf {
    let real = file.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    real.zip(file.file_name()).map_or(file.to_owned(), |(folder, name)| folder.join(name))
}

/// The rule in words; the file whose rule it is stands above, in full.
fn rule_text(rule: &Rule) -> String {
    let name = |of: &Path| Path::new(of.file_name().unwrap_or_default()).printable();
    match rule {
        Rule::Rpath(of) => format!("RPATH of {}", name(of)),
        Rule::Runpath(of) => format!("RUNPATH of {}", name(of)),
        other => other.to_string(),
    }
}

/// What NVIDIA's shim opens when its functions are first called, then what graph opens when it first plans something.
fn simulate_dlopens(prediction: &mut Simulation, lines: &mut Vec<Line>) {
    const BY_SHIM: [Library; 5] = [Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];
    for (asking, wanted) in [(Library::Shim, &BY_SHIM[..]), (Library::Graph, Library::OPENED_BY_GRAPH)] {
        let Some(from) = prediction.loaded(asking.file_name()) else { continue };
        // Where it cannot be told, the names with numbers are asked for in vain.
        let version = prediction.objects().get(from).and_then(|object| version_of(&object.path));
        let version = version.unwrap_or(Version::new(9, 0, 0));
        for library in wanted {
            let mut tried = Vec::new();
            for name in library.dlopen_names(version) {
                let before = prediction.steps().len();
                let can = prediction.open(&name, from);
                tried = prediction.steps().get(before..).unwrap_or_default().iter().collect();
                // One that is there and cannot be loaded is the story; those that are not there are how it is meant to be.
                if can || !matches!(tried.first().map(|step| &step.outcome), Some(Resolution::Missing)) {
                    break;
                }
            }
            let is_absent = matches!(tried.first().map(|step| &step.outcome), Some(Resolution::Missing));
            match tried.first().filter(|_| is_absent) {
                // A JIT-only set has none of most, and older releases have not all.
                Some(step) => lines.push(Line {
                    name: library.file_name().into(),
                    rule: "not here".into(),
                    wrong: None,
                    ..line(Some(asking), step)
                }),
                None => {
                    let tried = tried.into_iter().filter(|step| is_of_interest(step));
                    lines.extend(tried.map(|step| line(Some(asking), step)));
                }
            }
        }
    }
}

/// What is wrong, in sentences.
pub(crate) fn problems(lines: &[Line]) -> Vec<String> {
    let sentence = |line: &Line| Some(format!("{} {}", line.name, line.wrong.as_ref()?));
    lines.iter().filter_map(sentence).chain(mix(lines)).collect()
}

/// Libraries of two releases, of two CUDA majors, or from two folders of which nobody can say that they are of one.
pub(crate) fn mix(lines: &[Line]) -> Option<String> {
    let of_cudnn = || lines.iter().filter_map(|line| Some((line, library(&line.name)?, line.file.as_deref()?)));
    let (graph, _, graph_file) = of_cudnn().find(|(_, library, _)| *library == Library::Graph)?;
    let folder = graph_file.parent()?;
    // A library that states no version is of the release of the graph library beside it.
    let release = |line: &Line, file: &Path| {
        line.version.or_else(|| version_of(&file.with_file_name(Library::Graph.file_name())))
    };
    let cuda = of_cudnn().filter(|(_, _, file)| file.parent() == Some(folder));
    let cuda = cuda.filter_map(|(_, _, file)| identity(file)?.cuda_major).next();
    let cure = "remove one, or have one folder come first for all";
    for (line, _, file) in of_cudnn() {
        let Some(there) = file.parent().filter(|there| *there != folder) else { continue };
        match (release(line, file), graph.version) {
            (Some(one), Some(other)) if one != other => {
                let (here, there) = (folder.printable(), there.printable());
                return Some(format!("two releases would be mixed: {other} of {here} and {one} of {there}; {cure}"));
            }
            (None, Some(other)) => {
                let name = &line.name;
                return Some(format!(
                    "{name} would be taken from {}, which says nothing of its release, beside {other} of {}; {cure}",
                    there.printable(),
                    folder.printable()
                ));
            }
            _ => {}
        }
        if let (Some(one), Some(other)) = (identity(file).and_then(|identity| identity.cuda_major), cuda)
            && one != other
        {
            let (here, there) = (folder.printable(), there.printable());
            return Some(format!(
                "libraries for two CUDA majors would be mixed: CUDA {other} of {here} and CUDA {one} of {there}; {cure}"
            ));
        }
    }
    None
}
