//! Chooses the cuDNN wheel that suits an environment on this machine. Commands that install cuDNN or a framework use
//! this choice, so that none reverts another.

use cudnn_frameworks::releases::{self, Fact};
use cudnn_frameworks::{Framework, allows};
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR};

use super::framework_requirement::{CUDNN_MAJOR, FrameworkRequirement};
use super::limits::Limits;
use super::machine::{Gpu, Machine};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WheelChoice {
    pub(crate) cudnn_major: u32,
    pub(crate) cuda_major: u32,
    /// The requirement to pass to pip: `nvidia-cudnn-cu12==9.10.2.21`.
    pub(crate) requirement: String,
    pub(crate) is_demanded: bool,
}

impl WheelChoice {
    pub(crate) fn wheel(&self) -> String {
        Component::Cudnn.wheel(self.cuda_major)
    }

    pub(crate) fn allows(&self, version: &str) -> bool {
        allows(&self.requirement, version)
    }
}

/// Returns the wheel that suits all frameworks of an environment, or explains how to resolve their conflict.
pub(crate) fn choose_wheel<'a>(
    frameworks: impl IntoIterator<Item = &'a Framework>,
    machine: &Machine,
) -> Result<WheelChoice, String> {
    let demands: Vec<FrameworkRequirement> = frameworks.into_iter().filter_map(FrameworkRequirement::of).collect();
    let is_too_old = |cuda_major: u32| machine.too_old_for(cuda_major).is_some();
    let previous = DEFAULT_CUDA_MAJOR - 1;
    let default = if is_too_old(DEFAULT_CUDA_MAJOR) && !is_too_old(previous) { previous } else { DEFAULT_CUDA_MAJOR };
    choose(&demands, &machine.gpus, default)
}

/// Returns the wheel for this CUDA, or the one that suits the machine. Explains why if no wheel suits the GPUs.
pub(crate) fn choose_wheel_for(cuda_major: Option<u32>, machine: &Machine) -> Result<WheelChoice, String> {
    cuda_major.map_or_else(|| choose_wheel([], machine), |cuda_major| choose(&[], &machine.gpus, cuda_major))
}

fn choose(demands: &[FrameworkRequirement], gpus: &[Gpu], default_cuda: u32) -> Result<WheelChoice, String> {
    // Frameworks that require cuDNN take precedence over frameworks that work without it.
    let Some(first) = demands.iter().min_by_key(|demand| demand.is_optional) else {
        let exact = Limits::of(gpus, []).choose(None, default_cuda)?.exact.map(|exact| format!("=={exact}"));
        let requirement = format!("{}{}", Component::Cudnn.wheel(default_cuda), exact.unwrap_or_default());
        return Ok(WheelChoice { cudnn_major: CUDNN_MAJOR, cuda_major: default_cuda, requirement, is_demanded: false });
    };
    let FrameworkRequirement { cudnn_major, cuda_major, .. } = *first;
    let is_other_major = |demand: &&FrameworkRequirement| demand.cudnn_major != cudnn_major && !demand.is_optional;
    if let Some(other) = demands.iter().find(is_other_major) {
        return Err(no_common_major(first, other));
    }
    let demands = || demands.iter().filter(|demand| demand.cudnn_major == cudnn_major);
    if let Some(other) = demands().find(|demand| demand.cuda_major != cuda_major) {
        return Err(format!(
            "{} is built for CUDA {cuda_major} and {} for CUDA {}, and the wheels of cuDNN for both own the same files: \
             give one of them an environment of its own",
            first.framework, other.framework, other.cuda_major
        ));
    }
    let newest = demands().max_by_key(|demand| (demand.minimum, demand.exact().is_some())).unwrap_or(first);
    let (minimum, exact) = (newest.minimum, newest.exact());
    // The limits only apply to cuDNN 9 releases.
    let gpus = if cudnn_major == CUDNN_MAJOR { gpus } else { &[] };
    let limit = Limits::of(gpus, []).choose(minimum, cuda_major);
    let limit =
        limit.map_err(|reason| format!("{} requires {}, but {reason}", newest.framework, newest.requirement))?;
    let mut requirement = newest.requirement.clone();
    for other in demands().filter(|other| !std::ptr::eq(*other, newest)) {
        let is_accepted = minimum.is_none_or(|minimum| other.accepts(minimum));
        // A framework that pins a different release may still accept this one, and pip only warns.
        let is_allowed = !other.is_required || other.exact().is_some() || other.allows(exact, minimum);
        if !is_accepted || !is_allowed {
            return Err(format!(
                "no cuDNN suits both {} ({}) and {} ({}): give one of them an environment of its own",
                newest.framework, newest.requirement, other.framework, other.requirement
            ));
        }
        if other.is_required && exact.is_none() {
            add_upper_bounds(&mut requirement, &other.requirement, cudnn_major + 1);
        }
    }
    if exact.is_none() {
        requirement += &limit.specifiers;
    }
    Ok(WheelChoice { cudnn_major, cuda_major, requirement, is_demanded: true })
}

