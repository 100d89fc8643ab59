//! Which packages pip installs for a framework with CUDA, so that they suit the other frameworks of the environment.

use cudnn_frameworks::facts::FACTS;
use cudnn_frameworks::{Depth, Environment, Survey, survey_to};
use cudnn_probe::packages;

use super::framework::Framework;
use crate::check::machine::Machine;
use crate::check::suitable::{Suitable, suitable};
use crate::context::Context;
use crate::python::Python;

/// The requirements that pip takes: the framework's, and that of the cuDNN which the others demand.
///
/// # Errors
/// Why no build of the framework suits the others, and what to do.
pub(super) fn requirements(
    framework: Framework,
    python: &Python,
    context: &Context,
    machine: &Machine,
) -> Result<Vec<String>, String> {
    let environment = Environment::of_python(&python.program, &python.root, &context.host);
    let survey = survey_to(&environment, &context.host, Depth { kernels: false, unlisted: false, metadata: false });
    let others = || survey.frameworks.iter().filter(|other| other.kind.id != framework.module());
    let suitable = suitable(others(), machine)?;
    if !suitable.is_demanded {
        return Ok(vec![match framework {
            Framework::Jax if has_jax_for_cuda_13(python) => "jax[cuda13]".to_owned(),
            _ => framework.package(suitable.cuda_major.max(12)),
        }]);
    }
    let build = build_for(framework, suitable.cuda_major).ok_or_else(|| conflict(framework, &survey, &suitable))?;
    Ok(vec![build, suitable.requirement])
}

fn has_jax_for_cuda_13(python: &Python) -> bool {
    packages::site_packages(&python.root).any(|dir| dir.join("jax_plugins/xla_cuda13").is_dir())
}

fn conflict(framework: Framework, survey: &Survey, suitable: &Suitable) -> String {
    let other = survey.frameworks.iter().find(|other| other.kind.id != framework.module() && !other.opens.needs_none);
    let other = other.map_or_else(|| "another framework here".to_owned(), |other| other.kind.name.to_owned());
    format!(
        "{other} is built for CUDA {}, and no known release of {} in the Python package index is: give {} an environment \
         of its own",
        suitable.cuda_major,
        framework.name(),
        framework.name()
    )
}

/// The requirement of a build for this CUDA major: the package, or its releases before those for another CUDA.
fn build_for(framework: Framework, cuda_major: u32) -> Option<String> {
    let package = framework.package(cuda_major);
    let facts: Vec<_> = FACTS.iter().filter(|fact| fact.package == framework.wheel()).collect();
    let is_for =
        |index: usize| facts.get(index).and_then(|fact| fact.cuda).is_some_and(|(major, _)| major == cuda_major);
    if framework == Framework::Jax {
        return [12, 13].contains(&cuda_major).then_some(package);
    }
    let last = (0..facts.len()).rev().find(|index| is_for(*index))?;
    Some(match facts.get(last + 1) {
        Some(next) => format!("{package}<{}", next.since),
        None => package,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framework_is_built_for_the_cuda_of_the_others() {
        for (framework, cuda_major, expected) in [
            (Framework::Jax, 12, Some("jax[cuda12]")),
            (Framework::Jax, 13, Some("jax[cuda13]")),
            (Framework::Jax, 11, None),
            (Framework::Torch, 12, Some("torch<2.11.0")),
            (Framework::Torch, 13, Some("torch")),
            (Framework::Onnxruntime, 12, Some("onnxruntime-gpu<1.28.0")),
            (Framework::Onnxruntime, 13, Some("onnxruntime-gpu")),
            (Framework::Tensorflow, 12, Some("tensorflow[and-cuda]")),
            (Framework::Tensorflow, 13, None),
            (Framework::Ctranslate2, 12, Some("ctranslate2")),
        ] {
            assert_eq!(build_for(framework, cuda_major).as_deref(), expected, "{framework:?} {cuda_major}");
        }
    }
}
