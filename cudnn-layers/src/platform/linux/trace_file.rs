//! A file that is one complete JSON array at any moment, whatever ends the process.
//!
//! The file is mapped in chunks. A chunk is first filled with spaces by a system call, so that a full disk is an error of
//! that call: a store to a page of the file that has no place on the disk would be a SIGBUS. The array's bracket then
//! moves to the end of the chunk. Threads reserve their places in the chunk by an atomic offset. Everything is stored in
//! [`Step`]s, each by one instruction, and after each the file is complete.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use cudnn_plan_store::unnoticed::{Unnoticed, with_signals_blocked, without_signal};

use super::clock;
use super::store::store;
use crate::platform::append_error::{AppendError, PATIENCE};
use crate::step::{Sink, Step};

/// A multiple of every page size.
const CHUNK: u64 = 256 * 1024;
/// The byte at the end of a chunk that records do not get: the bracket.
const RESERVED: u64 = 1;
/// The bytes that a record may leave unused, because it takes 10 ns to give them back.
const WASTE: usize = 16;
/// What the last steps of a record write beyond its end: they close their pieces, and the last piece has 11 bytes.
const SPILL: usize = Step::SIZE - 11;
/// Chunks that may be mapped at once: a thread that is interrupted while it writes keeps its chunk mapped.
const SLOTS: u64 = 16;
/// An open file. Shared by all threads. Never dropped: other threads may write to it until the process ends.
pub(crate) struct TraceFile {
    file: Descriptor,
    path: PathBuf,
    /// The number of the chunk that is written to, in the upper half, and the first free offset in it. Numbers begin at 0
    /// and may skip some.
    place: AtomicU64,
    slots: [Slot; SLOTS as usize],
    /// A thread adds a chunk. It has the length of the file then.
    is_growing: AtomicBool,
    length: AtomicU64,
    /// The number of the chunk that is ready to be written to after the present one; 0 if there is none.
    prepared: AtomicU64,
    /// Prepares chunks ahead. Nobody waits for it: without it, the thread that needs a chunk adds it itself.
    helper: OnceLock<Thread>,
}

/// The place of a mapped chunk.
struct Slot {
    /// Null while it is free.
    mapping: AtomicPtr<u8>,
    /// What of the mapping comes before the chunk.
    before: AtomicU64,
    /// The bytes written, less those that were reserved once no more can be: the thread that makes it 0 frees the slot.
    pending: AtomicI64,
}

impl TraceFile {
    /// Creates the file, with one record in it, which is `first`: an object. An existing file is replaced, and remains
    /// what it is for those who have it open. If another process writes a trace to it right now, the file gets the other
    /// name.
    pub(crate) fn create(name: &Path, other_name: &Path, first: &str) -> Result<Self> {
        let _unnoticed = Unnoticed::new();
        let name = resolved(name)?;
        let temporary = with_suffix(&name, &format!(".{}.new", std::process::id()));
        let _ = std::fs::remove_file(&temporary);
        // Read-only for others: a program whose mapped file somebody truncates is ended by the system.
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o444).open(&temporary)?;
        let created = (|| {
            let descriptor = Descriptor::new(&file)?;
            // Says to other processes that this file is in use.
            lock_exclusively(descriptor.number)?;
            fill_with_spaces(&file, 0)?;
            let head = format!("[\n{first}\n");
            file.write_all_at(head.as_bytes(), 0)?;
            file.write_all_at(b"]", CHUNK - 1)?;
            let (mapping, before) = map(&file, 0)?;
            let path = publish(&temporary, name, other_name)?;
            let traced = TraceFile {
                file: descriptor,
                path,
                place: AtomicU64::new(head.len() as u64),
                slots: [const { Slot::free() }; SLOTS as usize],
                is_growing: AtomicBool::new(false),
                length: AtomicU64::new(CHUNK),
                prepared: AtomicU64::new(0),
                helper: OnceLock::new(),
            };
            if let Some(slot) = traced.slots.first() {
                slot.take(mapping, before, head.len() as u64);
            }
            Ok(traced)
        })();
        if created.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        created
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a thread that prepares chunks, so that calls do not take the time.
    pub(crate) fn start_helper(&'static self) {
        let _unnoticed = Unnoticed::new();
        let work = move || {
            loop {
                std::thread::park();
                let number = self.place.load(Ordering::Acquire) >> 32;
                if self.prepared.load(Ordering::Acquire) == 0 && self.take_growing() {
                    // An error is reported to the thread that needs the chunk, when it tries the same.
                    let _ = self.prepare_chunk(number);
                    self.is_growing.store(false, Ordering::Release);
                }
            }
        };
        let builder = std::thread::Builder::new().name("cudnn-trace".into()).stack_size(64 * 1024);
        if let Ok(helper) = with_signals_blocked(|| builder.spawn(work)) {
            let _ = self.helper.set(helper.thread().clone());
            helper.thread().unpark();
        }
    }

