//! `explain`: which file the dynamic linker would take for each of cuDNN's and CUDA's names, and by which rule.

use std::path::{Path, PathBuf};

use cudnn_probe::{
    Environment, Library, Outcome as Found, Prediction, Requirements, Rule, Search, Step, Version, find,
};
use serde_json::{Value, json};

use crate::file::{library, version_of};
use crate::output::{Format, Outcome, Shown, document, fail, say};

/// The options of `explain`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A program or a library. Without one: NVIDIA's shim of the installation that would be used.
    file: Option<PathBuf>,
}

/// A line of the answer.
struct Line {
    /// Who asks at run time; nothing for what is needed from the start.
    opened_by: Option<Library>,
    name: String,
    file: Option<PathBuf>,
    rule: String,
    version: Option<Version>,
    /// What is wrong with it.
    wrong: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Environment::current().without_executable();
    let Some(file) = arguments.file.clone().or_else(|| shim_in_use(&environment)) else {
        return fail(
            format,
            "No cuDNN would be used here, so there is nothing to explain. Name a program or a library.",
        );
    };
    let mut prediction = match Prediction::of(&file, &environment) {
        Ok(prediction) => prediction,
        Err(refusal) => {
            let cure = refusal.cure().map_or(String::new(), |cure| format!("\n{cure}"));
            return fail(format, format!("{} {refusal}{cure}", file.shown()));
        }
    };
    let mut lines: Vec<Line> = itself(&prediction).into_iter().collect();
    lines.extend(prediction.steps().iter().filter(|step| is_of_interest(step)).map(|step| line(None, step)));
    open_the_rest(&mut prediction, &mut lines);
    // Each name once: that it is loaded already when others need it says nothing new.
    let mut told = Vec::new();
    lines.retain(|line| {
        let is_new = !told.contains(&line.name);
        told.push(line.name.clone());
        is_new
    });
    let mut problems = problems(&lines);
    problems.extend(other_majors(&lines, &environment));
    match format {
        Format::Json => document(&json!({
            "schema": 1,
            "file": file.to_string_lossy(),
            "names": lines.iter().map(value).collect::<Vec<Value>>(),
            "problems": problems,
        })),
        Format::Text => text(&file, &lines, &problems),
    }
    if problems.is_empty() { Outcome::Fine } else { Outcome::Problems }
}

fn shim_in_use(environment: &Environment) -> Option<PathBuf> {
    let installation = find(&Search::new(environment.clone()), &Requirements::default()).installation?;
    let shim = installation.path(Library::Shim);
    shim.exists().then_some(shim)
}

/// cuDNN's and CUDA's names, and whatever is wrong.
fn is_of_interest(step: &Step) -> bool {
    const PREFIXES: [&str; 6] = ["libcudnn", "libcublas", "libcudart", "libnvrtc", "libcuda.so", "libnvJitLink"];
    PREFIXES.iter().any(|prefix| step.name.starts_with(prefix)) || !matches!(step.outcome, Found::Found { .. })
}

fn line(opened_by: Option<Library>, step: &Step) -> Line {
    let by = step.wanted_by.file_name().unwrap_or_default().to_string_lossy();
    let (file, rule, wrong) = match &step.outcome {
        Found::Found { path, rule } => (Some(in_real_folder(path)), words(rule), None),
        Found::Unusable { path, rule, refusal } => (Some(in_real_folder(path)), words(rule), Some(refusal.to_string())),
        _ => (None, "not found".into(), Some(format!("is not found; {by} needs it"))),
    };
    let version = file.as_deref().and_then(version_of);
    Line { opened_by, name: step.name.clone(), file, rule, version, wrong }
}

/// The file, with its folder as it is called without detours: `lib/../../nvidia` is hard to read.
fn in_real_folder(file: &Path) -> PathBuf {
    let real = file.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    real.zip(file.file_name()).map_or(file.to_owned(), |(folder, name)| folder.join(name))
}

/// The rule in words; the file whose rule it is stands above, in full.
fn words(rule: &Rule) -> String {
    let name = |of: &Path| Path::new(of.file_name().unwrap_or_default()).shown();
    match rule {
        Rule::RunPathBefore(of) => format!("RPATH of {}", name(of)),
        Rule::RunPathAfter(of) => format!("RUNPATH of {}", name(of)),
        other => other.to_string(),
    }
}

/// The file itself, if it is one of cuDNN's.
fn itself(prediction: &Prediction) -> Option<Line> {
    let path = &prediction.objects().first()?.path;
    let name = path.file_name()?.to_str()?.to_owned();
    library(&name)?;
    let (version, rule) = (version_of(path), "by its path".into());
    Some(Line { opened_by: None, name, file: Some(path.clone()), rule, version, wrong: None })
}

