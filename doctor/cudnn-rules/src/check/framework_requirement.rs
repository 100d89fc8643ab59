//! Reads which cuDNN a framework requires.

use cudnn_frameworks::{Comparison, Framework, Pin, allows, allows_from};
use cudnn_probe::{Component, Version};

use crate::packages::CUDA_MAJORS;

pub(in crate::check) const CUDNN_MAJOR: u32 = 9;

pub(in crate::check) const WHEEL: &str = "nvidia-cudnn-cu";

#[derive(Clone, Debug)]
pub(in crate::check) struct FrameworkRequirement {
    /// For example `PyTorch 2.8.0`.
    pub(super) framework: String,
    /// The normalized package name, such as `torch`.
    pub(super) package: String,
    pub(super) cudnn_major: u32,
    pub(super) cuda_major: u32,
    /// For example `nvidia-cudnn-cu12==9.10.2.21`.
    pub(super) requirement: String,
    /// Whether the requirement comes from the package metadata, rather than from an extra or the doctor's table of
    /// facts.
    pub(super) is_required: bool,
    /// Whether the framework works without cuDNN, apart from some functions.
    pub(super) is_optional: bool,
    /// The oldest release that the framework accepts at run time.
    pub(super) minimum: Option<Version>,
    pub(super) comparison: Comparison,
}

impl FrameworkRequirement {
    /// Returns `None` if the framework uses no cuDNN wheel: it works without cuDNN, or conda or another framework
    /// provides it.
    pub(in crate::check) fn of(framework: &Framework) -> Option<FrameworkRequirement> {
        let built = &framework.built_for;
        if is_without_cuda(framework) || framework.opens.needs_none || is_of_conda(framework) {
            return None;
        }
        let pin = pin(framework);
        let built_for = built.cuda.as_ref().map(|cuda| cuda.value.0);
        let cuda_major = pin.and_then(cuda_of).or(built_for).filter(|major| CUDA_MAJORS.contains(major))?;
        let loads_cudnn = !framework.opens.users.is_empty() && framework.kind.cudnn_loader().is_none();
        if pin.is_none() && built.cudnn.is_none() && !loads_cudnn {
            return None;
        }
        let minimum = built.cudnn.as_ref().map(|wanted| wanted.value);
        let cudnn_major = minimum.map_or(CUDNN_MAJOR, |minimum| minimum.major);
        let requirement = pin.map(Pin::without_marker).unwrap_or_else(|| {
            let minimum = minimum.map_or(CUDNN_MAJOR.to_string(), |minimum| minimum.to_string());
            format!("{}>={minimum},<{}", Component::Cudnn.wheel(cuda_major), cudnn_major + 1)
        });
        Some(FrameworkRequirement {
            framework: format!("{} {}", framework.kind.name, framework.version),
            package: framework.distribution.name.clone(),
            cudnn_major,
            cuda_major,
            requirement,
            is_required: pin.is_some_and(|pin| pin.extra.is_none()),
            is_optional: framework.opens.is_optional,
            minimum,
            comparison: framework.kind.comparison,
        })
    }

    /// Returns the version if the metadata allows only one, such as `9.10.2.21`.
    pub(super) fn exact(&self) -> Option<&str> {
        let (_, version) = self.requirement.split_once("==")?;
        (!version.contains(['*', ',', '='])).then_some(version)
    }

    /// Returns whether the metadata allows the `exact` version, or without one, any release from `minimum` on.
    pub(super) fn allows(&self, exact: Option<&str>, minimum: Option<Version>) -> bool {
        let minimum = || minimum.map_or("0".to_owned(), |minimum| minimum.to_string());
        match exact {
            Some(exact) => allows(&self.requirement, exact),
            None => allows_from(&self.requirement, &minimum()).is_none_or(|(_, is_allowed)| is_allowed),
        }
    }

    pub(super) fn accepts(&self, release: Version) -> bool {
        self.minimum.is_none_or(|minimum| self.comparison.accepts(minimum, release))
    }
}

/// Returns the framework's requirement of a cuDNN wheel, preferably for the framework's CUDA and outside extras.
fn pin(framework: &Framework) -> Option<&Pin> {
    let built_for = framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    let pins = framework.pins.iter().filter(|pin| cuda_of(pin).is_some());
    pins.min_by_key(|pin| (pin.extra.is_some(), built_for.is_some_and(|major| cuda_of(pin) != Some(major))))
}

fn cuda_of(pin: &Pin) -> Option<u32> {
    pin.package.strip_prefix(WHEEL)?.parse().ok()
}

/// Returns whether the framework is built for the CPU or for GPUs of other vendors.
pub(in crate::check) fn is_without_cuda(framework: &Framework) -> bool {
    framework.built_for.uses_gpu.as_ref().is_some_and(|uses_gpu| !uses_gpu.value)
}

pub(in crate::check) fn is_of_conda(framework: &Framework) -> bool {
    framework.distribution.installer() == "conda"
}

#[cfg(test)]
pub(super) mod tests;
