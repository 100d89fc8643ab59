//! Tests programs and DLLs for Windows under Wine. Wine may differ from Windows: the README lists which tests ran
//! where.

mod commands;
mod dll_search;
mod doctor;
mod drop_in;
mod fetch;
mod install;
mod linking;
mod loader;
mod reports;
mod trace;
