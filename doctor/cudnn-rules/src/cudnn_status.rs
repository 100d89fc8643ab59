//! Explains the statuses of cuDNN in a sentence each. docs/statuses.md explains them in detail.

use std::sync::LazyLock;

use cudnn_loader::cudnnStatus_t;

/// The meanings of statuses by prefix, without `CUDNN_STATUS_`. Exact names come first.
static MEANINGS: LazyLock<Vec<(&'static str, &'static str)>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/statuses.json")).unwrap_or_default());

/// Returns the meaning of a status. Old names have the meaning of the new one.
pub fn meaning(status: &str) -> Option<&'static str> {
    let known = cudnnStatus_t::ENUMERATORS.iter().find(|(_, name)| name.to_bytes() == status.as_bytes());
    let current = known.and_then(|(status, _)| status.name()?.to_str().ok());
    let name = current.unwrap_or(status).strip_prefix("CUDNN_STATUS_")?;
    MEANINGS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, meaning)| *meaning)
}

/// Returns all statuses of cuDNN with their numbers and meanings.
pub fn all() -> impl Iterator<Item = (&'static str, u32, &'static str)> {
    cudnnStatus_t::ENUMERATORS.iter().filter_map(|(status, name)| {
        let name = name.to_str().ok()?;
        Some((name, status.0, meaning(name)?))
    })
}

/// The numbers in cuDNN 9 of the statuses 1 to 14 in cuDNN 8, which docs/statuses.md lists.
const OF_CUDNN_8: [u32; 14] = [1001, 4003, 2000, 4000, 2001, 3007, 4006, 5000, 3000, 1005, 3008, 1006, 1007, 1002];

/// Finds a status by name, with or without `CUDNN_STATUS_`, or by number in cuDNN 9 or 8.
pub fn find(text: &str) -> Option<(&'static str, u32, &'static str)> {
    let text = text.to_ascii_uppercase();
    let is_it = |name: &str| name == text || name.strip_prefix("CUDNN_STATUS_") == Some(&text);
    let number = text.parse::<u32>().ok();
    let of_cudnn_8 = number.and_then(|number| OF_CUDNN_8.get(usize::try_from(number).ok()?.checked_sub(1)?));
    let number = of_cudnn_8.copied().or(number);
    all().find(|(name, value, _)| is_it(name) || Some(*value) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_meaning_of_a_status_comes_first() {
        for (status, part) in [
            ("CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE", "a library of cuDNN is missing"),
            ("CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING", "often NVRTC"),
            ("CUDNN_STATUS_NOT_SUPPORTED_SHAPE", "no engine supports this"),
            ("CUDNN_STATUS_NOT_SUPPORTED", "no engine supports this"),
        ] {
            assert!(meaning(status).is_some_and(|meaning| meaning.contains(part)), "{status}");
        }
    }

    #[test]
    fn every_status_is_found_by_its_name_and_number() {
        assert_eq!(all().count(), cudnnStatus_t::ENUMERATORS.len());
        for (name, number, _) in all() {
            assert_eq!(find(&name.to_lowercase()).map(|found| found.0), Some(name));
            assert_eq!(find(&number.to_string()).map(|found| found.1), Some(number));
        }
        assert_eq!(find("bad_param").map(|found| found.1), Some(2000));
        assert_eq!(find("4").map(|found| found.1), Some(4000));
        assert_eq!((find("15"), find("0015"), find("CUDNN_STATUS_")), (None, None, None));
    }
}
