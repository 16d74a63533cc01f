//! A state that was arranged, and its explanations.

use crate::cause::Truth;

/// A state that was arranged.
pub(crate) struct State {
    pub(crate) name: &'static str,
    pub(crate) truth: Truth,
    pub(crate) explanations: Vec<String>,
}
