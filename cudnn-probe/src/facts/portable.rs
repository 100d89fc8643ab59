//! Serializes values that serde does not support directly: non-UTF-8 paths and I/O errors.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_os::files::{bytes_of, path_from_bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that can be serialized on one system and deserialized on another.
///
/// In contrast to serde's own traits, it supports non-UTF-8 paths and I/O errors. Its methods have serde's
/// names, so that a field can use it:
///
/// ```
/// use std::path::PathBuf;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Installed {
///     #[serde(with = "cudnn_probe::facts::Portable")]
///     dir: PathBuf,
/// }
/// ```
///
/// Implement it with [`portable!`](crate::portable) for a type that also implements serde's traits.
pub trait Portable: Sized + Send + Sync + 'static {
    /// Serializes the value.
    ///
    /// # Errors
    /// Returns an error if the serializer fails.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserializes the value.
    ///
    /// # Errors
    /// Returns an error if the deserializer fails or the input contains an unknown name.
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Decodes bytes that [`escape_ascii`](slice::escape_ascii) has escaped.
pub(super) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (byte, len) = match rest.get(..2) {
            Some("\\x") => (rest.get(2..4).and_then(|digits| u8::from_str_radix(digits, 16).ok()), 4),
            Some("\\n") => (Some(b'\n'), 2),
            Some("\\r") => (Some(b'\r'), 2),
            Some("\\t") => (Some(b'\t'), 2),
            Some(escape) if escape.starts_with('\\') => (escape.as_bytes().get(1).copied(), 2),
            _ => (None, c.len_utf8()),
        };
        let part = rest.get(..len).unwrap_or(rest);
        match byte {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(part.bytes()),
        }
        rest = rest.get(part.len()..).unwrap_or_default();
    }
    bytes
}

/// A path or environment variable, stored as a string if it is valid UTF-8, and otherwise as escaped bytes. Only Linux
/// can restore all paths exactly. Windows replaces invalid characters.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SystemText {
    Text(String),
    Bytes { escaped: String },
}

impl Portable for OsString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match self.to_str() {
            Some(text) => SystemText::Text(text.to_owned()),
            None => SystemText::Bytes { escaped: bytes_of(self).escape_ascii().to_string() },
        };
        text.serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match SystemText::deserialize(deserializer)? {
            SystemText::Text(text) => text.into(),
            SystemText::Bytes { escaped } => path_from_bytes(&unescaped(&escaped)).into(),
        })
    }
}

impl Portable for PathBuf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Portable::serialize(&self.as_os_str().to_owned(), serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <OsString as Portable>::deserialize(deserializer).map(PathBuf::from)
    }
}

/// An I/O error. The message is stored because error numbers differ between operating systems.
#[derive(Serialize, Deserialize)]
struct SystemError {
    kind: String,
    text: String,
    code: Option<i32>,
}

/// The error kinds that file operations can return. Other kinds are restored as `Other`, unless this system has the
/// same error number for them.
const KINDS: &[ErrorKind] = &[
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::NotADirectory,
    ErrorKind::IsADirectory,
    ErrorKind::StaleNetworkFileHandle,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::NotSeekable,
    ErrorKind::FileTooLarge,
    ErrorKind::ResourceBusy,
    ErrorKind::InvalidFilename,
    ErrorKind::Interrupted,
    ErrorKind::Unsupported,
    ErrorKind::UnexpectedEof,
    ErrorKind::OutOfMemory,
];

impl Portable for io::Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, text) = (format!("{:?}", self.kind()), self.to_string());
        SystemError { kind, text, code: self.raw_os_error() }.serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let SystemError { kind, text, code } = SystemError::deserialize(deserializer)?;
        let kind = KINDS.iter().find(|known| format!("{known:?}") == kind).copied().unwrap_or(ErrorKind::Other);
        let mut on_this_system = code.map(io::Error::from_raw_os_error).into_iter().chain([kind.into()]);
        let same = on_this_system.find(|error| error.to_string() == text);
        Ok(same.unwrap_or_else(|| io::Error::new(kind, text)))
    }
}

/// Returns an error with the same kind and text.
pub(super) fn copied(error: &io::Error) -> io::Error {
    let of_system = error.raw_os_error().map(io::Error::from_raw_os_error);
    of_system.unwrap_or_else(|| io::Error::new(error.kind(), error.to_string()))
}

/// Lets serde serialize a [`Portable`] value inside a container.
struct Written<'a, T>(&'a T);

impl<T: Portable> Serialize for Written<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Lets serde deserialize a [`Portable`] value inside a container.
struct Read<T>(T);

impl<'de, T: Portable> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Read)
    }
}

impl<T: Portable> Portable for Option<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Written).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Read<T>>::deserialize(deserializer)?.map(|read| read.0))
    }
}

impl<T: Portable> Portable for Vec<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Written))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Read<T>>::deserialize(deserializer)?.into_iter().map(|read| read.0).collect())
    }
}

impl<T: Portable> Portable for Arc<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(self, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

/// A pair of name and value.
impl<T: Portable> Portable for (String, T) {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.0, Written(&self.1)).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, value) = <(String, Read<T>)>::deserialize(deserializer)?;
        Ok((name, value.0))
    }
}

impl<T: Portable, E: Portable> Portable for Result<T, E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Written).map_err(Written).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Result::<Read<T>, Read<E>>::deserialize(deserializer)?.map(|read| read.0).map_err(|read| read.0))
    }
}

impl<T: Portable + Ord> Portable for BTreeSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Written))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Vec<T> as Portable>::deserialize(deserializer).map(BTreeSet::from_iter)
    }
}

/// Implements [`facts::Portable`](crate::facts::Portable) for types that implement `Serialize` and `Deserialize`. The
/// package that uses it must depend on `serde`.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Driver {
///     version: String,
/// }
///
/// cudnn_probe::portable!(Driver);
/// ```
#[macro_export]
macro_rules! portable {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::facts::Portable for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }

            fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
        })*
    };
}

crate::portable!((), bool, u32, u64, String, Range<u64>, serde_json::Value);
