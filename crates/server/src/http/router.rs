//! The routes of the API.

use axum::Router;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::no_route;
use super::app::App;
use super::{
    audit, clock, cluster, commit, consume, dlq, effects, explain, groups, guard, health, internal,
    peek, pointers, produce, receive, repair, settle, topics,
};

/// All routes, with their OpenAPI descriptions.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::version))
        .routes(routes!(topics::list, topics::create))
        .routes(routes!(topics::show, topics::patch, topics::delete))
        .routes(routes!(repair::repair))
        .routes(routes!(peek::messages))
        .routes(routes!(groups::list))
        .routes(routes!(groups::show, groups::create, groups::delete))
        .routes(routes!(groups::pause))
        .routes(routes!(groups::resume))
        .routes(routes!(groups::seek))
        .routes(routes!(produce::one))
        .routes(routes!(produce::batch))
        .routes(routes!(consume::by_query, consume::by_body))
        .routes(routes!(receive::receive))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::extend))
        .routes(routes!(settle::many))
        .routes(routes!(dlq::list))
        .routes(routes!(dlq::redrive))
        .routes(routes!(dlq::purge))
        .routes(routes!(explain::explain))
        .routes(routes!(commit::commit))
        .routes(routes!(pointers::pointers))
        .routes(routes!(effects::begin))
        .routes(routes!(effects::finish))
        .routes(routes!(effects::reacquire))
        .routes(routes!(effects::extend))
        .routes(routes!(effects::resolve))
        .routes(routes!(effects::look))
        .routes(routes!(audit::chains))
        .routes(routes!(audit::records))
        .routes(routes!(clock::confirm))
        .routes(routes!(cluster::nodes))
        .routes(routes!(cluster::drain))
        .routes(routes!(cluster::undrain))
        .routes(routes!(cluster::shards))
        .routes(routes!(cluster::put))
        .routes(routes!(health::metrics))
}

/// All routes with their middleware.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .merge(internal::router(&app))
        .fallback(|| async { no_route() })
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(guard::panicked))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
