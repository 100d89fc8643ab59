//! `plans`: the compiled plans that the layer `plans` keeps across processes. Reads and writes files; loads nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstyle::AnsiColor;
use clap::{Args, Subcommand};
use cudnn_plan_store::{About, PACK_VARIABLE, Problem, ProblemKind, Settings, Source, Store, Stored, write_pack};
use serde_json::{Value, json};

use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, labelled, outln, remark};
use crate::plan_again;
use crate::shell::set_variable;
use crate::subprocess::Patience;
use crate::table::table;

/// The options of `plans`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The plans in this directory, and no packs. Default: what the variables `CUDNN_PLANS_DIR` and `CUDNN_PLANS_PACK`
    /// name, as for a program.
    #[arg(long, visible_alias = "from", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// List the plans: what each computes, on which device, with which cuDNN, its size, and when it was last used.
    List,
    /// Count the plans by cuDNN's release and device, with their size and the time to build them that they spare.
    Stats,
    /// Check each plan, and show those that are damaged. Programs ignore these, and build them again.
    Verify,
    /// Write plans into one file, for a container image: a pack.
    Pack {
        /// The file.
        file: PathBuf,
        /// Only plans for devices with this text in their names.
        #[arg(long, value_name = "TEXT")]
        device_name: Option<String>,
        /// Only plans of this release, or of these releases: `9.19.0`, `9.19`, `9`.
        #[arg(long, value_name = "RELEASE", value_parser = release)]
        cudnn: Option<Release>,
        /// Make the plans again with this machine's cuDNN, for the device that this file describes. It need not be here, but
        /// the driver's library and NVRTC have to. `plans device` prints it where the GPU is.
        #[arg(long, value_name = "FILE")]
        device: Option<PathBuf>,
    },
    /// Print cuDNN's description of this machine's first GPU, for `pack --device` on another machine.
    Device,
    /// Remove the plans and the lists of pages of the directory, and nothing else in it.
    Clear,
}

/// A release of cuDNN, of which the last numbers may be left open.
#[derive(Clone)]
struct Release(Vec<u32>);

fn release(text: &str) -> Result<Release, String> {
    let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
    let numbers = numbers.ok().filter(|numbers| numbers.len() <= 3);
    numbers.map(Release).ok_or_else(|| "a release is up to three numbers: 9.19.0".to_owned())
}

/// The numbers of a version as `cudnnGetVersion` returns it.
fn numbers(version: u32) -> [u32; 3] {
    [version / 10_000, version / 100 % 100, version % 100]
}

fn shown_version(version: u32) -> String {
    numbers(version).map(|number| number.to_string()).join(".")
}

/// What a store has, read once.
struct Content {
    store: Store,
    /// Without keys and plans, which are not shown, and may have a gigabyte.
    plans: Vec<Stored>,
    problems: Vec<Problem>,
}

impl Content {
    fn read(store: Store, mut problems: Vec<Problem>) -> Self {
        let mut plans = Vec::new();
        for stored in store.entries() {
            match stored {
                Ok(mut stored) => {
                    stored.entry.key = Vec::new();
                    stored.entry.plan = Vec::new();
                    plans.push(stored);
                }
                Err(problem) => problems.push(problem),
            }
        }
        Content { store, plans, problems }
    }
}

pub(crate) fn run(arguments: &Arguments, patience: &Patience, format: Format) -> Outcome {
    if matches!(arguments.action, Action::Device) {
        return device(patience, format);
    }
    let (settings, mut problems) = match arguments.dir.as_deref().map(std::path::absolute).transpose() {
        Err(error) => return fail(format, error),
        Ok(Some(dir)) if !dir.is_dir() => {
            let what = match dir.metadata() {
                Ok(_) => "it is no directory".to_owned(),
                Err(error) => error.to_string(),
            };
            return fail(format, format!("{}: {what}", dir.printable()));
        }
        Ok(dir) => match Settings::from_environment() {
            // The limit is the variable's in any case.
            (settings, problems) if dir.is_none() => (settings, problems),
            (Settings { limit, .. }, _) => (Settings { dir, limit, packs: Vec::new() }, Vec::new()),
        },
    };
    let (store, of_store) = Store::open(&settings);
    problems.extend(of_store);
    match &arguments.action {
        Action::List => list(Content::read(store, problems), format),
        Action::Stats => stats(&Content::read(store, problems), settings.limit, format),
        Action::Verify => verify(&Content::read(store, problems), format),
        Action::Pack { file, device_name, cudnn, device } => {
            let is_wanted = |about: &About| {
                device_name.as_ref().is_none_or(|name| about.device.contains(name.as_str()))
                    && cudnn.as_ref().is_none_or(|release| numbers(about.cudnn_version).starts_with(&release.0))
            };
            let file = match std::path::absolute(file) {
                Ok(file) => file,
                Err(error) => return fail(format, error),
            };
            match device {
                None => pack(&store, problems, &file, is_wanted, format),
                Some(device) => pack_again(&store, problems, &file, device, is_wanted, patience, format),
            }
        }
        Action::Clear => clear(&store, &problems, format),
        Action::Device => Outcome::Fine,
    }
}

