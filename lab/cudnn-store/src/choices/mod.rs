//! Tuned choices: the measured ranking of engines for each graph, in files that also contain rules.
//!
//! ```
//! use cudnn_store::choices::Choices;
//!
//! let text = r#"{"errata": 1, "tuned": [{
//!     "cudnn": "9.19.0", "device": {"name": "NVIDIA H200", "compute_capability": "9.0"},
//!     "graph": "0123456789abcdef", "label": "conv_fwd ...", "executions": 7, "default": 0,
//!     "engines": [{"engine": 3, "knobs": {"TILE_SIZE": 4}, "workspace": 0, "proposed": true}]
//! }]}"#;
//! let choices = Choices::parse(text)?;
//! let ranking = choices.iter().next().ok_or("empty")?;
//! assert!(choices.find(ranking.cudnn, &ranking.device, &ranking.graph).is_some());
//! # Ok::<(), String>(())
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | `document` | a file with rules, rankings, or both |
//! | `ranking` | the engines of one graph, best first |
//! | `rankings` | the rankings of all files |
//!
//! A choice is an engine with its knobs. Indices among the proposals of the heuristics change between releases, so
//! they are stored only to predict the order, and the layer `tuned` compares the engines.

mod document;
mod ranking;
mod rankings;

pub use cudnn_probe::{Capability, Release};
pub use document::{Document, MAX_LEN};
pub use ranking::{Choice, Device, EngineProblem, MAX_PROPOSALS, Ranking};
pub use rankings::Choices;
