//! Which releases of cuDNN an environment can have: its frameworks, the machine's GPUs and NVIDIA's packages limit them.
//! Commands that change the version stay within these limits, so that no finding's command causes another finding.

use std::path::Path;

use cudnn_frameworks::{Depth, Environment, allows_from, survey_to};
use cudnn_probe::packages::Component;
use cudnn_probe::{Host, Version, release_facts};

use super::demand::{CUDNN_MAJOR, Demand, WHEEL};
use super::machine::Gpu;
use crate::escape::Printable;

/// The last release with kernels for compute capabilities 5.0 to 7.0, and its wheels' full version. It is also the last
/// one for CUDA 11, and older than the first one for CUDA 13.
pub(super) const LAST_FOR_OLD_GPUS: (Version, &str) = (Version::new(9, 10, 2), "9.10.2.21");

/// The CUDA majors after this one do not support these GPUs.
pub(super) const LAST_CUDA_FOR_OLD_GPUS: u32 = 12;

/// A release after that one.
const LATER: Version = Version::new(9, 11, 0);

/// What limits the release.
pub(crate) struct Limits<'a> {
    /// A GPU that newer releases do not support.
    old_gpu: Option<&'a Gpu>,
    pins: Vec<FrameworkPin>,
}

/// A framework that requires a cuDNN.
struct FrameworkPin {
    /// `PyTorch 2.8.0`.
    framework: String,
    /// `nvidia-cudnn-cu12`.
    wheel: String,
    /// `nvidia-cudnn-cu12==9.10.2.21`.
    requirement: String,
    /// Its metadata requires that; else it is only built for that CUDA.
    is_required: bool,
}

/// The versions that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::check) struct Choice {
    /// To append to a requirement that has a minimum: `,<9.11`.
    pub(super) specifiers: String,
    /// The only full version that fits.
    pub(super) exact: Option<String>,
}

impl<'a> Limits<'a> {
    /// Those of the environment with this root, on a machine with these GPUs.
    pub(in crate::check) fn new(root: Option<&Path>, gpus: &'a [Gpu], host: &Host) -> Self {
        let depth = Depth { kernels: false, unlisted: false, metadata: false };
        let survey = root.map(|root| survey_to(&Environment::at(root, host), host, depth));
        let frameworks = survey.iter().flat_map(|survey| &survey.frameworks);
        let pins = frameworks.clone().flat_map(|framework| {
            let name = format!("{} {}", framework.kind.name, framework.version);
            let pins = framework.pins.iter().filter(|pin| pin.extra.is_none());
            pins.map(move |pin| (name.clone(), pin.without_marker(), pin.package.clone()))
        });
        let demands = frameworks.filter_map(Demand::of);
        let demands = demands.filter(|demand| !demand.is_required && demand.cudnn_major == CUDNN_MAJOR);
        let mut limits = Limits::of(gpus, pins);
        limits.pins.extend(demands.map(|demand| FrameworkPin {
            framework: demand.framework,
            wheel: Component::Cudnn.wheel(demand.cuda_major),
            requirement: demand.requirement,
            is_required: false,
        }));
        limits
    }

    /// Those of these GPUs alone.
    pub(super) fn of_gpus(gpus: &'a [Gpu]) -> Self {
        Limits::of(gpus, [])
    }

    fn of(gpus: &'a [Gpu], pins: impl IntoIterator<Item = (String, String, String)>) -> Self {
        let oldest = release_facts::min_compute_capability(LAST_FOR_OLD_GPUS.0);
        let old = oldest..release_facts::min_compute_capability(LATER);
        let is_old = |gpu: &&Gpu| old.contains(&gpu.compute_capability) && !gpu.is_tegra();
        let pins = pins.into_iter().filter(|(_, _, package)| package.starts_with(WHEEL));
        let pins = pins.map(|(framework, requirement, wheel)| FrameworkPin {
            framework,
            wheel,
            requirement,
            is_required: true,
        });
        Limits { old_gpu: gpus.iter().find(is_old), pins: pins.collect() }
    }

    /// The versions from this one on that fit, or why there is none.
    pub(in crate::check) fn choose(&self, minimum: Option<Version>, cuda_major: u32) -> Result<Choice, String> {
        let (last, last_wheel) = LAST_FOR_OLD_GPUS;
        let is_later = minimum.is_some_and(|minimum| minimum > last);
        let text = minimum.map_or("9".to_owned(), |minimum| minimum.to_string());
        let mut choice = Choice::default();
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
        for pin in &self.pins {
            let specifiers = self.specifiers_of(pin, &format!("{},>={text}", choice.specifiers), cuda_major)?;
            if let Some(version) = specifiers.strip_prefix("==").filter(|version| !version.contains(['*', ','])) {
                choice.exact = Some(version.to_owned());
            }
            if !specifiers.is_empty() {
                choice.specifiers += &format!(",{specifiers}");
            }
        }
        Ok(choice)
    }

    /// Whether this full version fits the frameworks.
    pub(super) fn accept(&self, wheel_version: &str, cuda_major: u32) -> Result<(), String> {
        let exact = format!(",=={wheel_version}");
        self.pins.iter().try_for_each(|pin| self.specifiers_of(pin, &exact, cuda_major).map(|_| ()))
    }

