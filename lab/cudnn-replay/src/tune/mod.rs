//! Finds the fastest correct engine of a graph.
//!
//! This module contains the rules, and [`replay::Tuner`](crate::replay::Tuner) applies them on a GPU. A module imports
//! only modules above it in this list:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`mod@task`] | the task to tune a graph, and the answers |
//! | [`mod@usage`] | the number of executions of each graph in a program |
//! | [`mod@statistics`] | the median and the spread of times |
//! | [`mod@race`] | interleaved measurements, in which clear losers are dropped |
//! | [`mod@verdict`] | decides which engines are correct, and which is the best |

pub mod race;
pub mod statistics;
pub mod task;
pub mod usage;
pub mod verdict;
