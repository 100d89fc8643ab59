//! What this project does on Windows: programs and DLLs for it, under Wine. Wine is not Windows: the README says what
//! was run where.

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
