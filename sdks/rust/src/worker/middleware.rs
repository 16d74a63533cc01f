//! Code that runs around every handler.

use std::sync::Arc;

use super::shared::{Handle, Handled};
use crate::context::Context;
use crate::fail::Fail;

pub(super) type Middleware = dyn Fn(Context, Next) -> Handled + Send + Sync;

/// What a middleware calls: the next middleware, or the handler.
pub struct Next {
    around: Arc<[Box<Middleware>]>,
    /// How many of them have been called.
    called: usize,
    handle: Arc<Handle>,
}

impl Next {
    /// Runs what comes next.
    pub async fn run(mut self, context: Context) -> Result<(), Fail> {
        let around = self.around.clone();
        match around.get(self.called) {
            Some(around) => {
                self.called += 1;
                around(context, self).await
            }
            None => (self.handle)(context).await,
        }
    }
}

/// Returns a handler that runs the middleware and then the handler.
pub(super) fn wrap(around: &Arc<[Box<Middleware>]>, handle: Arc<Handle>) -> Arc<Handle> {
    if around.is_empty() {
        return handle;
    }
    let around = around.clone();
    Arc::new(move |context| {
        let next = Next { around: around.clone(), called: 0, handle: handle.clone() };
        Box::pin(next.run(context))
    })
}
