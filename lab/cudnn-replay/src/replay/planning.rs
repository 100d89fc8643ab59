//! Queries the heuristics, tries engines, and builds plans.

use std::ffi::CStr;
use std::fmt::Display;
use std::time::Instant;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::Target;
use cudnn_backend::engine::{self, ConfigurationInfo, can_try_every_engine, configuration, engine, proposals};
use cudnn_backend::plan::Plan;
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as Knob,
    cudnnStatus_t,
};
use cudnn_store::captures::{Engine, Status};

use super::request::{Engines, PlanReport, ReplayReport, Request};
use super::status::ReportStatus;
use crate::rebuild::{Refused, is_graph, rebuild};

/// Receives a description of each step that may take long.
pub(super) type Step<'a> = dyn FnMut(&str) + 'a;
pub(super) type Execute<'a> = dyn FnMut(&Plan, &mut PlanReport, &mut Step<'_>) + 'a;

/// A configuration, or the reason why it could not be created.
pub(super) struct EngineConfiguration {
    pub(super) engine: Engine,
    pub(super) configuration: Result<Descriptor, Error>,
}

/// Plans the graph for this device, and passes each plan to `execute`.
pub(super) fn plan(
    request: &Request,
    target: Target<'_>,
    report: &mut ReplayReport,
    step: &mut Step<'_>,
    execute: &mut Execute<'_>,
) {
    step("created the descriptors of the graph");
    let graph = match rebuild(&request.graph, target) {
        Ok(graph) => graph,
        Err(Refused { error: Some(error), place }) => return report.fail(&error, &place),
        Err(Refused { error: None, place }) => {
            (report.status, report.reason) = (ReportStatus::Skipped, Some(place));
            return;
        }
    };
    if !request.graph.root().is_some_and(is_graph) {
        // This descriptor belongs to a failed call, and cuDNN accepts it now.
        report.status = ReportStatus::SUCCESS;
        return;
    }
    report.status = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED.into();
    // Clear the text of an earlier graph.
    last_error();
    let mut proposed = Vec::new();
    let mut counts = [0; 2];
    for (mode, count) in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK].into_iter().zip(&mut counts) {
        step("asked the heuristics");
        match proposals(&graph, mode, target) {
            Ok(configurations) => {
                *count = configurations.len();
                proposed.extend(configurations);
            }
            Err(error) => report.fail(&error, "the heuristics"),
        }
    }
    report.proposals = Some(counts);
    let last_error = if proposed.is_empty() { last_error() } else { String::new() };
    let mut supporting = None;
    if can_try_every_engine() {
        step("tried every engine");
        let engines = engine::supporting_engines(&graph, target).map(Iterator::collect::<Vec<_>>);
        report.supporting = engines.as_ref().ok().map(Vec::len);
        supporting = engines.ok();
    }
    let candidates: Vec<EngineConfiguration> = match (&request.engines, supporting) {
        (Engines::Forced(wanted), _) => vec![EngineConfiguration::forced(&graph, wanted, target)],
        (Engines::All, Some(supporting)) => supporting.iter().map(EngineConfiguration::with_defaults).collect(),
        // JIT-only releases have no heuristics.
        (Engines::First, Some(supporting)) if proposed.is_empty() => {
            supporting.iter().map(EngineConfiguration::with_defaults).collect()
        }
        _ => proposed.into_iter().map(EngineConfiguration::proposed).collect(),
    };
    if candidates.is_empty() && report.reason.is_none() {
        report.reason = Some(with_reason("no engine is proposed", &last_error));
    }
    let tried = candidates.len();
    for EngineConfiguration { engine, configuration } in candidates {
        step(&format!("built a plan with engine {}", engine.index));
        let start = Instant::now();
        let mut planned = PlanReport { engine, ..PlanReport::default() };
        match configuration.and_then(|configuration| Plan::new(&configuration, target)) {
            Ok(plan) => {
                planned.build_us = start.elapsed().as_micros() as u64;
                planned.workspace = plan.workspace_size as u64;
                (report.status, report.reason) = (ReportStatus::SUCCESS, None);
                execute(&plan, &mut planned, step);
            }
            Err(error) => {
                let reason = cudnn_backend::first_reason(&error.text);
                planned.skipped = Some(with_reason(Status(error.status), &error.text));
                // Engines that were not proposed fail without a reason.
                if report.status != ReportStatus::SUCCESS && !reason.is_empty() {
                    report.fail(&error, &format!("engine {}", planned.engine.index));
                }
            }
        }
        let works = planned.skipped.is_none();
        if works || request.engines != Engines::First {
            report.plans.push(planned);
        }
        if works && request.engines == Engines::First {
            return;
        }
    }
    if report.status != ReportStatus::SUCCESS && report.reason.is_none() {
        report.reason = Some(format!("no engine works, of {tried} that were tried"));
    }
}

/// Appends the most informative line of cuDNN's error text.
pub(super) fn with_reason(text: impl Display, error: &str) -> String {
    match cudnn_backend::first_reason(error) {
        "" => text.to_string(),
        reason => format!("{text}: {reason}"),
    }
}

/// Returns cuDNN's last error text, which a successful query of the heuristics may leave behind.
fn last_error() -> String {
    let mut text = [0_u8; 4096];
    // SAFETY: the buffer has the given size, and cuDNN ends the text with a zero.
    unsafe { cudnn_loader::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

impl EngineConfiguration {
    pub(super) fn proposed(configuration: Descriptor) -> Self {
        let engine = ConfigurationInfo::new(&configuration).map(|info| Engine {
            index: info.engine,
            knobs: info
                .knobs
                .iter()
                .map(|(knob, value)| (Engine::knob_name(i64::from(knob.0) as u32), *value))
                .collect(),
            notes: info.notes_text().split_whitespace().map(str::to_lowercase).collect(),
        });
        EngineConfiguration { engine: engine.unwrap_or_default(), configuration: Ok(configuration) }
    }

    pub(super) fn with_defaults(engine: &Descriptor) -> Self {
        let index = engine.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX).unwrap_or(-1);
        match configuration(engine, &[]) {
            Ok(configuration) => EngineConfiguration::proposed(configuration),
            Err(error) => {
                EngineConfiguration { engine: Engine { index, ..Engine::default() }, configuration: Err(error) }
            }
        }
    }

    fn forced(graph: &Descriptor, wanted: &Engine, target: Target<'_>) -> Self {
        let knobs =
            wanted.knobs.iter().filter_map(|(name, value)| Some((Knob(Engine::knob_number(name)? as _), *value)));
        let knobs: Vec<(Knob, i64)> = knobs.collect();
        let configuration = engine(graph, wanted.index, target).and_then(|engine| configuration(&engine, &knobs));
        EngineConfiguration { engine: wanted.clone(), configuration }
    }
}