    /// Closes what a child process has inherited of its parent's file. The mapping stays, unused.
    pub(crate) fn leave_to_parent(&self) {
        let _unnoticed = Unnoticed::new();
        self.file.close();
    }

    /// Lets `write` write a record of at most this many bytes. What it leaves of them goes to the next record, or stays
    /// spaces if another thread has reserved its place meanwhile.
    #[inline]
    pub(crate) fn append(
        &self,
        room: usize,
        write: impl FnOnce(Writer) -> Writer,
    ) -> std::result::Result<(), AppendError> {
        let needed = (room + SPILL) as u64;
        loop {
            let place = self.place.load(Ordering::Acquire);
            let (number, offset) = (place >> 32, place & u64::from(u32::MAX));
            if offset + needed > CHUNK - RESERVED {
                if needed > CHUNK / 2 {
                    return Err(AppendError::Busy);
                }
                self.grow(number)?;
                continue;
            }
            if self.place.compare_exchange_weak(place, place + needed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if offset < CHUNK / 8 && offset + needed >= CHUNK / 8 {
                self.wake_helper();
            }
            if let Some(slot) = self.slot(number) {
                let writer = write(Writer { to: slot.at(offset), left: room });
                let used = (room - writer.left) as u64;
                if writer.left < WASTE {
                    slot.settle(needed.cast_signed());
                    return Ok(());
                }
                let is_given_back = self
                    .place
                    .compare_exchange(place + needed, place + used, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
                slot.settle(if is_given_back { used } else { needed }.cast_signed());
            }
            return Ok(());
        }
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get((number % SLOTS) as usize)
    }

    /// Adds a chunk after the one of this number, unless another thread does.
    #[cold]
    fn grow(&self, number: u64) -> std::result::Result<(), AppendError> {
        let _unnoticed = Unnoticed::new();
        let start = clock::now();
        while !self.take_growing() {
            if self.place.load(Ordering::Acquire) >> 32 != number {
                return Ok(());
            }
            if u128::from(clock::now().saturating_sub(start)) > PATIENCE.as_nanos() {
                return Err(AppendError::Busy);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        let grown = if self.place.load(Ordering::Acquire) >> 32 == number { self.add_chunk(number) } else { Ok(()) };
        self.is_growing.store(false, Ordering::Release);
        grown
    }

    fn take_growing(&self) -> bool {
        self.is_growing.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wake_helper(&self) {
        let _unnoticed = Unnoticed::new();
        if let Some(helper) = self.helper.get() {
            helper.unpark();
        }
    }

    /// Lets records go to the chunk after the one of this number.
    fn add_chunk(&self, number: u64) -> std::result::Result<(), AppendError> {
        if self.prepared.load(Ordering::Acquire) == 0 {
            self.prepare_chunk(number)?;
        }
        let next = self.prepared.swap(0, Ordering::AcqRel);
        let place = self.place.swap(next << 32, Ordering::AcqRel);
        if let Some(slot) = self.slot(number) {
            slot.settle(-(place & u64::from(u32::MAX)).cast_signed());
        }
        Ok(())
    }

    /// Makes a chunk at the end of the file, which comes after the one of this number.
    fn prepare_chunk(&self, number: u64) -> std::result::Result<(), AppendError> {
        let is_free = |next: &u64| self.slot(*next).is_some_and(|slot| slot.mapping.load(Ordering::Acquire).is_null());
        let next = (number + 1..number + SLOTS).find(is_free).ok_or(AppendError::Busy)?;
        let length = self.length.load(Ordering::Relaxed);
        let (mut mapping, mut before) = (null_mut(), 0);
        let added = self.file.with(&self.path, |file| {
            fill_with_spaces(file, length)?;
            (mapping, before) = map(file, length)?;
            Ok(())
        });
        added.map_err(AppendError::Broken)?;
        // SAFETY: the mapping has the last page of the chunk before, whose last byte is the bracket, and this chunk, which
        // has only spaces. Records end before the bracket.
        unsafe { move_bracket(mapping.wrapping_add(before as usize).wrapping_sub(1), CHUNK as usize) };
        self.length.store(length + CHUNK, Ordering::Relaxed);
        if let Some(slot) = self.slot(next) {
            slot.take(mapping, before, 0);
        }
        self.prepared.store(next, Ordering::Release);
        Ok(())
    }
}

/// Writes into the bytes that are reserved for a record. The chunk stays mapped until they are accounted for.
pub(crate) struct Writer {
    to: *mut u8,
    left: usize,
}

impl Sink for Writer {
    #[inline(always)]
    fn put(&mut self, step: Step) {
        let advance = usize::from(step.advance);
        if let Some(left) = self.left.checked_sub(advance) {
            // SAFETY: there is room for the piece. What closes it is in the place of what follows, or in SPILL; even a
            // record without its end would not leave the mapping, where the bracket and its page follow.
            unsafe { store(self.to, step.word) };
            self.to = self.to.wrapping_add(advance);
            self.left = left;
        }
    }

    #[inline]
    fn left(&self) -> usize {
        self.left
    }
}

impl Slot {
    const fn free() -> Self {
        Slot { mapping: AtomicPtr::new(null_mut()), before: AtomicU64::new(0), pending: AtomicI64::new(0) }
    }

    /// Gives it a chunk, of which this much is written already.
    fn take(&self, mapping: *mut u8, before: u64, written: u64) {
        self.pending.store(written.cast_signed(), Ordering::Relaxed);
        self.before.store(before, Ordering::Relaxed);
        self.mapping.store(mapping, Ordering::Release);
    }

    /// This offset of the chunk.
    #[inline]
    fn at(&self, offset: u64) -> *mut u8 {
        let mapping = self.mapping.load(Ordering::Acquire);
        mapping.wrapping_add((self.before.load(Ordering::Relaxed) + offset) as usize)
    }

    /// Accounts for bytes that were written, or for all that were reserved.
    #[inline]
    fn settle(&self, bytes: i64) {
        if self.pending.fetch_add(bytes, Ordering::AcqRel) + bytes == 0 {
            self.release();
        }
    }

    #[cold]
    fn release(&self) {
        let _unnoticed = Unnoticed::new();
        let mapping = self.mapping.load(Ordering::Acquire);
        let length = self.before.load(Ordering::Relaxed) + CHUNK;
        // SAFETY: the mapping of `map`. Nobody has reserved bytes in it that are not written yet, and nobody can.
        unsafe { libc::munmap(mapping.cast(), length as usize) };
        self.mapping.store(null_mut(), Ordering::Release);
    }
}

/// A descriptor that nobody else knows. A program that closes all descriptors may later have another file under its
/// number, so it is compared before each use.
struct Descriptor {
    number: RawFd,
    device: u64,
    inode: u64,
}

impl Descriptor {
    /// Another number for the file, none of the first three, which belong to others even if they are free now.
    fn new(file: &File) -> Result<Self> {
        let metadata = file.metadata()?;
        // SAFETY: the command takes a number.
        let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        Ok(Descriptor { number, device: metadata.dev(), inode: metadata.ino() })
    }

    fn is_ours(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == (self.device, self.inode))
    }

    /// Passes on the file, opened again if the program has closed the descriptor.
    fn with(&self, path: &Path, work: impl FnOnce(&File) -> Result<()>) -> Result<()> {
        // SAFETY: the file is not closed by this value; a number that is not open gives errors.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(self.number) });
        if self.is_ours(&file) {
            return work(&file);
        }
        let again = OpenOptions::new().read(true).write(true).open(path)?;
        if self.is_ours(&again) {
            return work(&again);
        }
        Err(Error::new(ErrorKind::NotFound, "the program has closed it, and its name is another file's now"))
    }

    fn close(&self) {
        // SAFETY: as above.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(self.number) });
        if self.is_ours(&file) {
            // SAFETY: the descriptor is this one's, and it is not used again.
            drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        }
    }
}

/// The absolute path; an error if something has this name that must not be replaced. Symbolic links are not followed: in
/// a directory that everybody may write to, they are others' traps.
fn resolved(name: &Path) -> Result<PathBuf> {
    let name = std::path::absolute(name)?;
    match std::fs::symlink_metadata(&name) {
        Ok(metadata) if !metadata.is_file() => Err(Error::other("it is not a regular file")),
        _ => Ok(name),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn lock_exclusively(descriptor: RawFd) -> Result<()> {
    // SAFETY: the call takes numbers.
    let locked = unsafe { libc::flock(descriptor, libc::LOCK_EX | libc::LOCK_NB) };
    if locked == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Gives the temporary file its name, or the other name if another process uses the first. Returns the name.
fn publish(temporary: &Path, name: PathBuf, other_name: &Path) -> Result<PathBuf> {
    let mut name = name;
    for _ in 0..8 {
        match std::fs::hard_link(temporary, &name) {
            Ok(()) => {
                std::fs::remove_file(temporary)?;
                return Ok(name);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                name = if is_in_use(&name) { resolved(other_name)? } else { name };
                let in_use = is_in_use(&name);
                if !in_use {
                    let _ = std::fs::remove_file(&name);
                }
            }
            // A file system without hard links.
            Err(_) => {
                std::fs::rename(temporary, &name)?;
                return Ok(name);
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Whether a process writes a trace to this file.
fn is_in_use(name: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(name) else { return false };
    // The lock ends when the file is closed here, even if it could be taken.
    lock_exclusively(file.as_raw_fd()).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Writes a chunk of spaces.
fn fill_with_spaces(file: &File, at: u64) -> Result<()> {
    static SPACES: [u8; 16 * 1024] = [b' '; 16 * 1024];
    let fill = || (0..CHUNK).step_by(SPACES.len()).try_for_each(|offset| file.write_all_at(&SPACES, at + offset));
    // A file that may not grow is an error, and no signal.
    without_signal(libc::SIGXFSZ, fill, |filled| {
        filled.as_ref().is_err_and(|error| error.kind() == ErrorKind::FileTooLarge)
    })
}

/// Maps the chunk at this offset, with the page before it. Returns the mapping, and how much of it is before the chunk.
fn map(file: &File, at: u64) -> Result<(*mut u8, u64)> {
    // SAFETY: the call takes a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let before = at.min(page);
    let start = libc::off_t::try_from(at - before).map_err(Error::other)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let length = (before + CHUNK) as usize;
    // SAFETY: a new mapping of a file of this length.
    let mapping = unsafe { libc::mmap(null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), start) };
    if mapping == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok((mapping.cast(), before)) }
}

/// Moves the bracket forward by this many bytes, over spaces. Each store moves it, so there is always one.
///
/// # Safety
/// The bytes may be written, up to the last place of the bracket.
unsafe fn move_bracket(bracket: *mut u8, distance: usize) {
    const STRIDE: usize = Step::SIZE - 1;
    const MOVED: u128 = Step::new("               ]", "").word;
    let mut bracket = bracket;
    for _ in 0..distance / STRIDE {
        // SAFETY: the caller's obligation.
        unsafe { store(bracket, MOVED) };
        bracket = bracket.wrapping_add(STRIDE);
    }
    for _ in 0..distance % STRIDE {
        // SAFETY: the caller's obligation. A volatile store of two bytes is one instruction.
        unsafe { bracket.cast::<Pair>().write_volatile(Pair(u16::from_le_bytes(*b" ]"))) };
        bracket = bracket.wrapping_add(1);
    }
}

/// Two bytes in any alignment.
#[repr(C, packed)]
struct Pair(u16);
