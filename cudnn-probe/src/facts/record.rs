//! Records answers about a system and replays them later.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::portable::{self, Portable};
use super::subject::Subject;

thread_local! {
    /// The facts that answer questions in this thread. None while an answer is being computed, because nested questions
    /// are not recorded separately.
    static ACTIVE: RefCell<Option<Facts>> = const { RefCell::new(None) };
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
pub struct Facts(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The known answers, also those about missing subjects.
    answers: Mutex<Answers>,
    source: Source,
}

/// What answers a question without a known answer.
#[derive(Debug, Default)]
enum Source {
    #[default]
    System,
    /// The subject does not exist, because the facts are complete.
    Nothing,
    /// Other facts, with these changes.
    Changed(Facts, Arc<dyn Change>),
}

/// Changes to a system that have not been made. The active facts of each call are those before the changes.
pub(super) trait Change: fmt::Debug + Send + Sync {
    /// Returns how the changes affect a question.
    fn answer(&self, question: &str, subject: &Subject<'_>) -> Changed;
}

/// How changes affect a question.
pub(super) enum Changed {
    /// The answer is the same as before.
    Unaffected,
    /// The subject is missing now, or a new file without this answer.
    Affected,
    /// The subject is a directory with changed files.
    Within,
    Answer(Arc<dyn Recorded>),
}

/// The type of an answer that can be recorded.
///
/// It is implemented for types that can express that the subject of a question does not exist: [`Option`], collections,
/// `bool`, [`String`], and results whose error is an [`io::Error`] or a [`ProbeError`](crate::ProbeError).
pub trait Answer: Portable {
    /// Returns the answer for a subject that does not exist.
    fn nothing() -> Self;

    /// Returns the same answer again, because an [`io::Error`] cannot be cloned.
    fn copy(&self) -> Self;
}

/// An answer of any type. It is serialized only to be saved.
pub(super) trait Recorded: Any + Send + Sync {
    /// Returns the serialized answer. Returns `None` if it says that the subject does not exist, which is not saved.
    fn saved(&self) -> Option<Value>;
}

impl<T: Answer> Recorded for T {
    fn saved(&self) -> Option<Value> {
        let saved = written(self);
        (saved != written(&T::nothing())).then_some(saved)
    }
}

impl fmt::Debug for dyn Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.saved().fmt(f)
    }
}

/// Answers by question and subject.
pub(super) type Answers = BTreeMap<String, BTreeMap<String, Arc<dyn Recorded>>>;

/// Returns the serialized form of an answer.
fn written<T: Portable>(answer: &T) -> Value {
    answer.serialize(serde_json::value::Serializer).unwrap_or_default()
}

pub(super) fn recorded<T: Answer>(answer: T) -> Arc<dyn Recorded> {
    Arc::new(answer)
}

/// Returns an answer if it has this type, or can be deserialized as this type. A saved answer is replaced by its value.
fn typed<T: Answer>(answer: &mut Arc<dyn Recorded>) -> Option<Arc<T>> {
    let any: &dyn Any = &**answer;
    if let Some(saved) = any.downcast_ref::<Value>() {
        *answer = Arc::new(T::deserialize(saved).ok()?);
    }
    let any: Arc<dyn Any + Send + Sync> = answer.clone();
    any.downcast().ok()
}