    /// The specifiers of a framework's requirement, which must allow one of these versions for this CUDA.
    fn specifiers_of(&self, pin: &FrameworkPin, versions: &str, cuda_major: u32) -> Result<String, String> {
        let FrameworkPin { framework, wheel, requirement, is_required } = pin;
        let is_other_cuda = *wheel != Component::Cudnn.wheel(cuda_major);
        if !is_required && is_other_cuda {
            return Err(format!(
                "{framework} in this environment is built for another CUDA, and the wheels of cuDNN for both own the \
                 same files: give the program an environment of its own"
            ));
        }
        if !is_required {
            return Ok(String::new());
        }
        let allowed = allows_from(&format!("{requirement}{versions}"), "0");
        // A requirement without a version allows all.
        let specifiers = allows_from(requirement, "0").map_or(String::new(), |(specifiers, _)| specifiers);
        if is_other_cuda || allowed.is_some_and(|(_, is_allowed)| !is_allowed) {
            return Err(format!(
                "{framework} in this environment requires {requirement}: install a release of it that requires another \
                 cuDNN, or give the program an environment of its own",
            ));
        }
        Ok(specifiers.replace(' ', ""))
    }

    /// The CUDA major of the cuDNN that a framework requires, if it is one of these packages.
    pub(super) fn pinned_cuda(&self, packages: &[String]) -> Option<u32> {
        let pin = self.pins.iter().find(|pin| packages.contains(&pin.wheel))?;
        pin.wheel.strip_prefix(WHEEL)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wheels of cuDNN for CUDA 12, the newest first.
    const WHEELS: [&str; 8] =
        ["9.28.0.42", "9.19.0.56", "9.15.1.9", "9.15.0.57", "9.11.0.98", "9.10.2.21", "9.10.0.56", "9.8.0.87"];

    fn version(wheel: &str) -> Version {
        let numbers: Vec<u32> = wheel.split('.').map(|number| number.parse().unwrap_or(0)).collect();
        Version::new(
            numbers.first().copied().unwrap_or(9),
            numbers.get(1).copied().unwrap_or(0),
            numbers.get(2).copied().unwrap_or(0),
        )
    }

    /// The wheel that an installer takes for a choice.
    fn newest(choice: &Choice, minimum: Version) -> &'static str {
        let requirement = format!("x>={minimum}{}", choice.specifiers);
        let is_allowed = |wheel: &&&str| {
            allows_from(&format!("{requirement},=={wheel}"), "0").is_some_and(|(_, is_allowed)| is_allowed)
        };
        WHEELS.iter().find(is_allowed).copied().unwrap_or("none")
    }

    /// Each command that changes the version, against all other requirements: after it, no other command changes the
    /// version back, and nothing that was right is wrong.
    #[test]
    fn no_command_undoes_what_another_one_did() {
        let gpu = |compute_capability| vec![Gpu { name: "a GPU".into(), compute_capability }];
        for gpus in [vec![], gpu(70), gpu(90), [gpu(90), gpu(70)].concat()] {
            for pin in ["", "==9.10.2.21", "==9.19.0.56", ">=9.8,<10.0"] {
                let name = "nvidia-cudnn-cu12".to_owned();
                let pins = (!pin.is_empty()).then(|| ("PyTorch 2.8".to_owned(), format!("{name}{pin}"), name));
                let limits = Limits::of(&gpus, pins);
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
        let is_pinned = |wheel: &str| {
            pin.is_empty() || allows_from(&format!("x{pin},=={wheel}"), "0").is_some_and(|(_, allowed)| allowed)
        };
        let mut seen = vec![start];
        let mut now = start;
        loop {
            let minima = release_facts::known_issues(version(now)).map(|issue| issue.fixed_in);
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
        let pin =
            |wheel: &str, version: &str| ("PyTorch 2.8".to_owned(), format!("{wheel}{version}"), wheel.to_owned());
        let torch = || pin("nvidia-cudnn-cu12", "==9.10.2.21");
        let newer = Some(Version::new(9, 15, 1));
        let explain = |gpus: &[Gpu], pins: Vec<_>, minimum, cuda| {
            Limits::of(gpus, pins).choose(minimum, cuda).err().unwrap_or_default()
        };
        for (found, expected) in [
            (explain(&gpus, vec![], newer, 12), "no cuDNN from 9.15.1 on supports Tesla V100 (compute capability 7.0)"),
            (explain(&gpus, vec![], None, 13), "no cuDNN for CUDA 13 supports Tesla V100"),
            (
                explain(&[], vec![torch()], newer, 12),
                "PyTorch 2.8 in this environment requires nvidia-cudnn-cu12==9.10",
            ),
            (explain(&[], vec![torch()], None, 13), "PyTorch 2.8 in this environment requires nvidia-cudnn-cu12==9.10"),
            (explain(&[], vec![], newer, 11), "NVIDIA has no cuDNN 9.15.1 for CUDA 11"),
        ] {
            assert!(!expected.is_empty() && found.starts_with(expected), "{found}");
        }
        let exact = Limits::of(&[], vec![pin("nvidia-cudnn-cu12", "==9.19.0.56")]).choose(newer, 12);
        assert_eq!(exact.ok().and_then(|choice| choice.exact).as_deref(), Some("9.19.0.56"));
        assert_eq!(Limits::of(&[], vec![]).choose(newer, 12), Ok(Choice::default()));
    }
}
