//! Packs: read-only files with many entries, for container images.
//!
//! | bytes | content |
//! | --- | --- |
//! | 16 | [`MAGIC`] |
//! | 4 | format version |
//! | 4 | 0 |
//! | 8 | number of entries |
//! | 8 | size of the file |
//! | 32 | SHA-256 of all previous bytes and the index |
//! | 48 per entry | the index: SHA-256 of the key, offset, length; sorted by hash |
//! | | the entries in the same order, encoded as in a directory |
//!
//! Every lookup opens the pack and reads about 12 positions of the index. The file is not mapped into memory, because
//! truncating it would crash the program.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cudnn_os::trusted_files::{self, File};
use sha2::{Digest, Sha256};

use super::entry::{PlanEntry, PlanInfo, PlanSource, StoredPlan};
use super::error::Cause;
use super::format::{self, MAX_ENTRY, Reader};
use super::name::{self, Hash};

const MAGIC: &[u8; 16] = b"cuDNN plans\r\n\x1a\n\0";
const VERSION: u32 = 1;
const HEADER: u64 = 72;
/// The part of the header that the checksum covers.
const CHECKED: usize = 40;
const PLACE: u64 = 48;

const MAX_ENTRIES: u64 = 1 << 20;

/// A pack with a verified index.
pub(crate) struct Pack(PathBuf);

struct OpenPack {
    file: File,
    size: u64,
    count: u64,
    start: [u8; CHECKED],
    checksum: Hash,
}

struct EntryRange {
    hash: Hash,
    offset: u64,
    length: u64,
}

impl Pack {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let check = || -> Result<(), Cause> {
            if !path.is_absolute() {
                return Err(Cause::new("is not an absolute path"));
            }
            OpenPack::open(path)?.check_index()
        };
        check().map_err(|cause| cause.at_pack(path))?;
        Ok(Pack(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<PlanEntry>, String> {
        let hash = name::hash(key);
        let find = || -> Result<Option<PlanEntry>, Cause> {
            let opened = OpenPack::open(&self.0)?;
            let Some(place) = opened.find(&hash)? else { return Ok(None) };
            let entry = opened.entry(&place)?;
            if entry.key == key { Ok(Some(entry)) } else { Err(Cause::other_key()) }
        };
        find().map_err(|cause| cause.at_pack(&self.0))
    }

    /// Iterates over the entries. If the pack becomes unreadable, the problem is the last item.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<StoredPlan, String>> {
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let at = next.take()?;
            self.entry(at).map_or_else(
                |problem| Some(Err(problem)),
                |entry| {
                    next = Some(at + 1);
                    entry
                },
            )
        })
    }

    /// Returns the entry at an index. The outer error concerns the pack, and the inner error only the entry.
    fn entry(&self, at: u64) -> Result<Option<Result<StoredPlan, String>>, String> {
        let place = || -> Result<_, Cause> {
            let opened = OpenPack::open(&self.0)?;
            if at >= opened.count {
                return Ok(None);
            }
            let place = opened.place(at)?;
            Ok(Some((opened, place)))
        };
        let Some((opened, place)) = place().map_err(|cause| cause.at_pack(&self.0))? else { return Ok(None) };
        let entry = opened
            .entry(&place)
            .and_then(|entry| if name::hash(&entry.key) == place.hash { Ok(entry) } else { Err(Cause::other_key()) });
        let stored = entry.map(|entry| StoredPlan {
            entry,
            source: PlanSource::Pack(self.0.clone()),
            name: name::entry_name(&place.hash),
            bytes: place.length,
            last_use: None,
        });
        Ok(Some(stored.map_err(|cause| cause.at_pack(&self.0))))
    }
}

impl OpenPack {
    fn open(path: &Path) -> Result<Self, Cause> {
        let file = trusted_files::open(path)?;
        let size = file.stat()?.size;
        // Recreating the pack would overwrite an unrelated file.
        let not_a_pack = || Cause::new("is not a pack");
        let header = file.read(0, HEADER)?.filter(|header| is_pack(header)).ok_or_else(not_a_pack)?;
        let mut header = Reader(&header);
        let start = header.array::<CHECKED>().ok_or_else(not_a_pack)?;
        let checksum = header.array().ok_or_else(not_a_pack)?;
        let mut fields = Reader(&start);
        fields.start(MAGIC, VERSION)?;
        let (Some(0), Some(count), Some(length)) = (fields.u32(), fields.u64(), fields.u64()) else {
            return Err(Cause::damaged("the content is inconsistent"));
        };
        if length != size || count > MAX_ENTRIES || count * PLACE > size - HEADER {
            return Err(Cause::wrong_size());
        }
        Ok(OpenPack { file, size, count, start, checksum })
    }

