//! Work in libuv's pool.
//!
//! Invariant: work owns what it needs, and the thread of JavaScript only adds its result.

use napi::bindgen_prelude::{AsyncTask, Buffer, Either5, Undefined};
use napi::{Env, Task};

use crate::errors::caught;
use crate::objects::{Object, with};

/// What work returns.
pub enum Answer {
    /// Nothing.
    Nothing,
    /// A yes or no.
    Truth(bool),
    /// A number.
    Number(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Texts.
    Texts(Vec<String>),
    /// An object. JavaScript gets its number.
    Object(Object),
}

/// An answer in JavaScript.
pub type JsAnswer = Either5<Undefined, bool, f64, Buffer, Vec<String>>;

impl Answer {
    /// Converts the answer, in the thread of JavaScript.
    pub fn into_js(self) -> napi::Result<JsAnswer> {
        Ok(match self {
            Answer::Nothing => Either5::A(()),
            Answer::Truth(truth) => Either5::B(truth),
            Answer::Number(number) => Either5::C(number),
            Answer::Bytes(bytes) => Either5::D(bytes.into()),
            Answer::Texts(texts) => Either5::E(texts),
            Answer::Object(object) => Either5::C(f64::from(with(|shared| Ok(shared.add(object)))?)),
        })
    }
}

type Job = Box<dyn FnOnce() -> esker::Result<Answer> + Send>;

/// Work that has not begun.
pub struct Work(Option<Job>);

impl Task for Work {
    type Output = Answer;
    type JsValue = JsAnswer;

    fn compute(&mut self) -> napi::Result<Answer> {
        let job = self.0.take();
        job.map_or(Ok(Answer::Nothing), caught)
    }

    fn resolve(&mut self, _env: Env, answer: Answer) -> napi::Result<JsAnswer> {
        answer.into_js()
    }
}

/// Runs `job` in libuv's pool. Returns a promise.
pub fn later(job: impl FnOnce() -> esker::Result<Answer> + Send + 'static) -> AsyncTask<Work> {
    AsyncTask::new(Work(Some(Box::new(job))))
}
