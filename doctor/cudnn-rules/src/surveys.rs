//! Caches the surveys of one command, so that checks read an environment only once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cudnn_frameworks::{Depth, Environment, Survey, survey_to};
use cudnn_probe::Host;

/// A survey of frameworks without further details.
pub(crate) const FRAMEWORKS: Depth = Depth { kernels: false, unlisted: false, metadata: false };

#[derive(Clone, Default)]
pub(crate) struct Surveys(Rc<RefCell<Vec<Made>>>);

struct Made {
    read: Depth,
    survey: Arc<Survey>,
}

impl Surveys {
    /// Returns a cached survey of at least this depth, or makes a new one.
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
