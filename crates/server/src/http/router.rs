//! The routes of the API.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::MethodRouter;
use tower::Service as _;
use utoipa::openapi::HttpMethod;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::{PathItemExt, routes};

use super::api_error::no_route;
use super::app::App;
use super::guard::Guard;
use super::route_patterns::RoutePatterns;
use super::{
    audit, clock, cluster, commit, consume, dead_letter, dev_clock, dlq, effects, explain, groups,
    health, internal, overview, peek, pointers, produce, receive, repair, route_test, series,
    settle, topics,
};

/// Defines the router and the OpenAPI description from one list of handlers. A server needs only the router. The
/// description is code for every schema, so a program that does not call `described` is 1.6 MB smaller.
macro_rules! served {
    ($($module:ident :: $handler:ident),+ $(,)?) => {
        fn routes() -> Router<App> {
            let router = Router::new();
            $(let router = {
                let methods = routes!(@path [methods()] of $module::$handler);
                let path = routes!(@path [path()] of $module::$handler);
                let add = |route: MethodRouter<App>, method: &HttpMethod| {
                    route.on(method.to_method_filter(), $module::$handler)
                };
                router.route(&path, methods.iter().fold(MethodRouter::new(), add))
            };)+
            router
        }

        fn paths() -> Vec<String> {
            vec![$(routes!(@path [path()] of $module::$handler)),+]
        }

        /// All routes, with their OpenAPI descriptions.
        pub(super) fn described() -> OpenApiRouter<App> {
            OpenApiRouter::new()$(.routes(routes!($module::$handler)))+
        }
    };
}

served! {
    health::alive,
    health::ready,
    health::version,
    health::openapi,
    topics::list,
    topics::create,
    topics::show,
    topics::patch,
    topics::delete,
    repair::repair,
    peek::messages,
    groups::list,
    groups::show,
    groups::create,
    groups::delete,
    groups::pause,
    groups::resume,
    groups::seek,
    produce::one,
    produce::batch,
    route_test::test,
    consume::by_query,
    consume::by_body,
    receive::receive,
    receive::leave,
    settle::ack,
    settle::nack,
    settle::extend,
    settle::many,
    dlq::list,
    dead_letter::show,
    dlq::redrive,
    dlq::purge,
    explain::explain,
    overview::overview,
    overview::groups,
    series::series,
    commit::commit,
    pointers::pointers,
    effects::begin,
    effects::finish,
    effects::reacquire,
    effects::extend,
    effects::resolve,
    effects::look,
    audit::chains,
    audit::records,
    audit::acts,
    clock::confirm,
    cluster::nodes,
    cluster::drain,
    cluster::undrain,
    cluster::shards,
    cluster::put,
    health::metrics,
    health::metrics_v1,
}

static PATTERNS: LazyLock<RoutePatterns> = LazyLock::new(|| {
    let between_nodes = internal::PATHS.iter().map(|path| (*path).to_owned());
    RoutePatterns::new(paths().into_iter().chain(between_nodes).collect())
});

/// The routes of a listener.
#[derive(Clone)]
pub(crate) struct ListenerRoutes {
    router: Router,
    guard: Option<Guard>,
}

impl ListenerRoutes {
    /// All routes.
    pub(crate) fn all(app: App) -> ListenerRoutes {
        let router = routes()
            .merge(internal::router(&app))
            .merge(dev_clock::routes(&app))
            .fallback(async || no_route());
        let router = router.with_state(app.clone());
        ListenerRoutes { router, guard: Some(Guard { app, patterns: &PATTERNS }) }
    }

    /// The route of a listener for metrics alone. It needs no key.
    pub(crate) fn metrics(app: App) -> ListenerRoutes {
        let router = Router::new().route("/metrics", axum::routing::get(health::metrics_alone));
        ListenerRoutes { router: router.fallback(async || no_route()).with_state(app), guard: None }
    }

    pub(super) async fn answer(self, request: Request) -> Response {
        let ListenerRoutes { mut router, guard } = self;
        match guard {
            Some(guard) => guard.answer(router, request).await,
            None => match router.call(request).await {
                Ok(response) => response,
            },
        }
    }
}
