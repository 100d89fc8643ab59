//! Records the answers about a system, or gives answers that were recorded.

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
    /// Whether an answer is being found. What that reads is not recorded: the answer is.
    static IS_ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// Facts about a system: the answers to questions. A clone is the same value.
///
/// A question without an answer means that there is nothing: no such file, no such variable. Recorded facts thus list what
/// exists, and facts that somebody writes for a test are short.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The answers by question and by its subject.
    answers: Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>,
    /// Whether these are all the facts there are, so that the system is not asked.
    is_complete: bool,
    /// The questions that recorded facts were asked.
    asked: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// A type that can be the answer to a question.
pub trait Answer: Portable {
    /// Returns the answer to a question about nothing.
    fn nothing() -> Self;
}

impl Facts {
    /// Returns empty facts. Within them, all answers come from this system, and are recorded.
    #[must_use]
    pub fn recorder() -> Facts {
        Facts::default()
    }

    /// Returns recorded facts. Within them, nothing is read from this system.
    ///
    /// # Errors
    /// The value is no object of objects.
    pub fn from_value(value: Value) -> Result<Facts, serde_json::Error> {
        let answers = serde_json::from_value(value)?;
        Ok(Facts { answers: Arc::new(Mutex::new(answers)), is_complete: true, asked: Arc::default() })
    }

    /// Returns all answers, by question and by its subject.
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

    /// Runs a function whose questions these facts answer or record.
    pub fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        /// Restores the facts that were active before, even if the function panics.
        struct Restore(Option<Facts>);
        impl Drop for Restore {
            fn drop(&mut self) {
                ACTIVE.set(self.0.take());
            }
        }
        let _restore = Restore(ACTIVE.replace(Some(self.clone())));
        run()
    }

    /// Returns the facts of this thread, for a thread that it starts. `None` if the system answers, also while an answer is
    /// being found.
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
        /// Ends the answer, even if the function panics.
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

/// Returns whether questions are answered by facts, or recorded.
#[must_use]
pub fn is_active() -> bool {
    Facts::active().is_some()
}

/// Returns whether saved facts answer, so that nothing is read from this system.
#[must_use]
pub fn are_saved() -> bool {
    Facts::active().is_some_and(|facts| facts.is_complete)
}

/// Answers a question about something: from the system, or from saved facts.
pub fn ask<T: Answer>(question: &'static str, subject: impl AsRef<OsStr>, read: impl FnOnce() -> T) -> T {
    match Facts::active() {
        Some(facts) => facts.answer(question, subject.as_ref(), read),
        None => read(),
    }
}

/// Returns a text for a subject. Texts of different subjects differ.
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
        // The number is that of a missing file on all systems.
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