fn device(patience: &Patience, format: Format) -> Outcome {
    let description = match plan_again::describe(patience) {
        Ok(description) => description,
        Err(reason) => return fail(format, reason.printable()),
    };
    match format {
        Format::Json => document(&json!({ "schema": SCHEMA, "device": description })),
        // As it is: another program reads it.
        Format::Text => outln!("{}", description.printable()),
    }
    Outcome::Fine
}

fn list(mut content: Content, format: Format) -> Outcome {
    // Those that were used last come first; of those in packs nobody knows.
    content.plans.sort_by(|one, other| other.last_use.cmp(&one.last_use).then_with(|| one.name.cmp(&other.name)));
    match format {
        Format::Json => {
            let plans = content.plans.iter().map(|stored| plan_value(&content, stored)).collect::<Vec<Value>>();
            document(&json!({
                "schema": SCHEMA,
                "directory": directory(&content.store),
                "plans": plans,
                "problems": texts(&content.problems),
            }));
        }
        Format::Text => {
            let mut table = table(["plan", "device", "cuDNN", "size", "last use"]);
            let now = SystemTime::now();
            for Stored { entry, source, bytes, last_use, .. } in &content.plans {
                let use_or_pack = match (source, last_use) {
                    (Source::Pack(pack), _) => format!("in {}", pack.printable()),
                    (Source::Directory, time) => time.map_or_else(|| "?".into(), |time| age(time, now)),
                };
                table.add_row([
                    entry.about.label.printable(),
                    entry.about.device.printable(),
                    shown_version(entry.about.cudnn_version),
                    size(*bytes),
                    use_or_pack,
                ]);
            }
            if content.plans.is_empty() {
                print_none(&content.store);
            } else {
                outln!("{table}");
            }
            print_problems(&content.problems);
        }
    }
    outcome(&content.problems)
}

/// The plans of one release for one device.
#[derive(Default)]
struct Group {
    plans: u64,
    bytes: u64,
    build_time: Duration,
}

impl Group {
    fn add(&mut self, stored: &Stored) {
        self.plans += 1;
        self.bytes = self.bytes.saturating_add(stored.bytes);
        self.build_time = self.build_time.saturating_add(stored.entry.about.build_time);
    }
}

fn stats(content: &Content, limit: u64, format: Format) -> Outcome {
    let mut directory_total = Group::default();
    let mut packs = content.store.packs().map(|pack| (pack, Group::default())).collect::<BTreeMap<_, _>>();
    let mut groups = BTreeMap::<(u32, &str), Group>::new();
    for stored in &content.plans {
        let about = &stored.entry.about;
        groups.entry((about.cudnn_version, &about.device)).or_default().add(stored);
        match &stored.source {
            Source::Directory => directory_total.add(stored),
            Source::Pack(pack) => packs.entry(pack).or_default().add(stored),
        }
    }
    match format {
        Format::Json => {
            let packs = packs.iter().map(|(pack, Group { plans, bytes, .. })| {
                json!({ "file": pack.to_string_lossy(), "entries": plans, "bytes": bytes })
            });
            let groups = groups.iter().map(|((version, device), group)| {
                json!({
                    "cudnn": shown_version(*version),
                    "device": device,
                    "entries": group.plans,
                    "bytes": group.bytes,
                    "build_ms": milliseconds(group.build_time),
                })
            });
            document(&json!({
                "schema": SCHEMA,
                "directory": directory(&content.store),
                "limit": limit,
                "entries": directory_total.plans,
                "bytes": directory_total.bytes,
                "packs": packs.collect::<Vec<Value>>(),
                "groups": groups.collect::<Vec<Value>>(),
                "problems": texts(&content.problems),
            }));
        }
        Format::Text => {
            if let Some(dir) = content.store.dir() {
                let Group { plans, bytes, .. } = directory_total;
                outln!("{}: {}, {} of {}", dir.printable(), count(plans, "plan"), size(bytes), size(limit));
            }
            for (pack, Group { plans, bytes, .. }) in &packs {
                outln!("{}: {}, {}", pack.printable(), count(*plans, "plan"), size(*bytes));
            }
            let mut table = table(["cuDNN", "device", "plans", "size", "time to build"]);
            for ((version, device), group) in &groups {
                table.add_row([
                    shown_version(*version),
                    device.printable(),
                    group.plans.to_string(),
                    size(group.bytes),
                    format!("{:.1} s", group.build_time.as_secs_f64()),
                ]);
            }
            if !groups.is_empty() {
                outln!("{table}");
            }
            print_problems(&content.problems);
        }
    }
    outcome(&content.problems)
}

