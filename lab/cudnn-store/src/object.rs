//! Reads structs from JSON objects only. By default, serde also reads a struct from an array with the values of its
//! fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A value that is read from an object.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        object.deserialize_map(Fields(PhantomData)).map(Object)
    }
}

/// Reads an object, for `deserialize_with`.
///
/// # Errors
/// Returns an error for other values, or if `T` cannot be read from the object.
pub fn read_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(object: D) -> Result<T, D::Error> {
    Object::deserialize(object).map(|Object(value)| value)
}

/// Like [`read_object`], for a list of objects.
///
/// # Errors
/// Like [`read_object`].
pub fn read_objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(objects: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::deserialize(objects)?.into_iter().map(|Object(value)| value).collect())
}

/// Like [`read_object`], for a value that may be `null`.
pub(crate) fn read_optional_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    object: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(object)?.map(|Object(value)| value))
}

/// Like [`read_objects`], for a list that may be `null`.
pub(crate) fn read_optional_objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    objects: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects: Option<Vec<Object<T>>> = Option::deserialize(objects)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(value)| value).collect()))
}
