//! The commands that repair or replace an installation. The commands come from the probe's `packages`, which knows the
//! installer that owns the files; these modules choose among them. Each command must work when it is pasted:
//! `tests/advice` executes them.

mod companion;
mod files;
mod install;
mod lines;
mod meet;
mod package_help;
mod places;
mod python;
mod reinstall;

pub(super) use companion::Companion;
pub(crate) use files::{denied_dir, permit};
pub(super) use files::{leftovers, links_like, lost_links, permit_file, remove};
pub(crate) use install::install;
pub(super) use install::{install_jetpack, install_older};
pub(crate) use meet::{Wanted, meet};
pub(super) use meet::{install_version, replace_older, server_build};
pub(crate) use package_help::with_commands;
pub(crate) use places::leave_named_dir;
pub(super) use places::use_other;
pub(super) use python::restore_python;
pub(crate) use reinstall::{PUT_DROP_IN_AGAIN, reinstall, repair};
pub(super) use reinstall::{keep_one, restore, with_shim};
