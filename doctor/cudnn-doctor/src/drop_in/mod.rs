//! Changes the drop-in in front of programs, in a directory of cuDNN or by LD_PRELOAD, without printing output.
//! docs/design/doctor.md#installing-the-drop-in contains the rules, and `cudnn_rules::drop_in` the state.

pub(crate) mod change;
pub(crate) mod preload;
pub(crate) mod target;
