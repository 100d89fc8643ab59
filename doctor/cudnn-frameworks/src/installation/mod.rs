//! Reports the cuDNN installations of a machine: libraries, packages and conflicts.

mod arm;
mod complete;
mod evidence;
mod inventory;
mod libraries;
mod owner;
mod package;
mod report;

pub use crate::environment::layout::{
    is_virtual, name_of_program, os_of, python_dirs, python_name, site_packages, user_site,
};
pub use crate::package::conda::{
    CondaRecord, conda_packages, records_of_cuda as conda_records, unmet as unmet_by_conda,
};
pub use arm::ArmVariant;
pub use complete::complete_releases;
pub use evidence::Evidence;
pub use inventory::{Installed, inventory, inventory_with};
pub use libraries::{LibraryReport, RecordedFile};
pub use owner::{
    DPKG_STATUS, deleted_packages, deleted_system_packages, set_system_package, system_package, system_packages,
};
pub use package::{Installer, Package};
pub use report::{InstallationReport, Variant, majority};
