//! Checks that a value survives a round trip through JSON.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns the value after a round trip through JSON, and checks that its `Debug` text and JSON are unchanged.
pub(crate) fn read_back<T: Serialize + DeserializeOwned + Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}
