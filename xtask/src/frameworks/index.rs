//! Queries the package index for the releases of a package and for the metadata in their wheels. Python makes the
//! requests.

use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::Version;
use serde::Deserialize;

use crate::error::Result;
use crate::workspace::root;

/// A final release that was not withdrawn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) version: Version,
    /// The address of a wheel for Linux on x86-64.
    pub(crate) wheel: Option<String>,
}

/// Returns the releases of the package with this page (`.../project/torch/`), oldest first.
pub(crate) fn releases(page: &str) -> Result<Vec<Release>> {
    let texts = request("page", &[page.replace("/project/", "/simple/")])?;
    texts.first().map_or_else(|| Err("the package index sent an empty response".into()), |text| parse(text))
}

/// Returns the metadata of these wheels.
pub(crate) fn metadata(wheels: &[String]) -> Result<Vec<String>> {
    request("metadata", wheels)
}

/// Returns today's date: `2026-11-22`.
pub(crate) fn today() -> Result<String> {
    python(&["-c", "import datetime; print(datetime.date.today(), end='')"])
}

/// Returns the texts at these addresses.
fn request(command: &str, urls: &[String]) -> Result<Vec<String>> {
    let urls = urls.iter().map(String::as_str);
    let arguments: Vec<&str> = ["-c", include_str!("index.py"), command].into_iter().chain(urls).collect();
    Ok(serde_json::from_str(&python(&arguments)?)?)
}

fn python(arguments: &[&str]) -> Result<String> {
    let mut python = cudnn_fetch::python(&root()?);
    let output = python.args(arguments).output();
    let output = output.map_err(|error| format!("cannot start {:?}: {error}", python.get_program()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("cannot read from the package index: {}", message.trim_end()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The index's page of a package, in JSON (PEP 691).
#[derive(Deserialize)]
struct Page {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    url: String,
    /// `false`, or the reason (PEP 592).
    #[serde(default)]
    yanked: serde_json::Value,
}

fn parse(page: &str) -> Result<Vec<Release>> {
    let page: Page =
        serde_json::from_str(page).map_err(|error| format!("the package index sent invalid JSON: {error}"))?;
    let mut releases: BTreeMap<Version, Option<String>> = BTreeMap::new();
    for File { filename, url, yanked } in page.files {
        let Some(version) = version(&filename).filter(|version| !version.any_prerelease()) else { continue };
        if matches!(yanked, serde_json::Value::Null | serde_json::Value::Bool(false)) {
            let wheel = releases.entry(version).or_default();
            let is_for_linux = filename.contains("linux") && filename.ends_with("x86_64.whl");
            *wheel = wheel.take().or(is_for_linux.then_some(url));
        }
    }
    Ok(releases.into_iter().map(|(version, wheel)| Release { version, wheel }).collect())
}

/// The version in the name of a wheel (`torch-2.15.0-cp312-...whl`) or a source archive (`cupy-14.2.0.tar.gz`).
fn version(filename: &str) -> Option<Version> {
    let version = match filename.strip_suffix(".tar.gz") {
        Some(stem) => stem.rsplit('-').next()?,
        None => filename.strip_suffix(".whl")?.split('-').nth(1)?,
    };
    Version::from_str(version).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_final_and_in_order() {
        let file =
            |name: &str, yanked: &str| format!(r#"{{"filename": "{name}", "url": "/{name}", "yanked": {yanked}}}"#);
        let files = [
            file("a_b-1.10.0-cp312-cp312-manylinux_2_28_x86_64.whl", "false"),
            file("a_b-1.10.0-cp313-cp313-manylinux_2_28_x86_64.whl", "false"),
            file("a_b-1.9.0.post1-cp312-cp312-macosx_14_0_x86_64.whl", "false"),
            file("a_b-1.9.0.post1-cp312-cp312-manylinux_2_28_aarch64.whl", "false"),
            file("a-b-1.9.0.tar.gz", "false"),
            file("a_b-1.11.0rc1-cp312-cp312-manylinux_2_28_x86_64.whl", "false"),
            file("a_b-1.12.0-cp312-cp312-manylinux_2_28_x86_64.whl", "\"it is broken\""),
            file("a_b-1.13.0.exe", "false"),
        ];
        let releases = parse(&format!(r#"{{"files": [{}], "name": "a-b"}}"#, files.join(","))).unwrap();
        let found: Vec<_> = releases.iter().map(|one| (one.version.to_string(), one.wheel.as_deref())).collect();
        let wheel = "/a_b-1.10.0-cp312-cp312-manylinux_2_28_x86_64.whl";
        let expected = [("1.9.0", None), ("1.9.0.post1", None), ("1.10.0", Some(wheel))];
        assert_eq!(found, expected.map(|(version, wheel)| (version.to_owned(), wheel)));
        assert!(parse("<html>").unwrap_err().to_string().contains("sent invalid JSON"));
    }
}
