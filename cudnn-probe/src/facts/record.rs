//! Records answers about a system and replays them later.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::portable::Portable;
use super::subject::Subject;

thread_local! {
    static ACTIVE: RefCell<Option<Facts>> = const { RefCell::new(None) };
    /// Set while an answer is being computed. Nested questions are not recorded separately.
    static IS_ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// How a reader finds the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// It reads the system.
    System,
    /// It only uses functions of this module, so it can be called again after changes.
    Derived,
    /// It starts a program. After changes, only recorded answers are given.
    Program,
}

/// A set of answers about a system, see the [module](crate::facts). Clones share the same answers.
///
/// A question without a recorded answer means that the subject does not exist, for example a file or a variable.
/// Recorded facts therefore only list existing things, and facts for tests can be short.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The answers, by question and subject.
    answers: Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>,
    /// The questions about missing subjects.
    absent: Arc<Mutex<BTreeSet<(&'static str, String)>>>,
    /// Set if the facts are complete and the system must not be accessed.
    is_complete: bool,
    /// Set if recorded answers are used again, because some take long.
    reuses_answers: bool,
    /// Changes that the answers take into account.
    changes: Option<Arc<dyn Change>>,
}

/// Changes to a system that have not been made. The active facts of each call are those before the changes.
pub(super) trait Change: std::fmt::Debug + Send + Sync {
    /// Returns how the changes affect a question.
    fn answer(&self, question: &str, subject: &Subject<'_>) -> Changed;

    /// Changes the list of those entries of a directory that are wanted.
    fn change_entries(&self, dir: &Path, entries: &mut Vec<PathBuf>, wanted: &dyn Fn(&str) -> bool);
}

/// How changes affect a question.
pub(super) enum Changed {
    /// The answer is the same as before.
    Unaffected,
    /// The subject is missing now, or a new file without this answer.
    Affected,
    /// The subject is a directory with changed files.
    Within,
    /// The recorded form of the new answer.
    Answer(Value),
}

/// The type of an answer that can be recorded.
///
/// It is implemented for types that can express that the subject of a question does not exist: [`Option`], collections,
/// `bool`, [`String`], and results whose error is an [`io::Error`] or a [`ProbeError`](crate::ProbeError).
pub trait Answer: Portable {
    /// Returns the answer for a subject that does not exist.
    fn nothing() -> Self;
}

impl Facts {
    /// Creates empty facts. Within them, all questions are answered by this system, and the answers are recorded.
    #[must_use]
    pub fn recorder() -> Facts {
        Facts::default()
    }

    /// Creates facts from the recorded answers that [`to_value`](Facts::to_value) returned. Within them, this system is
    /// not accessed.
    ///
    /// # Errors
    /// Returns an error if the value is not an object of objects.
    pub fn from_value(value: Value) -> Result<Facts, serde_json::Error> {
        let answers = serde_json::from_value(value)?;
        Ok(Facts { answers: Arc::new(Mutex::new(answers)), is_complete: true, ..Facts::default() })
    }

    /// Returns the same facts with these changes.
    pub(super) fn with_changes(&self, changes: Arc<dyn Change>) -> Facts {
        Facts { changes: Some(changes), ..self.clone() }
    }

    /// Returns the recorded answers as an object that contains an object of subjects and answers for each question.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_question = |answers: &BTreeMap<String, Value>| {
            Value::Object(answers.iter().map(|(subject, answer)| (subject.clone(), answer.clone())).collect())
        };
        let answers = answers.iter().map(|(question, answers)| (question.clone(), of_question(answers)));
        Value::Object(answers.collect::<Map<_, _>>())
    }

    /// Runs a function within these facts: they answer all questions that it asks in this thread. Other threads need a
    /// call of their own, see [`active`](Facts::active).
    pub fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        /// Restores the previously active facts, even after a panic.
        struct Restore(Option<Facts>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ACTIVE.set(self.0.take());
            }
        }
        let _restore = Restore(ACTIVE.replace(Some(self.clone())));
        run()
    }

    /// Returns the facts that answer questions in this thread, for use in a new thread. Returns `None` if answers come
    /// directly from the system, or while an answer is being computed.
    #[must_use]
    pub fn active() -> Option<Facts> {
        if IS_ANSWERING.get() { None } else { ACTIVE.with_borrow(Clone::clone) }
    }

    fn answer<T: Answer>(
        &self,
        question: &'static str,
        subject: &Subject<'_>,
        is_enough: &dyn Fn(&T) -> bool,
        read: impl FnOnce() -> T,
    ) -> T {
        let key = subject.key();
        if self.is_complete {
            return self.known(question, &key).unwrap_or_else(T::nothing);
        }
        if self.reuses_answers {
            let known = self.known(question, &key).filter(is_enough);
            if let Some(known) = known.or_else(|| self.is_absent(question, &key).then(T::nothing)) {
                return known;
            }
        }
        /// Resets the flag, even after a panic.
        struct Answering;
        impl Drop for Answering {
            fn drop(&mut self) {
                IS_ANSWERING.set(false);
            }
        }
        let answering = Answering;
        IS_ANSWERING.set(true);
        let answer = read();
        drop(answering);
        let value = written(&answer);
        if self.known(question, &key).is_some_and(|before| !answer.replaces(&before)) {
            return answer;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
        let of_question = answers.entry(question.to_owned()).or_default();
        if value == written(&T::nothing()) {
            of_question.remove(&key);
            absent.insert((question, key));
        } else {
            absent.remove(&(question, key.clone()));
            of_question.insert(key, value);
        }
        answer
    }

    /// Returns whether the subject is known to be missing.
    fn is_absent(&self, question: &'static str, key: &str) -> bool {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner).contains(&(question, key.to_owned()))
    }

    /// Returns a recorded answer.
    fn known<T: Answer>(&self, question: &str, key: &str) -> Option<T> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        T::deserialize(answers.get(question)?.get(key)?).ok()
    }

    /// Returns the facts without changes, which use recorded answers again.
    fn before_changes(&self) -> Facts {
        Facts { changes: None, reuses_answers: true, ..self.clone() }
    }

    /// Answers a question after changes.
    fn answer_after<T: Answer>(
        &self,
        changes: &dyn Change,
        question: &'static str,
        subject: &Subject<'_>,
        is_enough: &dyn Fn(&T) -> bool,
        read: impl FnOnce() -> T,
        reader: Reader,
    ) -> T {
        let before = self.before_changes();
        if reader == Reader::Program && before.known::<T>(question, &subject.key()).is_none() {
            return T::nothing();
        }
        match before.within(|| changes.answer(question, subject)) {
            Changed::Affected | Changed::Within if reader == Reader::Derived => read(),
            Changed::Unaffected | Changed::Within => {
                before.within(|| before.answer(question, subject, is_enough, read))
            }
            Changed::Affected => T::nothing(),
            Changed::Answer(value) => T::deserialize(value).unwrap_or_else(|_| T::nothing()),
        }
    }
}

