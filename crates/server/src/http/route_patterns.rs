//! The pattern of the route that a path belongs to. The router does not say it, because storing it
//! would cost every request an allocation.

/// The patterns of all routes, such as `/v1/topics/{topic}`.
pub(super) struct RoutePatterns(Vec<String>);

/// A path and the route it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MatchedRoute<'a> {
    pub(super) pattern: &'a str,
    /// The part of the path that stands for `{topic}`.
    pub(super) topic: Option<&'a str>,
    /// The part of the path that stands for `{group}`.
    pub(super) group: Option<&'a str>,
}

impl RoutePatterns {
    pub(super) fn new(mut patterns: Vec<String>) -> RoutePatterns {
        // A route without parameters precedes those that would accept its path too.
        patterns.sort_by_key(|pattern| pattern.matches('{').count());
        patterns.dedup();
        RoutePatterns(patterns)
    }

    pub(super) fn route_of<'a>(&'a self, path: &'a str) -> Option<MatchedRoute<'a>> {
        self.0.iter().find_map(|pattern| matched(pattern, path))
    }
}

fn matched<'a>(pattern: &'a str, path: &'a str) -> Option<MatchedRoute<'a>> {
    let mut route = MatchedRoute { pattern, topic: None, group: None };
    let (mut parts, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), given.next()) {
            (None, None) => return Some(route),
            (Some("{topic}"), Some(name)) if !name.is_empty() => route.topic = Some(name),
            (Some("{group}"), Some(name)) if !name.is_empty() => route.group = Some(name),
            (Some(part), Some(name)) if part.starts_with('{') && !name.is_empty() => {}
            (Some(part), Some(name)) if part == name => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_one_route() {
        let all = ["/v1/topics/{topic}/groups/{group}", "/v1/topics/{topic}", "/v1/topics/all"];
        let patterns = RoutePatterns::new(all.map(str::to_owned).to_vec());
        let route = |path| patterns.route_of(path).map(|route| route.pattern);
        assert_eq!(route("/v1/topics/all"), Some("/v1/topics/all"));
        assert_eq!(route("/v1/topics/orders"), Some("/v1/topics/{topic}"));
        assert_eq!(route("/v1/topics/"), None);
        assert_eq!(route("/v1/topics"), None);
        assert_eq!(route("/v1/topics/orders/groups"), None);
        let names = patterns.route_of("/v1/topics/orders/groups/biller").expect("a route");
        assert_eq!((names.topic, names.group), (Some("orders"), Some("biller")));
    }
}