/// What NVIDIA's shim opens when its functions are first called, then what graph opens when it first plans something.
fn open_the_rest(prediction: &mut Prediction, lines: &mut Vec<Line>) {
    const BY_SHIM: [Library; 5] = [Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];
    for (asking, wanted) in [(Library::Shim, &BY_SHIM[..]), (Library::Graph, Library::OPENED_BY_GRAPH)] {
        let Some(from) = prediction.loaded(asking.file_name()) else { continue };
        // Where it cannot be told, the names with numbers are asked for in vain.
        let version = prediction.objects().get(from).and_then(|object| version_of(&object.path));
        let version = version.unwrap_or(Version::new(9, 0, 0));
        for library in wanted {
            let before = prediction.steps().len();
            let opened = library.asked_for_as(version).iter().any(|name| prediction.open(name, from));
            let steps = prediction.steps().get(before..).unwrap_or_default();
            match opened {
                // Attempts that led nowhere are how it is meant to be.
                true => {
                    let is_telling = |step: &&Step| matches!(step.outcome, Found::Found { .. }) && is_of_interest(step);
                    lines.extend(steps.iter().filter(is_telling).map(|step| line(Some(asking), step)));
                }
                false => lines.extend(steps.iter().filter(|step| step.name == library.file_name()).map(|step| {
                    // A JIT-only set has none of most, and older releases have not all.
                    let mut line = line(Some(asking), step);
                    if matches!(step.outcome, Found::Missing) {
                        line.wrong = None;
                        line.rule = "not here".into();
                    }
                    line
                })),
            }
        }
    }
}

/// What is wrong, in sentences.
fn problems(lines: &[Line]) -> Vec<String> {
    let mut found: Vec<String> =
        lines.iter().filter_map(|line| Some(format!("{} {}", line.name, line.wrong.as_ref()?))).collect();
    let mut versions: Vec<(Version, &Path)> =
        lines.iter().filter_map(|line| Some((line.version?, line.file.as_deref()?.parent()?))).collect();
    versions.sort();
    versions.dedup();
    if let ([(first, here), .., (last, there)], true) =
        (versions.as_slice(), versions.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a != b)))
    {
        found.push(format!(
            "two releases would be mixed: {first} of {} and {last} of {}; remove one, or have one folder come first for all",
            here.shown(),
            there.shown()
        ));
    }
    found
}

/// A program that wants another major of cuDNN than 9: what it wants, and what there is.
fn other_majors(lines: &[Line], environment: &Environment) -> Option<String> {
    let major = |line: &Line| {
        let (stem, number) = line.name.split_once(".so.")?;
        let major: u32 = number.split('.').next()?.parse().ok()?;
        (stem.starts_with("libcudnn") && major != 9 && line.wrong.is_some()).then_some(major)
    };
    let major = lines.iter().find_map(major)?;
    let here = find(&Search::new(environment.clone()), &Requirements::default()).installation;
    let here =
        here.map_or("no cuDNN 9 either".into(), |one| format!("cuDNN {} in {}", one.version, one.folder.shown()));
    Some(format!(
        "it wants cuDNN {major}, and another major does not serve; here is {here}. Install a version of it that is made \
         for cuDNN 9, or cuDNN {major}: pip install 'nvidia-cudnn-cu12=={major}.*'"
    ))
}

fn text(file: &Path, lines: &[Line], problems: &[String]) {
    say!("{}", file.shown());
    if lines.is_empty() {
        say!(
            "  needs none of cuDNN's and CUDA's libraries from the start. What it opens when it runs cannot be seen here."
        );
    }
    let mut opened_by = None;
    for line in lines {
        if line.opened_by != opened_by {
            opened_by = line.opened_by;
            let by = opened_by.map_or("", Library::file_name);
            say!("\n{by} would open, when it is used:");
        }
        let version = line.version.map_or(String::new(), |version| format!(" ({version})"));
        match &line.file {
            Some(file) => say!("  {:<40} {}{version}: {}", line.name, file.shown(), line.rule),
            None => say!("  {:<40} {}", line.name, line.rule),
        }
    }
    for problem in problems {
        say!("\nWrong: {problem}");
    }
}

fn value(line: &Line) -> Value {
    json!({
        "name": line.name,
        "opened_by": line.opened_by.map(Library::file_name),
        "file": line.file.as_ref().map(|file| file.to_string_lossy()),
        "rule": line.rule,
        "version": line.version.map(|version| version.to_string()),
        "wrong": line.wrong,
    })
}
