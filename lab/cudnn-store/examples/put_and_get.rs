//! Builds a plan in the first process and takes it from the store in later ones. cuDNN is not called.
//!
//! `cargo run -p cudnn-store --example put_and_get -- DIRECTORY`. Run it twice.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cudnn_store::plans::{PlanEntry, PlanInfo, PlanLookup, Settings, Store, StoreError};

/// All inputs of a plan: a program would add the graph, the engine, the device, and cuDNN's version.
const KEY: &[u8] = b"example: matmul 64x64, engine 0, cuDNN 9.19.0";

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: put_and_get DIRECTORY");
        return ExitCode::FAILURE;
    };
    match run(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &Path) -> Result<(), StoreError> {
    let (store, problems) = Store::open(&Settings { dir: Some(dir.into()), ..Settings::default() });
    problems.iter().for_each(|problem| eprintln!("warning: {problem}"));
    match store.get(KEY) {
        PlanLookup::Found(entry, _) => {
            println!("found the plan, which saved {:?}", entry.about.build_time);
            return Ok(());
        }
        PlanLookup::Missing => println!("building the plan"),
        // `put` replaces a damaged file.
        PlanLookup::Unusable(problem) => println!("building the plan again: {problem}"),
    }
    let start = Instant::now();
    let plan = build();
    let about = PlanInfo { label: "matmul 64x64".into(), build_time: start.elapsed(), ..PlanInfo::default() };
    store.put(&PlanEntry { key: KEY.into(), plan, about })?;
    Ok(())
}

/// Stands in for `cudnnBackendFinalize` and the plan's attribute `CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION`.
fn build() -> Vec<u8> {
    std::thread::sleep(Duration::from_millis(100));
    b"{}".into()
}
