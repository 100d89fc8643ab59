#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn the_table_of_builds_is_complete_and_in_order() {
    let builds: Vec<Build> = serde_json::from_str(include_str!("../../../data/builds.json")).unwrap();
    assert!(!builds.is_empty() && builds.len() == BUILDS.len());
    for build in &builds {
        let capabilities = || build.kernels.split(' ').map(release_of);
        assert!(capabilities().all(|capability| capability.is_some()) && capabilities().is_sorted(), "{build:?}");
        assert!(build.before.is_none_or(|before| !is_since(build.since, before)), "{build:?}");
        assert!(build.source.url.starts_with("https://"), "{build:?}");
    }
    for architecture in ["x86-64", "aarch64"] {
        let of_it = || builds.iter().filter(|build| build.architecture == architecture);
        assert!(of_it().count() > 0 && of_it().is_sorted_by_key(|build| release_of(build.since)), "{architecture}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn builds_are_those_of_the_release_or_of_the_nearest_one() {
    let tags = |builds: &[&Build]| builds.iter().map(|build| build.tag()).collect::<Vec<_>>().join(" ");
    let names = |version: &str, gpus: &[u32], newest: u32| {
        for_gpus("torch", version, gpus, |major| major <= newest).map(|builds| match builds {
            Builds::OfRelease(builds) => tags(&builds),
            Builds::Older(build) => format!("{} before {}", build.tag(), build.before.unwrap_or_default()),
            Builds::Newer(builds) => format!("{} since {}", tags(&builds), builds[0].since),
        })
    };
    for (version, gpus, newest, expected) in [
        // Pascal, Maxwell and Volta.
        ("2.9.1+cu130", &[61][..], 13, Some("cu126")),
        ("2.12.0", &[52], 13, Some("cu126")),
        ("2.10.0", &[70], 13, Some("cu126 cu128")),
        ("2.15.0+cu132", &[70], 13, Some("cu126 before 2.15")),
        // Blackwell.
        ("2.6.0+cu124", &[120], 13, Some("cu128 cu129 cu130 cu132 since 2.7")),
        ("2.6.0+cu124", &[120], 12, Some("cu128 cu129 since 2.7")),
        ("2.9.1+cu126", &[120], 13, Some("cu128 cu130")),
        ("2.9.1+cu126", &[120], 12, Some("cu128")),
        ("2.13.0+cu126", &[103], 12, Some("cu128 before 2.12")),
        // Two GPUs.
        ("2.9.1+cu130", &[75, 61], 13, Some("cu126")),
        ("2.9.1+cu130", &[61, 120], 13, None),
        ("2.9.1+cu130", &[35], 13, None),
        // A version of a fork, and a driver that is too old for all builds.
        ("unknown", &[120], 13, None),
        ("2.6.0+cu118", &[120], 11, None),
    ] {
        assert_eq!(names(version, gpus, newest).as_deref(), expected, "{version} {gpus:?} {newest}");
    }
    assert!(for_gpus("tensorflow", "2.21.0", &[90], |_| true).is_none());
}