/// Explains why no cuDNN suits two frameworks built for different majors, and which of their releases agree.
fn no_common_major(one: &FrameworkRequirement, other: &FrameworkRequirement) -> String {
    let (older, newer) = if one.cudnn_major < other.cudnn_major { (one, other) } else { (other, one) };
    let (old, new) = (older.cudnn_major, newer.cudnn_major);
    let of = |demand: &FrameworkRequirement| {
        releases::all().iter().filter(|fact| fact.package == demand.package).collect::<Vec<_>>()
    };
    let is_for = |fact: &Fact, wanted: u32| fact.cudnn.is_some_and(|cudnn| cudnn.major == wanted);
    let (of_older, of_newer) = (of(older), of(newer));
    let upgrade = of_older.iter().find(|fact| is_for(fact, new));
    let last = of_newer.iter().rposition(|fact| is_for(fact, old));
    let downgrade = last.and_then(|last| of_newer.get(last + 1));
    let option = |fact: &&Fact, operator: &str, major: u32| {
        format!("install {}{operator}{}, which is built for cuDNN {major}, or ", fact.package, fact.since)
    };
    let options = [upgrade.map(|fact| option(fact, ">=", new)), downgrade.map(|fact| option(fact, "<", old))];
    let options: String = options.into_iter().flatten().collect();
    format!(
        "no cuDNN suits both {} ({}) and {} ({}): {}give one of them an environment of its own",
        older.framework, older.requirement, newer.framework, newer.requirement, options
    )
}

