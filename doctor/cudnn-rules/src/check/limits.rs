//! Determines which cuDNN releases an environment can use, so that fixing one finding does not cause another.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::{Installer, Package};
use cudnn_frameworks::{Environment, Survey, allows_from, normalized, packages_with_requirements, survey_to};
use cudnn_probe::{Component, Host, Version, release_facts};

use super::framework_requirement::{CUDNN_MAJOR, FrameworkRequirement, WHEEL};
use super::machine::Gpu;
use crate::context::MINIMAL_DEPTH;
use crate::packages::package_name;

/// The last release with kernels for compute capabilities 5.0 to 7.0, and the full version of the wheels. It is also
/// the last release for CUDA 11, and older than the first release for CUDA 13.
pub(super) const LAST_FOR_OLD_GPUS: (Version, &str) = (Version::new(9, 10, 2), "9.10.2.21");

pub(super) const LAST_CUDA_FOR_OLD_GPUS: u32 = 12;

const LATER: Version = Version::new(9, 11, 0);

pub(crate) struct Limits<'a> {
    old_gpu: Option<&'a Gpu>,
    /// The requirements of frameworks that need cuDNN or are built for it.
    demands: Vec<FrameworkRequirement>,
    /// The requirements of all packages, which are met if possible.
    wishes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check) struct ReleaseChoice {
    /// The end of a requirement with a minimum: `,<9.11`.
    pub(super) specifiers: String,
    pub(super) exact: Option<String>,
}

impl<'a> Limits<'a> {
    pub(in crate::check) fn from_survey(survey: Option<&Survey>, gpus: &'a [Gpu]) -> Self {
        let demands = survey.into_iter().flat_map(|survey| &survey.frameworks).filter_map(FrameworkRequirement::of);
        let limits = Limits::of(gpus, demands.filter(|demand| demand.is_required || demand.cudnn_major == CUDNN_MAJOR));
        let packages = survey.into_iter().flat_map(|survey| packages_with_requirements(&survey.environment));
        let wishes = packages.flat_map(|(_, requirements)| requirements);
        let is_about_cudnn = |wish: &String| normalized(package_name(wish)).starts_with(WHEEL);
        Limits { wishes: wishes.filter(is_about_cudnn).collect(), ..limits }
    }

    pub(super) fn of(gpus: &'a [Gpu], demands: impl IntoIterator<Item = FrameworkRequirement>) -> Self {
        let oldest = release_facts::min_compute_capability(LAST_FOR_OLD_GPUS.0);
        let old = oldest..release_facts::min_compute_capability(LATER);
        let is_old = |gpu: &&Gpu| old.contains(&gpu.compute_capability) && !gpu.is_tegra();
        Limits { old_gpu: gpus.iter().find(is_old), demands: demands.into_iter().collect(), wishes: Vec::new() }
    }

    /// Returns the allowed versions from `minimum` on, or explains why there are none.
    pub(in crate::check) fn choose(&self, minimum: Option<Version>, cuda_major: u32) -> Result<ReleaseChoice, String> {
        let (last, last_wheel) = LAST_FOR_OLD_GPUS;
        let is_later = minimum.is_some_and(|minimum| minimum > last);
        let text = minimum.map_or("9".to_owned(), |minimum| minimum.to_string());
        let mut choice = ReleaseChoice::default();
        if let Some(gpu) = self.old_gpu {
            let name = format!("{} (compute capability {})", gpu.name.printable(), gpu.capability());
            if cuda_major > LAST_CUDA_FOR_OLD_GPUS {
                return Err(format!("no cuDNN for CUDA {cuda_major} supports {name}"));
            }
            if is_later {
                return Err(format!("no cuDNN from {text} on supports {name}: {last} is the last one that does"));
            }
            choice.specifiers = format!(",<{}.{}", LATER.major, LATER.minor);
            choice.exact = Some(last_wheel.to_owned());
        }
        if cuda_major == 11 && is_later {
            return Err(format!("NVIDIA has no cuDNN {text} for CUDA 11: {last} is the last one"));
        }
        for demand in &self.demands {
            let specifiers = specifiers_of(demand, &format!("{},>={text}", choice.specifiers), cuda_major)?;
            if let Some(version) = specifiers.strip_prefix("==").filter(|version| !version.contains(['*', ','])) {
                choice.exact = Some(version.to_owned());
            }
            if !specifiers.is_empty() {
                choice.specifiers += &format!(",{specifiers}");
            }
        }
        let wheel = Component::Cudnn.wheel(cuda_major);
        for wish in self.wishes.iter().filter(|wish| normalized(package_name(wish)) == wheel) {
            let Some((specifiers, _)) = allows_from(wish, "0") else { continue };
            let both = format!("{},{}", choice.specifiers, specifiers.replace(' ', ""));
            let all = format!("{wheel}=={CUDNN_MAJOR}.*,>={text}{both}");
            if allows_from(&all, "0").is_some_and(|(_, is_allowed)| is_allowed) {
                choice.specifiers = both;
            }
        }
        Ok(choice)
    }

