//! Compares the time for identifying an installation with the time for loading it. Every measurement runs in a new
//! process, with all files in the page cache.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use support::{TempDir, doctor, lib_dir};

const ROUNDS: usize = 50;

fn numbers(command: &str, dir: &Path) -> Vec<f64> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_first-call")).arg(command).arg(dir).output().expect("first-call starts");
    assert!(output.status.success(), "{command}: {output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    stdout.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let (mut identified, mut loaded, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut read, mut opened) = (0.0, 0.0);
    let dir = lib_dir("cu12-9.28.0").expect("the release");
    let ten: Vec<TempDir> = (0..10).map(|_| TempDir::links_to(&dir)).collect();
    let doctor = doctor();
    for _ in 0..ROUNDS {
        let one = numbers("identify", &dir);
        identified.push(one[0] / 1e6);
        read = one[1];
        let all = numbers("load-all", &dir);
        loaded.push(all[0] / 1e6);
        opened = all[1];
        let start = Instant::now();
        let status = Command::new(&doctor)
            .arg("list")
            .args(ten.iter().map(TempDir::path))
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        listed.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(status.is_ok());
    }
    let (identified, loaded, listed) = (median(identified), median(loaded), median(listed));
    println!("A full installation of 9.28.0, medians of {ROUNDS} processes, page cache warm:");
    println!("  identified  {identified:8.3} ms, {:.0} KB read", read / 1e3);
    println!(
        "  loaded      {loaded:8.3} ms, {:.1} times as long ({opened} of 10 libraries; the others need libraries that are missing here)",
        loaded / identified
    );
    println!("  cudnn-doctor list with ten of them, the entire process: {listed:.1} ms");
}
