//! `plans`: manages the files of compiled plans that the layer `plans` caches, without loading cuDNN.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anstyle::AnsiColor;
use clap::{Args, Subcommand};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, count, labeled, milliseconds, outln, remark};
use cudnn_cli::shell::{SEPARATOR, set_variable};
use cudnn_cli::subprocess::Timeouts;
use cudnn_cli::table::table;
use cudnn_os::trusted_files::make_readable;
use cudnn_probe::Version;
use cudnn_store::plans::{
    NO_DIRECTORY, PACK_VARIABLE, PlanEntry, PlanInfo, PlanSource, Settings, Store, StoredPlan, is_pack, write_pack,
};
use serde_json::{Value, json};

use crate::devices::{DeviceOption, TargetDevice};
use crate::output_file::{Output, OutputKind, Replace};
use crate::plan_worker;

const PACK: OutputKind = OutputKind { name: "a pack of plans", is_start: is_pack };

/// The options of `plans`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Use the plans in this directory, without packs. Default: the directories and packs in `CUDNN_PLANS_DIR` and
    /// `CUDNN_PLANS_PACK`, as for a program.
    #[arg(long, visible_alias = "from", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// List the plans: the operation, device, cuDNN version, size and last use. Names damaged plans, which programs
    /// ignore and build again.
    List,
    /// Write the plans into one file (a pack), for a container image.
    Pack {
        /// The output file.
        file: PathBuf,
        #[command(flatten)]
        device: DeviceOption,
        #[command(flatten)]
        replace: Replace,
    },
    /// Remove the plans from the directory, and leave other files alone.
    Clear,
}

fn shown_version(version: u32) -> String {
    Version::from_number(version as usize).to_string()
}

struct Plans {
    store: Store,
    problems: Vec<String>,
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let (mut settings, mut problems) = Settings::from_environment();
    if let Some(dir) = &arguments.dir {
        let dir = std::path::absolute(dir)?;
        std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.printable()))?;
        // The size limit from the environment also applies to this directory.
        settings = Settings { dir: Some(dir), packs: Vec::new(), ..settings };
        problems.clear();
    }
    let (store, of_store) = Store::open(&settings);
    problems.extend(of_store);
    let plans = Plans { store, problems, format };
    match &arguments.action {
        Action::List => Ok(plans.list()),
        Action::Pack { file, device, replace } => {
            let inputs: Vec<&Path> = device.device.iter().chain(&settings.packs).map(PathBuf::as_path).collect();
            let file = std::path::absolute(file)?;
            let output = Output { file: &file, kind: &PACK, inputs: &inputs, force: replace.force };
            output.check()?;
            plans.pack(&output, device.select()?.as_ref(), timeouts)
        }
        Action::Clear => plans.clear(),
    }
}

impl Plans {
    /// Reads the plans without keys and contents, which can be a gigabyte in size.
    fn read(&mut self) -> Vec<StoredPlan> {
        let mut plans = Vec::new();
        for stored in self.store.entries() {
            match stored {
                Ok(mut stored) => {
                    stored.entry.key = Vec::new();
                    stored.entry.plan = Vec::new();
                    plans.push(stored);
                }
                Err(problem) => self.problems.push(problem),
            }
        }
        plans
    }

    fn report(&self, mut keys: Value, text: impl FnOnce()) -> Outcome {
        if let Some(keys) = keys.as_object_mut() {
            keys.insert("directory".to_owned(), json!(self.store.dir().map(|dir| dir.to_string_lossy())));
            keys.insert("problems".to_owned(), json!(self.problems));
        }
        self.format.report(
            || keys,
            || {
                text();
                print_problems(&self.problems);
            },
        );
        // Without HOME, plans are not cached, but programs work.
        if self.problems.iter().any(|problem| problem != NO_DIRECTORY) { Outcome::Warnings } else { Outcome::Fine }
    }

    fn list(mut self) -> Outcome {
        let mut plans = self.read();
        // Plans that were used last come first. For packs, the last use is unknown.
        plans.sort_by(|one, other| other.last_use.cmp(&one.last_use).then_with(|| one.name.cmp(&other.name)));
        let keys = json!({ "plans": plans.iter().map(|stored| self.value(stored)).collect::<Vec<Value>>() });
        self.report(keys, || {
            let mut table = table(["plan", "device", "cuDNN", "size", "last use"]);
            let now = SystemTime::now();
            for StoredPlan { entry, source, bytes, last_use, .. } in &plans {
                let use_or_pack = match (source, last_use) {
                    (PlanSource::Pack(pack), _) => format!("in {}", pack.printable()),
                    (PlanSource::Directory, time) => time.map_or_else(|| "?".into(), |time| age(time, now)),
                };
                let PlanInfo { label, device, cudnn_version, .. } = &entry.about;
                let version = shown_version(*cudnn_version);
                table.add_row([label.printable(), device.printable(), version, size(*bytes), use_or_pack]);
            }
            if plans.is_empty() { self.print_none() } else { outln!("{table}") }
        })
    }

