//! The doctor, started once more: for whatever may crash or hang in the libraries of others.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The most that is kept of what it says, in bytes.
const MAX_OUTPUT_LEN: u64 = 1 << 20;

/// How it ended.
pub(crate) struct ChildOutput {
    /// Nothing where it had to be ended, having taken too long.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts the doctor with these words, and waits for it, but not for longer than that.
pub(crate) fn run(
    words: &[&str],
    variables: &[(&str, &std::ffi::OsStr)],
    longest: Duration,
) -> std::io::Result<ChildOutput> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .envs(variables.iter().copied())
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would be among what it says.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
    let status = wait(&mut child, longest)?;
    let text = |collecting: Option<std::thread::JoinHandle<Vec<u8>>>| {
        let bytes = collecting.and_then(|thread| thread.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(ChildOutput { status, stdout: text(stdout), stderr: text(stderr) })
}

fn wait(child: &mut Child, longest: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads to the end, so that the other never waits, and keeps the beginning.
fn collect(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = pipe.by_ref().take(MAX_OUTPUT_LEN).read_to_end(&mut kept);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        kept
    })
}
