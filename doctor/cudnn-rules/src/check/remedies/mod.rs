//! Provides the remedies that repair or replace an installation. They choose among the commands of `packages`.

mod common;
mod companion;
mod files;
mod install;
mod reinstall;
mod replace;
mod stand_in;

pub(crate) use common::by_change;
pub(super) use common::{search_first, use_other};
pub(super) use companion::Companion;
pub use files::denied_dir;
pub(crate) use files::permit;
pub(super) use files::{Releases, leftovers, links_like, lost_links, permit_file, remove};
pub(crate) use install::install;
pub(super) use install::{install_jetpack, install_older};
pub(crate) use reinstall::{PUT_DROP_IN_AGAIN, repair};
pub use reinstall::{is_damage, reinstall};
pub(super) use reinstall::{keep_one, restore, with_shim};
pub(crate) use replace::{Wanted, upgrade_to_requirement};
pub(super) use replace::{install_version, replace_older, server_build};
pub(super) use stand_in::pull;
