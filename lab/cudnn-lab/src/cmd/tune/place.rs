//! The release of cuDNN and the GPU for which graphs are tuned.

use cudnn_cli::escape::Printable;
use cudnn_replay::tune::task::TuneReport;
use cudnn_store::choices::{Capability, Device, Ranking, Release};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) cudnn: Release,
    pub(super) device: Device,
}

impl Place {
    pub(super) fn new(report: &TuneReport) -> Result<Self, String> {
        if let Some(refusal) = &report.refusal {
            return Err(format!("cannot tune on this machine: {}", refusal.printable()));
        }
        let compute_capability = Capability::from_tenths(report.compute_capability);
        let device = Device { name: report.device.clone(), compute_capability };
        Ok(Place { cudnn: Release::from_number(u32::try_from(report.cudnn).unwrap_or_default()), device })
    }

    pub(super) fn is_of(&self, ranking: &Ranking) -> bool {
        ranking.cudnn == self.cudnn && ranking.device == self.device
    }
}
