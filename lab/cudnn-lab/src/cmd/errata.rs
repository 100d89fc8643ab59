//! `errata`: shows the rules of the layer `errata`, and whether they apply to this machine's cuDNN and GPUs.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_cli::programs::doctor;
use cudnn_cli::quoting::quoted;
use cudnn_cli::subprocess::Timeouts;
use cudnn_cli::table::table;
use cudnn_layers::errata::{BlockingRule, BlockingRules, VARIABLE};
use cudnn_probe::{Host, Requirements, Search, Version, select};
use serde_json::{Value, json};

use crate::plan_worker::compute_capabilities;

/// The options of `errata`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Use these rules: `known`, files, or both, separated by commas. Default: CUDNN_ERRATA, or `known`.
    #[arg(long, global = true, value_name = "RULES")]
    rules: Option<OsString>,
}

#[derive(Subcommand)]
enum Action {
    /// List the rules, and whether they apply to this machine's cuDNN and GPUs. Invalid rules are errors.
    List,
}

/// The cuDNN and GPUs for which the rules are checked.
struct Here {
    cudnn: Option<Version>,
    /// Compute capabilities in tenths.
    gpus: Vec<u32>,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let of_variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let selected = arguments.rules.clone().or_else(of_variable).unwrap_or_else(|| "known".into());
    let rules = BlockingRules::selected_by(&selected)?;
    let (Action::List, here) = (&arguments.action, Here::detect(timeouts));
    format.report(
        || json!({ "rules": rules.iter().map(|rule| here.value(rule)).collect::<Vec<_>>() }),
        || here.list(&rules, &selected.to_string_lossy()),
    );
    Ok(Outcome::Fine)
}

impl Here {
    fn detect(timeouts: &Timeouts) -> Here {
        let search = Search::new(Host::current().without_executable());
        let cudnn = select(&search, &Requirements::default()).installation.map(|selected| selected.version);
        Here { cudnn, gpus: compute_capabilities(timeouts) }
    }

    /// Returns why a rule does not apply here, if this is certain.
    fn reason(&self, rule: &BlockingRule) -> Option<String> {
        if let Some(cudnn) = self.cudnn.filter(|cudnn| !rule.includes_release(cudnn.number())) {
            return Some(format!("cuDNN {cudnn} is not affected"));
        }
        let is_affected = |capability: &u32| rule.includes_capability(*capability);
        let no_gpu_is_affected = !self.gpus.is_empty() && !self.gpus.iter().any(is_affected);
        no_gpu_is_affected.then(|| "the GPUs are not affected".to_owned())
    }

    fn value(&self, rule: &BlockingRule) -> Value {
        let reason = self.reason(rule);
        json!({
            "name": rule.name,
            "reason": rule.reason,
            "source": rule.source,
            "cudnn": rule.releases(),
            "compute_capability": rule.capabilities(),
            "plans": rule.conditions(),
            "applies": reason.is_none(),
            "reason_not": reason,
        })
    }

    fn list(&self, rules: &BlockingRules, selected: &str) {
        let mut table = table(["rule", "cuDNN", "GPUs", "blocks", "here"]);
        for rule in rules.iter() {
            let here = self.reason(rule).unwrap_or_else(|| match self.cudnn {
                Some(cudnn) => format!("applies to cuDNN {cudnn}"),
                None => "may apply: no cuDNN was found".to_owned(),
            });
            table.add_row([rule.name.clone(), rule.releases(), rule.capabilities(), rule.conditions(), here]);
        }
        outln!("{table}");
        let selected = quoted(selected);
        outln!("\nThe rules are used only if {VARIABLE} selects them and the layer is on, for example with");
        outln!("  {} run --errata {selected} -- python train.py", doctor());
    }
}
