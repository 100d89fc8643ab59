//! Encodes an entry as bytes, both for a file and for a pack. Numbers are little-endian.
//!
//! | bytes | content |
//! | --- | --- |
//! | 16 | [`MAGIC`] |
//! | 4 | format version |
//! | 4 | length of the information about the entry |
//! | 8 | length of the key |
//! | 8 | length of the plan |
//! | | the information, the key, the plan |
//! | 32 | SHA-256 of all previous bytes |
//!
//! The information consists of cuDNN's version (4 bytes), the build time in nanoseconds (8), the workspace size (8),
//! the label, and the device. Label and device are preceded by their length (4).

use std::time::Duration;

use super::entry::{PlanEntry, PlanInfo};
use super::error::Cause;
use super::name::hash;

/// The first bytes of an entry, which reveal transfers that change line endings.
const MAGIC: &[u8; 16] = b"cuDNN plan\r\n\x1a\n\0\0";
const VERSION: u32 = 1;
const HEADER: usize = 40;
const CHECKSUM: usize = 32;

/// Maximum size of an entry: 256 MiB. The largest plan of cuDNN 9 has less than 2 MiB.
pub(crate) const MAX_ENTRY: u64 = 256 << 20;

/// Encodes an entry. Returns `None` if it is too large for the format.
pub(crate) fn encode(entry: &PlanEntry) -> Option<Vec<u8>> {
    let PlanEntry { key, plan, about } = entry;
    let text = |to: &mut Vec<u8>, text: &str| {
        to.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
        to.extend(text.as_bytes());
        Some(())
    };
    let mut part = Vec::with_capacity(64 + about.label.len() + about.device.len());
    part.extend(about.cudnn_version.to_le_bytes());
    part.extend(nanoseconds(about.build_time).to_le_bytes());
    part.extend(about.workspace_size.to_le_bytes());
    text(&mut part, &about.label)?;
    text(&mut part, &about.device)?;

    let mut bytes = Vec::with_capacity(HEADER + part.len() + key.len() + plan.len() + CHECKSUM);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(u32::try_from(part.len()).ok()?.to_le_bytes());
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend((plan.len() as u64).to_le_bytes());
    bytes.extend(part);
    bytes.extend(key);
    bytes.extend(plan);
    let checksum = hash(&bytes);
    bytes.extend(checksum);
    Some(bytes)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<PlanEntry, Cause> {
    let mut header = Reader(bytes);
    header.start(MAGIC, VERSION)?;
    let lengths = || Some((header.u32()? as usize, header.length()?, header.length()?));
    let (part, key, plan) = { lengths }().ok_or_else(Cause::wrong_size)?;
    let content =
        [HEADER, part, key, plan].into_iter().try_fold(0_usize, usize::checked_add).ok_or_else(Cause::wrong_size)?;
    if content.checked_add(CHECKSUM) != Some(bytes.len()) {
        return Err(Cause::wrong_size());
    }
    let (content, checksum) = bytes.split_at_checked(content).ok_or_else(Cause::wrong_size)?;
    if hash(content) != *checksum {
        return Err(Cause::wrong_checksum());
    }
    let mut content = Reader(content.get(HEADER..).unwrap_or_default());
    let mut parts = || {
        let about = about(content.take(part)?)?;
        Some(PlanEntry { about, key: content.take(key)?.to_vec(), plan: content.take(plan)?.to_vec() })
    };
    parts().ok_or_else(|| Cause::damaged("the content is inconsistent"))
}

fn about(bytes: &[u8]) -> Option<PlanInfo> {
    let mut part = Reader(bytes);
    let cudnn_version = part.u32()?;
    let build_time = Duration::from_nanos(part.u64()?);
    let about = PlanInfo {
        cudnn_version,
        build_time,
        workspace_size: part.u64()?.cast_signed(),
        label: part.text()?,
        device: part.text()?,
    };
    part.0.is_empty().then_some(about)
}

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the start of a file. Other versions may have a different layout after it.
    pub(crate) fn start(&mut self, magic: &[u8], known: u32) -> Result<(), Cause> {
        if self.take(magic.len()) != Some(magic) {
            return Err(Cause::damaged("it is not a file of this kind"));
        }
        match self.u32() {
            Some(version) if version == known => Ok(()),
            Some(version) if version > known => Err(Cause::newer_format(version)),
            _ => Err(Cause::damaged("the content is inconsistent")),
        }
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        self.take(LENGTH)?.try_into().ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}
