//! Reads the cuDNN and CUDA requirements in a framework's metadata, like the doctor.

use cudnn_frameworks::{Depth, Environment, Pin, Source, survey_to};
use cudnn_probe::Host;

use crate::error::Result;
use crate::workspace::root;

/// The releases that metadata requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requires {
    /// The oldest cuDNN: `9.10.2`.
    pub(crate) cudnn: String,
    /// `12.8` if the metadata accepts only one CUDA release, otherwise `12`.
    pub(crate) cuda: String,
}

/// Returns the requirements in a release's metadata, including all extras. Returns `None` if it requires no cuDNN.
pub(crate) fn read(package: &str, version: &str, metadata: &str) -> Result<Option<Requires>> {
    if std::env::consts::ARCH != "x86_64" {
        // Markers are evaluated for the machine that reads them.
        return Err("the metadata of frameworks can be read only on x86-64".into());
    }
    // An environment with only this metadata.
    let environment = root()?.join("target/frameworks").join(format!("{package}-{version}"));
    let info_dir = environment.join(format!("{}-{version}.dist-info", package.replace('-', "_")));
    std::fs::create_dir_all(&info_dir)?;
    std::fs::write(info_dir.join("METADATA"), metadata)?;
    let host = Host::sandbox(environment.join("root"));
    let depth = Depth { kernels: false, unlisted: false, metadata: false };
    let survey = survey_to(&Environment::at(&environment, &host), &host, depth);
    let framework = survey.frameworks.iter().find(|framework| framework.distribution.name == package);
    let framework = framework.ok_or_else(|| format!("cudnn-frameworks does not recognize {package} {version}"))?;
    let cudnn = framework.built_for.cudnn.as_ref().filter(|cudnn| matches!(cudnn.source, Source::Requirement(_)));
    let major = framework.pins.iter().find_map(|pin| pin.package.strip_prefix("nvidia-cudnn-cu"));
    let cuda = framework.pins.iter().find_map(exact_cuda).or_else(|| major.map(str::to_owned));
    Ok(cudnn.zip(cuda).map(|(cudnn, cuda)| Requires { cudnn: cudnn.value.to_string(), cuda }))
}

/// Extracts 12.8 from `nvidia-cuda-runtime-cu12==12.8.90`. A range does not reveal the release that a framework was
/// built with.
fn exact_cuda(pin: &Pin) -> Option<String> {
    let is_runtime = pin.package == "cuda-toolkit" || pin.package.starts_with("nvidia-cuda-runtime");
    let requirement = pin.without_marker();
    let (_, version) = requirement.split_once("==").filter(|_| is_runtime)?;
    let numbers: Vec<&str> = version.split('.').take(2).collect();
    Some(numbers.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "needs x86-64")]
    fn the_minor_cuda_version_counts_only_if_it_is_exact() {
        for (package, requirements, expected) in [
            (
                "torch",
                &[
                    "nvidia-cuda-runtime-cu12 (==12.1.105) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
                    "nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
                ][..],
                Some(("8.9.2", "12.1")),
            ),
            (
                "torch",
                &[
                    "cuda-toolkit[cublas,cudart]==13.2.2; platform_system == \"Linux\"",
                    "nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Linux\"",
                ],
                Some(("9.26.0", "13.2")),
            ),
            (
                "jax-cuda12-plugin",
                &[
                    "nvidia-cuda-runtime-cu12>=12.1.105; extra == \"with-cuda\"",
                    "nvidia-cudnn-cu12<10.0,>=9.8; extra == \"with-cuda\"",
                ],
                Some(("9.8.0", "12")),
            ),
            (
                "onnxruntime-gpu",
                &["nvidia-cuda-runtime~=13.0; extra == \"cuda\"", "nvidia-cudnn-cu13~=9.0; extra == \"cudnn\""],
                Some(("9.0.0", "13")),
            ),
            ("torch", &["nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Windows\"", "numpy"], None),
            ("tensorflow", &[], None),
        ] {
            let requirements: Vec<String> =
                requirements.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
            let version = format!("0.{}", requirements.concat().len());
            let metadata =
                format!("Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n{}\n", requirements.concat());
            let found = read(package, &version, &metadata).unwrap();
            let found = found.as_ref().map(|found| (found.cudnn.as_str(), found.cuda.as_str()));
            assert_eq!(found, expected, "{requirements:?}");
        }
    }
}
