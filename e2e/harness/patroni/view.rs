//! Patroni's view of its nodes.

use serde::Deserialize;

/// The response of `GET /cluster`.
#[derive(Debug, Deserialize)]
pub(super) struct View {
    pub(super) members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) state: String,
    pub(super) timeline: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Leader,
    SyncStandby,
    Replica,
}

impl View {
    pub(super) fn find(&self, role: Role) -> Option<&Member> {
        self.members.iter().find(|member| member.role == role)
    }

    /// Whether these nodes follow one primary, on its timeline.
    pub(super) fn is_consistent<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        let Some(timeline) = self.find(Role::Leader).and_then(|leader| leader.timeline) else {
            return false;
        };
        names.all(|name| {
            let mut found = self.members.iter().filter(|member| member.name == name);
            // The state of a standby that streams depends on the Patroni version.
            found.any(|member| {
                matches!(member.state.as_str(), "running" | "streaming")
                    && member.timeline == Some(timeline)
            })
        })
    }
}