fn verify(content: &Content, format: Format) -> Outcome {
    let good = content.plans.len();
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "directory": directory(&content.store),
            "good": good,
            "problems": texts(&content.problems),
        })),
        Format::Text => {
            match content.problems.len() {
                0 if good == 0 => print_none(&content.store),
                0 => outln!("All is well: {}, as written.", count(good as u64, "plan")),
                _ => {
                    outln!(
                        "{} as written. Programs ignore damaged ones, and build them again.",
                        count(good as u64, "plan")
                    );
                }
            }
            print_problems(&content.problems);
        }
    }
    outcome(&content.problems)
}

fn pack(
    store: &Store,
    mut problems: Vec<Problem>,
    file: &Path,
    is_wanted: impl Fn(&About) -> bool,
    format: Format,
) -> Outcome {
    let mut damaged = Vec::new();
    let wanted = |stored: Result<Stored, Problem>| match stored {
        Ok(stored) => Some(stored.entry).filter(|entry| is_wanted(&entry.about)),
        Err(problem) => {
            damaged.push(problem);
            None
        }
    };
    let mut entries = store.entries().filter_map(wanted).peekable();
    if entries.peek().is_none() {
        return fail(format, format!("there is no such plan{}", place(store)));
    }
    let packed = match write_pack(file, entries) {
        Ok(packed) => packed,
        Err(problem) => return fail(format, problem.what().to_string().printable()),
    };
    problems.extend(damaged);
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "file": file.to_string_lossy(),
            "entries": packed.entries,
            "bytes": packed.bytes,
            "problems": texts(&problems),
        })),
        Format::Text => {
            outln!("{}, {}, in {}", count(packed.entries, "plan"), size(packed.bytes), file.printable());
            outln!("To use it: {}", set_variable(PACK_VARIABLE, file));
            print_problems(&problems);
        }
    }
    outcome(&problems)
}

/// Makes the plans again for a device, and packs those.
fn pack_again(
    store: &Store,
    mut problems: Vec<Problem>,
    file: &Path,
    device: &Path,
    is_wanted: impl Fn(&About) -> bool,
    patience: &Patience,
    format: Format,
) -> Outcome {
    let dirs = tempfile::tempdir().and_then(|from| Ok((from, tempfile::tempdir()?, std::path::absolute(device)?)));
    let (from, to, device) = match dirs {
        Ok(dirs) => dirs,
        Err(error) => return fail(format, error),
    };
    // Here already: a child that waits for a pipe says nothing.
    if let Err(reason) = plan_again::description(&device) {
        return fail(format, reason);
    }
    let open = |dir: &Path| Store::open(&Settings { dir: Some(dir.to_owned()), limit: u64::MAX, packs: Vec::new() });
    let (wanted, _) = open(from.path());
    for stored in store.entries() {
        let kept =
            stored.and_then(|Stored { entry, .. }| if is_wanted(&entry.about) { wanted.put(&entry) } else { Ok(()) });
        problems.extend(kept.err());
    }
    let planned = match plan_again::run(&device, from.path(), to.path(), &patience.for_many_steps()) {
        Ok(planned) => planned,
        Err(reason) => return fail(format, reason.printable()),
    };
    let (store, more) = open(to.path());
    problems.extend(more);
    for failure in &planned.failures {
        remark(format!("not planned: {}", failure.printable()));
    }
    let packed = pack(&store, problems, file, |_| true, format);
    if planned.failures.is_empty() { packed } else { packed.max(Outcome::Warnings) }
}