/// Changes the list of wanted entries of a directory, if there are changes.
pub(super) fn with_changed_entries(
    dir: &Path,
    mut entries: Vec<PathBuf>,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<PathBuf> {
    if let Some((facts, changes)) = Facts::active().and_then(|facts| Some((facts.before_changes(), facts.changes?))) {
        facts.within(|| changes.change_entries(dir, &mut entries, wanted));
    }
    entries
}

/// Returns the recorded form of an answer.
pub(super) fn written<T: Portable>(answer: &T) -> Value {
    answer.serialize(serde_json::value::Serializer).unwrap_or_default()
}

/// Answers a question about a subject.
///
/// The answer comes from `read`, or from the active [`Facts`] if they replay answers. The question and the text of the
/// subject identify a recorded answer, so it must not depend on anything else. Questions that `read` asks are not
/// recorded separately.
pub fn ask<'a, T: Answer>(question: &'static str, subject: impl Into<Subject<'a>>, read: impl FnOnce() -> T) -> T {
    answer(question, subject, &|_| true, read, Reader::System)
}

/// Like [`ask`], for an answer that can be longer than an earlier one to the same question, as when a file is read again
/// with a higher limit. `is_enough` says whether a recorded answer is used again.
pub(super) fn ask_for_enough<'a, T: Answer>(
    question: &'static str,
    subject: impl Into<Subject<'a>>,
    is_enough: impl Fn(&T) -> bool,
    read: impl FnOnce() -> T,
) -> T {
    answer(question, subject, &is_enough, read, Reader::System)
}

/// Like [`ask`], for a reader that only uses functions of this module. It is called again if the subject was changed by
/// [`Facts::after`], while an answer to [`ask`] would then be missing.
pub fn derive<'a, T: Answer>(question: &'static str, subject: impl Into<Subject<'a>>, read: impl FnOnce() -> T) -> T {
    answer(question, subject, &|_| true, read, Reader::Derived)
}

/// Like [`ask`], for a reader that starts a program. No program is started for [`Facts::after`], where a question without a
/// recorded answer is unanswered.
pub fn ask_program<'a, T: Answer>(
    question: &'static str,
    subject: impl Into<Subject<'a>>,
    read: impl FnOnce() -> T,
) -> T {
    answer(question, subject, &|_| true, read, Reader::Program)
}

fn answer<'a, T: Answer>(
    question: &'static str,
    subject: impl Into<Subject<'a>>,
    is_enough: &dyn Fn(&T) -> bool,
    read: impl FnOnce() -> T,
    reader: Reader,
) -> T {
    match Facts::active() {
        Some(facts) => match &facts.changes {
            Some(changes) => facts.answer_after(&**changes, question, &subject.into(), is_enough, read, reader),
            None => facts.answer(question, &subject.into(), is_enough, read),
        },
        None => read(),
    }
}

impl<T: Portable> Answer for Option<T> {
    fn nothing() -> Self {
        None
    }
}

impl<T: Portable> Answer for Vec<T> {
    fn nothing() -> Self {
        Vec::new()
    }
}

impl<T: Portable> Answer for Result<T, io::Error> {
    fn nothing() -> Self {
        // 2 is the number of a missing file on all systems.
        Err(io::Error::from_raw_os_error(2))
    }
}

impl Answer for bool {
    fn nothing() -> Self {
        false
    }
}

impl Answer for String {
    fn nothing() -> Self {
        String::new()
    }
}

impl<T: Portable + Ord> Answer for BTreeSet<T> {
    fn nothing() -> Self {
        BTreeSet::new()
    }
}
