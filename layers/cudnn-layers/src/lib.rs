//! Layers between a program and cuDNN.
//!
//! | layer | does |
//! | --- | --- |
//! | [`plans`] | keeps the plans that cuDNN compiles, for later processes |
//! | [`trace`] | writes each call with its time, arguments and status: for Perfetto, as lines, as a summary |
//!
//! A program adds a layer in code: `cudnn_loader::layers::add::<cudnn_layers::trace::Trace>("trace")`. The repository's
//! `cudnn-layers-library` makes a shared library of all layers, `libcudnn_layers.so` or `cudnn_layers.dll`: the loader
//! finds it beside the drop-in, and asks it for the layers that `CUDNN_LAYERS` names.
//!
//! A layer is one directory. It knows cuDNN's types and the interface of layers, and neither the loader nor other
//! layers. `wrappers` makes a function in front of each of cuDNN's; `shadow` knows what each backend descriptor was
//! given; `report` is where texts for people go.
#![allow(deprecated, reason = "programs call deprecated functions, too")]

mod lock;
pub mod plans;
mod report;
mod shadow;
pub mod trace;
mod wrappers;
