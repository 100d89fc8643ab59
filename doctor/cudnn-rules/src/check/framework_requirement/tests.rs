use super::*;

pub(in crate::check) fn requirement(
    framework: &str,
    requirement: &str,
    minimum: (u32, u32, u32),
    is_required: bool,
) -> FrameworkRequirement {
    let cuda_major = requirement.strip_prefix(WHEEL).and_then(|rest| rest.get(..2)?.parse().ok()).unwrap_or(0);
    let (cudnn_major, minor, patch) = minimum;
    FrameworkRequirement {
        framework: framework.into(),
        package: framework.to_ascii_lowercase(),
        cudnn_major,
        is_optional: false,
        cuda_major,
        requirement: requirement.into(),
        is_required,
        minimum: Some(Version::new(cudnn_major, minor, patch)),
        comparison: Comparison::Minor,
    }
}
