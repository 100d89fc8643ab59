//! Reads JSON objects in which no name occurs twice. By default, the last of two equal names would win.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Reads the members of an object, for `deserialize_with`.
///
/// # Errors
/// Returns an error if a name occurs twice.
pub fn read_unique<'de, V, D>(object: D) -> Result<BTreeMap<String, V>, D::Error>
where
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Members<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("values by name")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut members = BTreeMap::new();
            while let Some((name, value)) = map.next_entry::<String, V>()? {
                if members.insert(name.clone(), value).is_some() {
                    return Err(M::Error::custom(format_args!("the name {name:?} occurs twice")));
                }
            }
            Ok(members)
        }
    }

    object.deserialize_map(Members(PhantomData))
}