impl Facts {
    /// Creates empty facts. Within them, all questions are answered by this system, each once, and the answers are
    /// recorded.
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
        let saved: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_value(value)?;
        let answers = saved.into_iter().map(|(question, answers)| {
            (question, answers.into_iter().map(|(subject, answer)| (subject, recorded(answer))).collect())
        });
        Ok(Facts::new(answers.collect(), Source::Nothing))
    }

    /// Returns the same facts with these changes.
    pub(super) fn with_changes(&self, changes: Arc<dyn Change>) -> Facts {
        Facts::new(Answers::default(), Source::Changed(self.clone(), changes))
    }

    fn new(answers: Answers, source: Source) -> Facts {
        Facts(Arc::new(Inner { answers: Mutex::new(answers), source }))
    }

    /// Returns the recorded answers as an object that contains an object of subjects and answers for each question.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let saved = |answers: &BTreeMap<String, Arc<dyn Recorded>>| -> Value {
            answers.iter().filter_map(|(subject, answer)| Some((subject.clone(), answer.saved()?))).collect()
        };
        self.answers().iter().map(|(question, answers)| (question.clone(), saved(answers))).collect()
    }

    /// Runs a function within these facts: they answer all questions that it asks in this thread. Other threads need a
    /// call of their own, see [`active`](Facts::active).
    pub fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        with_active(Some(self.clone()), run)
    }

    /// Returns the facts that answer questions in this thread, for use in a new thread. Returns `None` if answers come
    /// directly from the system, or while an answer is being computed.
    #[must_use]
    pub fn active() -> Option<Facts> {
        ACTIVE.with_borrow(Clone::clone)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known<T: Answer>(&self, question: &str, key: &str) -> Option<Arc<T>> {
        self.answers().get_mut(question)?.get_mut(key).and_then(typed)
    }

    fn answer<T: Answer>(
        &self,
        question: &'static str,
        subject: &Subject<'_>,
        is_enough: &dyn Fn(&T) -> bool,
        read: impl FnOnce() -> T,
        reader: Reader,
    ) -> Arc<T> {
        let key = subject.key();
        let is_final = matches!(self.0.source, Source::Nothing);
        if let Some(known) = self.known(question, &key).filter(|known| is_final || is_enough(known)) {
            return known;
        }
        let answer = match &self.0.source {
            Source::Nothing => Arc::new(T::nothing()),
            Source::System => Arc::new(with_active(None, read)),
            Source::Changed(before, _) if reader == Reader::Program => match &before.0.source {
                Source::Changed(..) => before.answer(question, subject, is_enough, read, reader),
                _ => before.known(question, &key).unwrap_or_else(|| Arc::new(T::nothing())),
            },
            Source::Changed(before, changes) => match before.within(|| changes.answer(question, subject)) {
                Changed::Affected | Changed::Within if reader == Reader::Derived => Arc::new(self.within(read)),
                Changed::Unaffected | Changed::Within => before.answer(question, subject, is_enough, read, reader),
                Changed::Affected => Arc::new(T::nothing()),
                Changed::Answer(mut answer) => typed(&mut answer).unwrap_or_else(|| Arc::new(T::nothing())),
            },
        };
        let mut answers = self.answers();
        let answers = answers.entry(question.to_owned()).or_default();
        // Another thread may have found more in the meantime.
        let known = answers.get_mut(&*key).and_then(typed).filter(|known| is_enough(known));
        known.unwrap_or_else(|| {
            answers.insert(key.into_owned(), Arc::<T>::clone(&answer));
            answer
        })
    }
}

/// Runs a function while these facts answer the questions in this thread.
fn with_active<T>(facts: Option<Facts>, run: impl FnOnce() -> T) -> T {
    /// Restores the previously active facts, even after a panic.
    struct Restore(Option<Facts>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0.take());
        }
    }
    let _restore = Restore(ACTIVE.replace(facts));
    run()
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
        Some(facts) => facts.answer(question, &subject.into(), is_enough, read, reader).copy(),
        None => read(),
    }
}

impl<T: Portable + Clone> Answer for io::Result<T> {
    fn nothing() -> Self {
        // 2 is the number of a missing file on all systems.
        Err(io::Error::from_raw_os_error(2))
    }

    fn copy(&self) -> Self {
        match self {
            Ok(answer) => Ok(answer.clone()),
            Err(error) => Err(portable::copied(error)),
        }
    }
}

/// Implements [`Answer`] for types whose default says that the subject does not exist.
macro_rules! answers {
    ($([$($parameters:tt)*] $answer:ty),* $(,)?) => {
        $(impl<$($parameters)*> Answer for $answer {
            fn nothing() -> Self {
                Self::default()
            }

            fn copy(&self) -> Self {
                self.clone()
            }
        })*
    };
}

// A value is a saved answer before its type is known.
answers!(
    [] bool,
    [] String,
    [] Value,
    [T: Portable + Clone] Option<T>,
    [T: Portable + Clone] Vec<T>,
    [T: Portable + Clone + Ord] BTreeSet<T>,
);