    fn check_index(&self) -> Result<(), Cause> {
        const STEP: u64 = 1024 * PLACE;
        let mut hasher = Sha256::new();
        hasher.update(self.start);
        let (mut at, end) = (HEADER, HEADER + self.count * PLACE);
        while at < end {
            let part = self.file.read(at, STEP.min(end - at))?.ok_or_else(Cause::wrong_size)?;
            hasher.update(&part);
            at += STEP;
        }
        let checksum: Hash = hasher.finalize().into();
        if checksum == self.checksum { Ok(()) } else { Err(Cause::wrong_checksum()) }
    }

    fn place(&self, at: u64) -> Result<EntryRange, Cause> {
        let place = self.file.read(HEADER + at * PLACE, PLACE)?.ok_or_else(Cause::wrong_size)?;
        let mut place = Reader(&place);
        match (place.array(), place.u64(), place.u64()) {
            (Some(hash), Some(offset), Some(length)) => Ok(EntryRange { hash, offset, length }),
            _ => Err(Cause::wrong_size()),
        }
    }

    fn find(&self, hash: &Hash) -> Result<Option<EntryRange>, Cause> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let place = self.place(middle)?;
            match place.hash.cmp(hash) {
                std::cmp::Ordering::Equal => return Ok(Some(place)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn entry(&self, place: &EntryRange) -> Result<PlanEntry, Cause> {
        if place.length > MAX_ENTRY {
            return Err(Cause::too_large(place.length, MAX_ENTRY));
        }
        if place.offset.checked_add(place.length).is_none_or(|end| end > self.size) {
            return Err(Cause::wrong_size());
        }
        let bytes = self.file.read(place.offset, place.length)?.ok_or_else(Cause::wrong_size)?;
        format::decode(&bytes)
    }
}

/// Returns whether a file that starts with these bytes is a pack, of any format version.
pub fn is_pack(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The result of [`write_pack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// The number of entries.
    pub entries: u64,
    /// The size of the file.
    pub bytes: u64,
}

/// Writes a pack.
///
/// The output is independent of the order of the entries. If two entries have the same key, the first one is used. All
/// entries are held in memory.
///
/// # Errors
/// Returns an error if an entry or the number of entries is too large, or if writing fails.
pub fn write_pack(to: &mut impl Write, entries: impl IntoIterator<Item = PlanEntry>) -> io::Result<Packed> {
    let mut encoded = BTreeMap::new();
    for entry in entries {
        let bytes = format::encode(&entry).filter(|bytes| bytes.len() as u64 <= MAX_ENTRY);
        encoded.entry(name::hash(&entry.key)).or_insert(bytes.ok_or_else(|| too_large(&entry))?);
    }
    let count = encoded.len() as u64;
    if count > MAX_ENTRIES {
        return Err(io::Error::other(format!("there are {count} plans, more than {MAX_ENTRIES}; pack fewer plans")));
    }
    let mut offset = HEADER + count * PLACE;
    let mut index = Vec::new();
    for (hash, bytes) in &encoded {
        index.extend(hash);
        index.extend(offset.to_le_bytes());
        index.extend((bytes.len() as u64).to_le_bytes());
        offset += bytes.len() as u64;
    }
    let mut start = Vec::new();
    start.extend(MAGIC);
    start.extend(VERSION.to_le_bytes());
    start.extend(0_u32.to_le_bytes());
    start.extend(count.to_le_bytes());
    start.extend(offset.to_le_bytes());
    let checksum = Sha256::new().chain_update(&start).chain_update(&index).finalize();
    start.extend(checksum);
    start.extend(index);

    to.write_all(&start)?;
    encoded.values().try_for_each(|bytes| to.write_all(bytes))?;
    Ok(Packed { entries: count, bytes: offset })
}

fn too_large(entry: &PlanEntry) -> io::Error {
    let PlanInfo { label, device, .. } = &entry.about;
    let bytes = entry.key.len().saturating_add(entry.plan.len());
    let plan = cudnn_os::escape::one_line(&format!("{label} for {device}"));
    io::Error::other(format!("the plan of {plan} has {bytes} bytes, more than {MAX_ENTRY}; pack fewer plans"))
}
