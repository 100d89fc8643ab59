//! Runs the doctor as a child process: libraries may crash or hang when they are loaded.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The part of a child's output that is kept, in bytes.
const MAX_OUTPUT_LEN: usize = 1 << 20;

/// The time for which the output may stay open after the child has ended: the child's children may still have it open.
const GRACE: Duration = Duration::from_secs(1);

/// The way in which a child ended.
pub(crate) struct ChildOutput {
    /// `None` if the child exceeded its time and was killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the doctor with these arguments, for at most this time. In the root directory: an empty or relative element of
/// LD_LIBRARY_PATH must not lead to libraries in the caller's working directory.
pub(crate) fn run(arguments: &[&OsStr], timeout: Duration) -> std::io::Result<ChildOutput> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .current_dir("/")
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would mix with the child's output.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take().map(Collector::start), child.stderr.take().map(Collector::start));
    let status = wait(&mut child, timeout)?;
    let text = |collector: Option<Collector>| collector.map_or_else(String::new, Collector::finish);
    Ok(ChildOutput { status, stdout: text(stdout), stderr: text(stderr) })
}

/// Runs this command line again in a child process, with this argument before the others, on the same terminal.
/// `None` if it exceeded its time and was killed.
pub(crate) fn supervise(first: &str, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = Command::new(std::env::current_exe()?).arg(first).args(std::env::args_os().skip(1)).spawn()?;
    wait(&mut child, timeout)
}

fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads a pipe to its end, so that the writer never blocks, and keeps the beginning.
struct Collector {
    kept: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (at_end, end) = channel();
        let ours = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut block = [0u8; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut block) {
                let mut kept = ours.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_OUTPUT_LEN.saturating_sub(kept.len());
                kept.extend(block.iter().take(length.min(room)));
            }
            // After the grace period the receiver no longer exists.
            let _ = at_end.send(());
        });
        Collector { kept, end }
    }

    fn finish(self) -> String {
        let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) = self.end.recv_timeout(GRACE);
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