fn clear(store: &Store, problems: &[Problem], format: Format) -> Outcome {
    if store.dir().is_none() {
        // The store names the problem of the directory last.
        let reason = problems
            .last()
            .map_or_else(|| "there is no directory of plans".into(), |problem| problem.what().to_string());
        return fail(format, reason.printable());
    }
    let cleared = match store.clear() {
        Ok(cleared) => cleared,
        Err(problem) => return fail(format, problem.what().to_string().printable()),
    };
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "directory": directory(store),
            "removed_entries": cleared.entries,
            "removed_temporaries": cleared.temporaries,
            "removed_page_lists": cleared.page_lists,
        })),
        Format::Text => {
            let (plans, files) = (count(cleared.entries, "plan"), count(cleared.temporaries, "temporary file"));
            let lists = match cleared.page_lists {
                0 => String::new(),
                lists => format!(", {} of pages", count(lists, "list")),
            };
            outln!("Removed {plans}{lists} and {files}{}.", place(store));
        }
    }
    Outcome::Fine
}

fn plan_value(content: &Content, stored: &Stored) -> Value {
    let Stored { entry, source, name, bytes, last_use } = stored;
    let About { label, device, cudnn_version, build_time, workspace_size } = &entry.about;
    let file = match source {
        Source::Directory => content.store.dir().map(|dir| dir.join(name)),
        Source::Pack(pack) => Some(pack.clone()),
    };
    let last_use = last_use.and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs()));
    json!({
        "label": label,
        "device": device,
        "cudnn": shown_version(*cudnn_version),
        "build_ms": milliseconds(*build_time),
        "workspace_size": workspace_size,
        "bytes": bytes,
        "last_use": last_use,
        "file": file.map(|file| file.to_string_lossy().into_owned()),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn directory(store: &Store) -> Option<String> {
    store.dir().map(|dir| dir.to_string_lossy().into_owned())
}

/// Where the plans are, at the end of a sentence.
fn place(store: &Store) -> String {
    store.dir().map(|dir| format!(" in {}", dir.printable())).unwrap_or_default()
}

fn print_none(store: &Store) {
    outln!(
        "No plan is kept{}. The layer `plans` (CUDNN_LAYERS=plans) keeps those that a program builds.",
        place(store)
    );
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// How many problems are printed.
const MAX_PROBLEMS: usize = 20;

fn print_problems(problems: &[Problem]) {
    for problem in problems.iter().take(MAX_PROBLEMS) {
        labelled("warning", AnsiColor::Yellow, format_args!(": {}", problem.what().to_string().printable()));
        outln!("  = help: {}", problem.help());
    }
    if let Some(more @ 1..) = problems.len().checked_sub(MAX_PROBLEMS) {
        outln!("{} not shown (`--json` lists all).", count(more as u64, "more warning"));
    }
}

/// Programs work without the plans, only slower.
fn outcome(problems: &[Problem]) -> Outcome {
    // Without HOME, nothing is kept.
    let is_warning = |problem: &Problem| !matches!(problem.kind(), ProblemKind::NoDirectory);
    if problems.iter().any(is_warning) { Outcome::Warnings } else { Outcome::Fine }
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A number of bytes for people: `12.3 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, "bytes");
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}

/// How long ago that was, to the hour.
fn age(time: SystemTime, now: SystemTime) -> String {
    let hours = now.duration_since(time).unwrap_or_default().as_secs() / 3600;
    match hours {
        0 | 1 => "now".to_owned(),
        2..48 => format!("{hours} hours ago"),
        _ => format!("{} days ago", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_for_people() {
        for (bytes, text) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (5 << 50, "5120.0 TiB")]
        {
            assert_eq!(size(bytes), text);
        }
        let now = SystemTime::now();
        for (hours, text) in [(0, "now"), (3, "3 hours ago"), (47, "47 hours ago"), (49, "2 days ago")] {
            assert_eq!(age(now - Duration::from_secs(hours * 3600), now), text);
        }
        assert_eq!(age(now + Duration::from_secs(9), now), "now");
    }
}
