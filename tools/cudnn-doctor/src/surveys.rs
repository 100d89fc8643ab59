//! The surveys of one command: each environment is read once, however many checks ask for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cudnn_frameworks::{Depth, Environment, Survey, survey_to};
use cudnn_probe::Host;

/// What a survey reads of the frameworks alone.
pub(crate) const FRAMEWORKS: Depth = Depth { kernels: false, unlisted: false, metadata: false };

/// The surveys so far. A clone is the same value.
#[derive(Clone, Default)]
pub(crate) struct Surveys(Rc<RefCell<Vec<Made>>>);

/// A survey, and what it has read.
struct Made {
    read: Depth,
    survey: Arc<Survey>,
}

impl Surveys {
    /// The survey of this environment: one that has been made and that has read at least as much, or else a new one.
    pub(crate) fn of(&self, environment: &Environment, host: &Host, depth: Depth) -> Arc<Survey> {
        let is_it = |Made { read, survey }: &&Made| {
            let has_read =
                read.kernels >= depth.kernels && read.unlisted >= depth.unlisted && read.metadata >= depth.metadata;
            has_read && survey.environment == *environment
        };
        if let Some(made) = self.0.borrow().iter().find(is_it) {
            return made.survey.clone();
        }
        let survey = Arc::new(survey_to(environment, host, depth));
        self.0.borrow_mut().push(Made { read: depth, survey: survey.clone() });
        survey
    }
}
