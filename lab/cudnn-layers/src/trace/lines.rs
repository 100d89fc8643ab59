//! Writes one line per call, for people and for `grep`.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::text_file::TextFile;

use super::call::FinishedCall;
use super::chrome::TraceEvent;
use super::parameters::pieces;

use crate::report::{Destination, bounded_line, open};
use crate::wrappers::Value;

pub(super) struct Lines {
    file: TextFile,
    process: u32,
    is_broken: AtomicBool,
    /// The number of bytes of all lines, and the maximum for a file.
    size: AtomicU64,
    limit: u64,
    host: Host,
}

impl Lines {
    pub(super) fn open(destination: &Destination, limit: u64, host: Host) -> Result<Self, String> {
        let file = open(destination)?;
        let limit = match destination {
            Destination::File(_) => limit,
            Destination::Stdout | Destination::Stderr => u64::MAX,
        };
        let (process, is_broken, size) = (std::process::id(), AtomicBool::new(false), AtomicU64::new(0));
        Ok(Lines { file, process, is_broken, size, limit, host })
    }

    pub(super) fn write_call(&self, finished: &FinishedCall<'_, '_>, has_arguments: bool) {
        let mut line = String::with_capacity(512);
        self.start(&mut line, finished.thread, finished.start, finished.duration);
        line.push_str(finished.call.function.name());
        if let Some(pieces) = pieces(finished.call.function).filter(|_| has_arguments) {
            let mut separator = '(';
            let mut parameters = pieces.parameters.iter();
            finished.call.visit_arguments(|value| {
                let text = parameters.next().map_or("", |piece| piece.text.as_str());
                let _ = write!(line, "{separator}{}{text} = ", if separator == '(' { "" } else { " " });
                let _ = match value {
                    Value::Signed(number) => write!(line, "{number}"),
                    Value::Unsigned(number) => write!(line, "{number}"),
                    Value::Float(number) => write!(line, "{number:?}"),
                    Value::Pointer(address) => write!(line, "{address:#x}"),
                    Value::Other(shown, _) => write!(line, "{shown:?}"),
                };
                separator = ',';
            });
            line.push_str(if separator == '(' { "()" } else { ")" });
        }
        let _ = match (finished.status, finished.is_unwinding) {
            (Some(status), _) => write!(line, " = {status:?}"),
            (None, true) => write!(line, " was left by an exception"),
            (None, false) => Ok(()),
        };
        if let Some(handle) = finished.call.handle.filter(|_| !has_arguments) {
            let _ = write!(line, ", handle {:#x}", handle.addr());
        }
        if let Some(stream) = finished.stream {
            let _ = write!(line, ", stream {stream:#x}");
        }
        if let Some(label) = finished.label {
            let _ = write!(line, ", graph: {label}");
        }
        self.write(line);
    }

    pub(super) fn write_event(&self, event: &TraceEvent<'_>) {
        let mut line = String::with_capacity(512);
        self.start(&mut line, event.thread, event.start, event.duration.unwrap_or(0));
        line.push_str(&event.name);
        for (key, text) in event.members {
            let _ = write!(line, ", {key}: {text}");
        }
        self.write(line);
    }

    fn start(&self, line: &mut String, thread: u32, start: u64, duration: u64) {
        let (seconds, rest) = (start / 1_000_000_000, start % 1_000_000_000);
        let (microseconds, nanoseconds) = (duration / 1000, duration % 1000);
        let _ = write!(
            line,
            "cudnn-trace {}/{thread} {seconds}.{:06}s {microseconds}.{nanoseconds:03}us ",
            self.process,
            rest / 1000
        );
    }

    fn write(&self, line: String) {
        if self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        let mut line = bounded_line(line);
        line.push('\n');
        let length = line.len() as u64;
        if self.size.fetch_add(length, Ordering::Relaxed).saturating_add(length) > self.limit {
            if !self.is_broken.swap(true, Ordering::Relaxed) {
                let reason = format!("the limit of {} bytes is reached (CUDNN_TRACE_LIMIT)", self.limit);
                let _ = self.file.write(format!("cudnn-trace {} ends here: {reason}\n", self.process).as_bytes());
                self.host.error(&format!("stopped writing lines; the program continues without them: {reason}"));
            }
            return;
        }
        let Err(error) = self.file.write(line.as_bytes()) else { return };
        // If the reader of a pipe is too slow, only this line is lost.
        if error.kind() != std::io::ErrorKind::WouldBlock && !self.is_broken.swap(true, Ordering::Relaxed) {
            self.host.error(&format!("stopped writing lines; the program continues without them: {error}"));
        }
    }
}
