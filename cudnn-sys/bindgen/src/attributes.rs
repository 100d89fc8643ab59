//! Collects the types and number of elements that attributes of backend descriptors take.
//!
//! The comments of the newest headers contain this for about half of the attributes. The rest of the comments is
//! dropped. The other attributes and corrections are in `measured_attributes.txt`.

use std::collections::BTreeMap;

/// The elements of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Enumerators of `cudnnBackendAttributeType_t`.
    pub(crate) types: Vec<String>,
    /// Maximum number of elements, or `None` if unlimited.
    pub(crate) most: Option<u32>,
}

/// The value of `CUDNN_DIM_MAX`, which the comments call `CUDNN_MAX_DIMS`.
const MAX_DIMS: u32 = 8;

/// Returns the elements of all attributes that the text of the headers or `measured_attributes.txt` describes, by name.
/// The headers have lines such as `* - CUDNN_ATTR_TENSOR_STRIDES (CUDNN_TYPE_INT64, at most CUDNN_MAX_DIMS elements)`.
///
/// # Errors
/// Returns an error if a header describes an attribute in unknown words.
pub(crate) fn collect(headers: &str) -> Result<BTreeMap<String, Elements>, String> {
    let mut found = BTreeMap::new();
    for line in headers.lines() {
        let Some(item) =
            line.trim_start().strip_prefix('*').map(str::trim_start).and_then(|line| line.strip_prefix("- "))
        else {
            continue;
        };
        let Some((name, rest)) = item.trim_start().split_once('(') else { continue };
        let (name, elements) = (name.trim_end(), rest.split(')').next().unwrap_or(rest));
        if is_word(name) && name.starts_with("CUDNN_ATTR_") && elements.starts_with("CUDNN_TYPE_") {
            let parsed = parse(elements).ok_or_else(|| format!("cannot parse the elements of {name}: {elements:?}"))?;
            found.insert(name.to_owned(), parsed);
        }
    }
    found.extend(measured());
    Ok(found)
}

/// Parses text such as `CUDNN_TYPE_FLOAT or CUDNN_TYPE_DOUBLE, 1 element`.
fn parse(elements: &str) -> Option<Elements> {
    let (types, count) = elements.split_once(',').unwrap_or((elements, "1 element"));
    let types: Vec<String> =
        types.split('/').flat_map(|types| types.split(" or ")).map(|ty| ty.trim().into()).collect();
    if !types.iter().all(|ty| is_word(ty)) {
        return None;
    }
    let most = match count.trim().split(" elements").next()? {
        "many" | "0+" | "1+" => None,
        "at most CUDNN_MAX_DIMS" | "1..CUDNN_MAX_DIMS" => Some(MAX_DIMS),
        "at most CUDNN_MAX_DIMS - 2" => Some(MAX_DIMS - 2),
        count if count == "1 element" || count.starts_with("1 element of ") => Some(1),
        _ => return None,
    };
    Some(Elements { types, most })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the lines of `measured_attributes.txt`.
fn measured() -> impl Iterator<Item = (String, Elements)> {
    let lines = include_str!("measured_attributes.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (name, types, most) = (words.next()?, words.next()?, words.next()?);
        let types = types.split(',').map(|ty| format!("CUDNN_TYPE_{ty}")).collect();
        Some((name.to_owned(), Elements { types, most: most.parse().ok() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_from_comments() {
        let header = "/**\n     * - CUDNN_ATTR_A (CUDNN_TYPE_INT64, 1 element)\n     *     A text (in brackets).\n\
                      *   - CUDNN_ATTR_B (CUDNN_TYPE_DOUBLE/CUDNN_TYPE_FLOAT, 1..CUDNN_MAX_DIMS elements)\n\
                      * - CUDNN_ATTR_C (CUDNN_TYPE_BACKEND_DESCRIPTOR, 1+ elements of type CUDNN_BACKEND_*)\n\
                      * - CUDNN_ATTR_D (CUDNN_TYPE_INT64 or CUDNN_TYPE_FRACTION, at most CUDNN_MAX_DIMS - 2)\n\
                      * - CUDNN_ATTR_E (CUDNN_TYPE_INT64)\n* - CUDNN_ATTR_F        (1620)\n* - CUDNN_ATTR_G\n*/";
        let mut found = collect(header).unwrap_or_default();
        found.retain(|name, _| header.contains(name));
        let shown: Vec<_> =
            found.iter().map(|(name, elements)| (name.as_str(), elements.types.join(" "), elements.most)).collect();
        let ty = |names: &str| names.split(' ').map(|name| format!("CUDNN_TYPE_{name}")).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown,
            [
                ("CUDNN_ATTR_A", ty("INT64"), Some(1)),
                ("CUDNN_ATTR_B", ty("DOUBLE FLOAT"), Some(8)),
                ("CUDNN_ATTR_C", ty("BACKEND_DESCRIPTOR"), None),
                ("CUDNN_ATTR_D", ty("INT64 FRACTION"), Some(6)),
                ("CUDNN_ATTR_E", ty("INT64"), Some(1)),
            ]
        );
        assert!(collect("* - CUDNN_ATTR_A (CUDNN_TYPE_INT64, a dozen)").is_err());
    }

    #[test]
    fn all_measured_elements_can_be_parsed() {
        let lines = include_str!("measured_attributes.txt").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(measured().count(), lines);
        assert!(measured().all(|(name, elements)| name.starts_with("CUDNN_ATTR_") && elements.most != Some(0)));
    }
}