/// Adds the upper bounds of the other requirement, apart from the next major.
fn add_upper_bounds(requirement: &mut String, other: &str, next: u32) {
    let is_next_major = |bound: &str| [format!("<{next}"), format!("<{next}.0")].iter().any(|known| known == bound);
    let start = other.find(['<', '>', '=', '!', '~']).unwrap_or(other.len());
    let bounds = other.get(start..).unwrap_or_default().split(',').filter(|bound| bound.starts_with(['<', '!']));
    for bound in bounds.filter(|bound| !is_next_major(bound)) {
        *requirement += &format!(",{bound}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::framework_requirement::tests::requirement as requirement_for_test;
    use super::*;

    #[test]
    fn one_package_suits_all_frameworks_or_none_does() {
        let torch = || requirement_for_test("torch", "nvidia-cudnn-cu12==9.10.2.21", (9, 10, 2), true);
        let jax = || requirement_for_test("JAX", "nvidia-cudnn-cu12<10.0,>=9.8", (9, 8, 0), false);
        let tensorflow = || requirement_for_test("TensorFlow", "nvidia-cudnn-cu12==9.3.0.75", (9, 3, 0), false);
        let onnxruntime = || requirement_for_test("ORT", "nvidia-cudnn-cu12>=9.0.0,<10", (9, 0, 0), false);
        let older = || requirement_for_test("older torch", "nvidia-cudnn-cu12==9.1.0.70", (9, 1, 0), true);
        let bounded = || requirement_for_test("bounded", "nvidia-cudnn-cu12>=9.1,<9.5", (9, 1, 0), true);
        let for_13 = || requirement_for_test("ORT", "nvidia-cudnn-cu13~=9.0", (9, 0, 0), false);
        let pinned_13 = || requirement_for_test("torch", "nvidia-cudnn-cu13==9.13.0.50", (9, 13, 0), true);
        let old = || requirement_for_test("torch", "nvidia-cudnn-cu12==8.9.2.26", (8, 9, 2), true);
        let optional = || FrameworkRequirement {
            is_optional: true,
            ..requirement_for_test("CuPy", "nvidia-cudnn-cu12>=8.8.0,<9", (8, 8, 0), false)
        };
        let of_ctranslate2 = || requirement_for_test("ctranslate2", "nvidia-cudnn-cu12>=9.1.0,<10", (9, 1, 0), false);
        let old_gpu = [Gpu { name: "V100".into(), compute_capability: 70 }];
        let none: &[Gpu] = &[];
        for (demands, gpus, expected) in [
            (vec![], none, Ok("nvidia-cudnn-cu12")),
            (vec![], &old_gpu, Ok("nvidia-cudnn-cu12==9.10.2.21")),
            (vec![torch()], none, Ok("nvidia-cudnn-cu12==9.10.2.21")),
            (vec![pinned_13()], none, Ok("nvidia-cudnn-cu13==9.13.0.50")),
            (vec![for_13()], none, Ok("nvidia-cudnn-cu13~=9.0")),
            (vec![for_13(), pinned_13()], none, Ok("nvidia-cudnn-cu13==9.13.0.50")),
            (vec![jax(), torch(), tensorflow(), onnxruntime()], none, Ok("nvidia-cudnn-cu12==9.10.2.21")),
            (vec![onnxruntime(), jax()], &old_gpu, Ok("nvidia-cudnn-cu12<10.0,>=9.8,<9.11")),
            // The older framework accepts it, and pip warns.
            (vec![older(), tensorflow()], none, Ok("nvidia-cudnn-cu12==9.3.0.75")),
            (vec![jax(), older()], none, Ok("nvidia-cudnn-cu12<10.0,>=9.8")),
            (vec![onnxruntime(), bounded()], none, Ok("nvidia-cudnn-cu12>=9.1,<9.5")),
            (vec![bounded(), torch()], none, Err("no cuDNN suits both torch")),
            (vec![torch(), for_13()], none, Err("torch is built for CUDA 12 and ORT for CUDA 13")),
            (vec![for_13(), torch()], none, Err("ORT is built for CUDA 13 and torch for CUDA 12")),
            (vec![old()], none, Ok("nvidia-cudnn-cu12==8.9.2.26")),
            (vec![old(), optional()], &old_gpu, Ok("nvidia-cudnn-cu12==8.9.2.26")),
            (vec![optional(), torch()], none, Ok("nvidia-cudnn-cu12==9.10.2.21")),
            (vec![optional()], none, Ok("nvidia-cudnn-cu12>=8.8.0,<9")),
            (
                vec![of_ctranslate2(), old()],
                none,
                Err("no cuDNN suits both torch (nvidia-cudnn-cu12==8.9.2.26) and ctranslate2 \
                     (nvidia-cudnn-cu12>=9.1.0,<10): install torch>=2.4.0, which is built for cuDNN 9, or install \
                     ctranslate2<4.5.0, which is built for cuDNN 8, or give one of them an environment of its own"),
            ),
            (
                vec![pinned_13()],
                &old_gpu,
                Err("torch requires nvidia-cudnn-cu13==9.13.0.50, but no cuDNN for CUDA 13 supports V100"),
            ),
        ] {
            let found = choose(&demands, gpus, 12);
            match expected {
                Ok(expected) => {
                    assert_eq!(found.as_ref().map(|found| found.requirement.as_str()), Ok(expected), "{demands:?}");
                }
                Err(expected) => {
                    let reason = found.err().unwrap_or_default();
                    assert!(reason.starts_with(expected), "{demands:?}: {reason}");
                }
            }
        }
    }
}
