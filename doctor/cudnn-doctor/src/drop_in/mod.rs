//! Changes the drop-in in front of programs, either in a directory of cuDNN or by LD_PRELOAD.
//! docs/design/doctor.md#installing-the-drop-in has the rules, and `cudnn_rules::drop_in` the state. This module prints no output.

pub(crate) mod change;
pub(crate) mod preload;
pub(crate) mod target;