    /// Packs plans. For a described device, they are rebuilt first.
    fn pack(mut self, output: &Output<'_>, device: Option<&TargetDevice>, timeouts: &Timeouts) -> CommandResult {
        let mut damaged = Vec::new();
        let stored = self.store.entries();
        let stored = stored.filter_map(|stored| stored.map_err(|problem| damaged.push(problem)).ok());
        let stored = stored.map(|stored| stored.entry);
        let mut failures = Vec::new();
        let entries: Box<dyn Iterator<Item = PlanEntry>> = match device {
            None => Box::new(stored),
            Some(device) => {
                let rebuilt = plan_worker::rebuild_all(&device.description, stored, &mut failures, timeouts);
                Box::new(rebuilt.map_err(|reason| reason.printable())?.into_iter())
            }
        };
        for failure in &failures {
            remark(format!("not planned: {}", failure.printable()));
        }
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return Err(format!("there is no plan{}", self.place()).into());
        }
        let packed = output.write(|file| {
            // Programs in a container image may run as different users.
            make_readable(file)?;
            write_pack(file, entries)
        })?;
        self.problems.extend(damaged);
        let keys = json!({ "file": output.file.to_string_lossy(), "entries": packed.entries, "bytes": packed.bytes });
        let outcome = self.report(keys, || {
            outln!("{}, {}, in {}", count(packed.entries, "plan"), size(packed.bytes), output.file.printable());
            // `PATH`-like variables cannot contain this path.
            match std::env::join_paths([output.file]) {
                Ok(packs) => outln!("To use it: {}", set_variable(PACK_VARIABLE, packs)),
                Err(_) => outln!(
                    "To use it, copy it to a path without {SEPARATOR:?}, which separates the packs in {PACK_VARIABLE}"
                ),
            }
        });
        if let Some(known) = device.and_then(|device| device.known.as_ref()) {
            remark(format_args!(
                "note: a program uses these plans only if cuDNN describes its GPU exactly like `cudnn-lab devices {}`, \
                 including the driver and the memory; `cudnn-lab devices --here` prints the description on that machine",
                known.name
            ));
        }
        Ok(if failures.is_empty() { outcome } else { outcome.max(Outcome::Warnings) })
    }

    fn clear(self) -> CommandResult {
        if self.store.dir().is_none() {
            // The store reports problems with the directory last.
            let reason = self.problems.last().map(|problem| problem.printable());
            return Err(reason.unwrap_or_else(|| "there is no directory of plans".into()).into());
        }
        let cleared = self.store.clear().map_err(|problem| problem.printable())?;
        self.format.report(
            || {
                json!({
                    "directory": self.store.dir().map(|dir| dir.to_string_lossy()),
                    "removed_entries": cleared.entries,
                    "removed_temporaries": cleared.temporaries,
                })
            },
            || {
                let (plans, files) = (count(cleared.entries, "plan"), count(cleared.temporaries, "temporary file"));
                outln!("Removed {plans} and {files}{}.", self.place());
            },
        );
        Ok(Outcome::Fine)
    }

    fn value(&self, StoredPlan { entry, source, name, bytes, last_use }: &StoredPlan) -> Value {
        let PlanInfo { label, device, cudnn_version, build_time, workspace_size } = &entry.about;
        let file = match source {
            PlanSource::Directory => self.store.dir().map(|dir| dir.join(name)),
            PlanSource::Pack(pack) => Some(pack.clone()),
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

    /// Formats the location of the plans as the end of a sentence.
    fn place(&self) -> String {
        self.store.dir().map(|dir| format!(" in {}", dir.printable())).unwrap_or_default()
    }

    fn print_none(&self) {
        let place = self.place();
        outln!(
            "No plans are cached{place}. The layer `plans` (CUDNN_LAYERS=plans) caches the plans that a program builds."
        );
    }
}

const MAX_PROBLEMS: usize = 20;

fn print_problems(problems: &[String]) {
    for problem in problems.iter().take(MAX_PROBLEMS) {
        labeled("warning", AnsiColor::Yellow, format_args!(": {}", problem.printable()));
    }
    if let Some(more @ 1..) = problems.len().checked_sub(MAX_PROBLEMS) {
        outln!("{} not shown (`--json` lists all).", count(more, "more warning"));
    }
}

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
    use std::time::Duration;

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