    pub(super) fn accept(&self, wheel_version: &str, cuda_major: u32) -> Result<(), String> {
        let exact = format!(",=={wheel_version}");
        self.demands.iter().try_for_each(|demand| specifiers_of(demand, &exact, cuda_major).map(drop))
    }
}

/// Returns the CUDA major of the cuDNN that a framework of the environment requires, if these packages include it.
pub(super) fn demanded_cuda(packages: &[Package]) -> Option<u32> {
    let root = &packages.first().filter(|package| package.installer == Installer::Pip)?.root;
    let host = Host::current();
    let survey = survey_to(&Environment::at(root, &host), &host, MINIMAL_DEPTH);
    let majors = survey.frameworks.iter().filter_map(FrameworkRequirement::of).map(|demand| demand.cuda_major);
    { majors }.find(|major| packages.iter().any(|package| package.name == Component::Cudnn.wheel(*major)))
}

/// Returns the specifiers of a framework's requirement, if it allows one of these versions for this CUDA. Frameworks
/// without cuDNN in their metadata accept all versions for their CUDA.
fn specifiers_of(demand: &FrameworkRequirement, versions: &str, cuda_major: u32) -> Result<String, String> {
    let FrameworkRequirement { framework, requirement, is_required, .. } = demand;
    let is_other_cuda = demand.cuda_major != cuda_major;
    let is_allowed = |requirement: &str| allows_from(requirement, "0").is_none_or(|(_, is_allowed)| is_allowed);
    match is_required {
        false if is_other_cuda => Err(format!(
            "{framework} in this environment is built for another CUDA, and the wheels of cuDNN for both own the same \
             files: give the program an environment of its own"
        )),
        false => Ok(String::new()),
        true if is_other_cuda || !is_allowed(&format!("{requirement}{versions}")) => Err(format!(
            "{framework} in this environment requires {requirement}: install a release of it that requires another \
             cuDNN, or give the program an environment of its own",
        )),
        // A requirement without a version allows all versions.
        true => Ok(allows_from(requirement, "0").map_or(String::new(), |(specifiers, _)| specifiers.replace(' ', ""))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::framework_requirement::tests::requirement as requirement_for_test;
    use cudnn_frameworks::allows;

    use super::*;

    /// Wheels of cuDNN for CUDA 12, the newest first.
    const WHEELS: [&str; 8] =
        ["9.28.0.42", "9.19.0.56", "9.15.1.9", "9.15.0.57", "9.11.0.98", "9.10.2.21", "9.10.0.56", "9.8.0.87"];

    /// The first release with a known issue, and the first release with the fix.
    const ISSUES: [(Version, Version); 3] = [
        (Version::new(9, 0, 0), Version::new(9, 10, 1)),
        (Version::new(9, 8, 0), Version::new(9, 15, 1)),
        (Version::new(9, 11, 0), Version::new(9, 15, 0)),
    ];

    fn version(wheel: &str) -> Version {
        let (release, _) = wheel.rsplit_once('.').unwrap_or_default();
        release.parse().unwrap_or(LATER)
    }

    fn newest(choice: &ReleaseChoice, minimum: Version) -> &'static str {
        let requirement = format!("x>={minimum}{}", choice.specifiers);
        let is_allowed = |wheel: &&&str| allows(&requirement, wheel);
        WHEELS.iter().find(is_allowed).copied().unwrap_or("none")
    }

    /// Checks that no command reverts the change of another or breaks a correct setup.
    #[test]
    fn no_command_undoes_what_another_one_did() {
        let gpu = |compute_capability| vec![Gpu { name: "a GPU".into(), compute_capability }];
        for gpus in [vec![], gpu(70), gpu(90), [gpu(90), gpu(70)].concat()] {
            for pin in ["", "==9.10.2.21", "==9.19.0.56", ">=9.8,<10.0"] {
                let torch = || requirement_for_test("PyTorch 2.8", &format!("nvidia-cudnn-cu12{pin}"), (9, 0, 0), true);
                let limits = Limits::of(&gpus, (!pin.is_empty()).then(torch));
                for wanted in [None, Some(Version::new(9, 10, 1)), Some(Version::new(9, 15, 1))] {
                    for start in WHEELS {
                        let case = format!("{gpus:?} {pin} {wanted:?} {start}");
                        follow(&limits, &gpus, pin, wanted, start, &case);
                    }
                }
            }
        }
    }

    fn follow(limits: &Limits, gpus: &[Gpu], pin: &str, wanted: Option<Version>, start: &'static str, case: &str) {
        let is_supported = |wheel: &str| {
            let oldest = release_facts::min_compute_capability(version(wheel));
            gpus.iter().all(|gpu| gpu.compute_capability >= oldest)
        };
        let is_pinned = |wheel: &str| allows(&format!("x{pin}"), wheel);
        let mut seen = vec![start];
        let mut now = start;
        loop {
            let issues = ISSUES.iter().filter(|(from, fixed_in)| *from <= version(now) && version(now) < *fixed_in);
            let minima = issues.map(|(_, fixed_in)| *fixed_in);
            let minima = minima.chain(wanted.filter(|wanted| version(now) < *wanted));
            let upgrade = minima.filter_map(|minimum| Some(newest(&limits.choose(Some(minimum), 12).ok()?, minimum)));
            let last = LAST_FOR_OLD_GPUS.1;
            let downgrade = (!is_supported(now) && limits.accept(last, 12).is_ok()).then_some(last);
            let Some(next) = upgrade.chain(downgrade).next() else { return };
            assert_ne!(next, "none", "{case}: {seen:?}");
            assert!(is_supported(next) && is_pinned(next), "{case}: {seen:?} {next}");
            assert!(!seen.contains(&next), "{case}: a loop: {seen:?} {next}");
            seen.push(next);
            now = next;
        }
    }

    #[test]
    fn limits_are_explained() {
        let gpus = [Gpu { name: "Tesla V100".into(), compute_capability: 70 }];
        let torch = |version: &str| {
            requirement_for_test("PyTorch 2.8", &format!("nvidia-cudnn-cu12=={version}"), (9, 0, 0), true)
        };
        let newer = Some(Version::new(9, 15, 1));
        let explain = |gpus: &[Gpu], version: Option<&str>, minimum, cuda| {
            Limits::of(gpus, version.map(torch)).choose(minimum, cuda).err().unwrap_or_default()
        };
        let requires = "PyTorch 2.8 in this environment requires nvidia-cudnn-cu12==9.10";
        for (found, expected) in [
            (explain(&gpus, None, newer, 12), "no cuDNN from 9.15.1 on supports Tesla V100 (compute capability 7.0)"),
            (explain(&gpus, None, None, 13), "no cuDNN for CUDA 13 supports Tesla V100"),
            (explain(&[], Some("9.10.2.21"), newer, 12), requires),
            (explain(&[], Some("9.10.2.21"), None, 13), requires),
            (explain(&[], None, newer, 11), "NVIDIA has no cuDNN 9.15.1 for CUDA 11"),
        ] {
            assert!(!expected.is_empty() && found.starts_with(expected), "{found}");
        }
        let exact = Limits::of(&[], [torch("9.19.0.56")]).choose(newer, 12);
        assert_eq!(exact.ok().and_then(|choice| choice.exact).as_deref(), Some("9.19.0.56"));
        assert_eq!(Limits::of(&[], []).choose(newer, 12), Ok(ReleaseChoice::default()));
    }

    #[test]
    fn a_wish_that_cudnn_9_cannot_fulfill_is_ignored() {
        let wishes = ["nvidia-cudnn-cu12>=10", "nvidia-cudnn-cu12<9.20"].map(str::to_owned).to_vec();
        let choice = Limits { wishes, ..Limits::of(&[], []) }.choose(None, 12);
        assert_eq!(choice.map(|choice| choice.specifiers).as_deref(), Ok(",<9.20"));
    }
}
