//! Records answers about a system and replays them later.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use cudnn_os::files::bytes_of;
use serde_json::{Map, Value};

use crate::portable::Portable;

thread_local! {
    static ACTIVE: RefCell<Option<Facts>> = const { RefCell::new(None) };
    /// Set while an answer is being computed. Nested questions are not recorded separately.
    static IS_ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// A set of answers about a system. Clones share the same answers.
///
/// A question without a recorded answer means that the subject does not exist, for example a file or a variable.
/// Recorded facts therefore only list existing things, and facts for tests can be short.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The answers, by question and subject.
    answers: Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>,
    /// Set if the facts are complete and the system must not be accessed.
    is_complete: bool,
    /// The questions that recorded facts were asked.
    asked: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// A type that can be recorded as an answer.
pub trait Answer: Portable {
    /// Returns the answer for a subject that does not exist.
    fn nothing() -> Self;
}

impl Facts {
    /// Creates empty facts that record answers from this system.
    #[must_use]
    pub fn recorder() -> Facts {
        Facts::default()
    }

    /// Loads recorded facts. Within them, this system is not accessed.
    ///
    /// # Errors
    /// Returns an error if the value is not an object of objects.
    pub fn from_value(value: Value) -> Result<Facts, serde_json::Error> {
        let answers = serde_json::from_value(value)?;
        Ok(Facts { answers: Arc::new(Mutex::new(answers)), is_complete: true, asked: Arc::default() })
    }

    /// Returns all answers, by question and subject.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_question = |answers: &BTreeMap<String, Value>| {
            Value::Object(answers.iter().map(|(subject, answer)| (subject.clone(), answer.clone())).collect())
        };
        let answers = answers.iter().map(|(question, answers)| (question.clone(), of_question(answers)));
        Value::Object(answers.collect::<Map<_, _>>())
    }

    /// Returns the questions that recorded facts were asked since the last call.
    pub fn take_asked(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a function with these facts, which replay or record all answers.
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

    /// Returns the active facts, for use in a new thread. Returns `None` if answers come directly from the system, or
    /// while an answer is being computed.
    #[must_use]
    pub fn active() -> Option<Facts> {
        if IS_ANSWERING.get() { None } else { ACTIVE.with_borrow(Clone::clone) }
    }

    fn answer<T: Answer>(&self, question: &'static str, subject: &OsStr, read: impl FnOnce() -> T) -> T {
        let subject = key(subject);
        if self.is_complete {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(question);
            let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let known = answers.get(question).and_then(|answers| answers.get(&subject)).cloned();
            return known.and_then(|value| T::read(value).ok()).unwrap_or_else(T::nothing);
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
        let value = |answer: &T| answer.write(serde_json::value::Serializer).unwrap_or_default();
        let known = value(&answer);
        let is_nothing = known == value(&T::nothing());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = answers.get(question).and_then(|answers| answers.get(&subject)).cloned();
        if before.and_then(|value| T::read(value).ok()).is_some_and(|before| !answer.replaces(&before)) {
            return answer;
        }
        match answers.entry(question.to_owned()).or_default() {
            answers if is_nothing => drop(answers.remove(&subject)),
            answers => drop(answers.insert(subject, known)),
        }
        answer
    }
}

/// Returns whether facts are being recorded or replayed.
#[must_use]
pub fn is_active() -> bool {
    Facts::active().is_some()
}

/// Returns whether answers come from saved facts instead of this system.
#[must_use]
pub fn are_saved() -> bool {
    Facts::active().is_some_and(|facts| facts.is_complete)
}

/// Answers a question about a subject, either from the system or from saved facts.
pub fn ask<T: Answer>(question: &'static str, subject: impl AsRef<OsStr>, read: impl FnOnce() -> T) -> T {
    match Facts::active() {
        Some(facts) => facts.answer(question, subject.as_ref(), read),
        None => read(),
    }
}

/// Returns a unique text for a subject.
fn key(subject: &OsStr) -> String {
    match subject.to_str() {
        Some(text) => text.to_owned(),
        None => bytes_of(subject).escape_ascii().to_string(),
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
