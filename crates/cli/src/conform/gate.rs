//! Gates: each holds one request at an exact point until the check decides how it continues.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::http::Call;

/// The request that a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Begin,
    Finish,
    /// An ack, alone, in a list of settlements or in a commit.
    Ack,
    Charge,
}

/// Whether the request is held before it takes effect, or its response after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Request,
    Response,
}

/// How a held request continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    Pass,
    /// The connection is closed without a response.
    Close,
}

/// One held request, from the view of the check. A gate that is dropped lets its request pass.
pub(super) struct Gate {
    pub(super) arrived: oneshot::Receiver<Call>,
    resume: oneshot::Sender<Resume>,
}

impl Gate {
    pub(super) fn resume(self, resume: Resume) {
        // The client may be gone.
        let _unheard = self.resume.send(resume);
    }
}

struct Armed {
    point: Point,
    phase: Phase,
    arrived: oneshot::Sender<Call>,
    resume: oneshot::Receiver<Resume>,
}

/// The gates that no request has met yet.
#[derive(Default)]
pub(super) struct Gates(Mutex<Vec<Armed>>);

impl Gates {
    /// Holds the next request of this kind.
    pub(super) fn arm(&self, point: Point, phase: Phase) -> Gate {
        let ((sends, arrived), (resume, resumed)) = (oneshot::channel(), oneshot::channel());
        let armed = Armed { point, phase, arrived: sends, resume: resumed };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(armed);
        Gate { arrived, resume }
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits at the first gate for one of these points.
    pub(super) async fn meet(&self, points: &[Point], phase: Phase, call: &Call) -> Resume {
        let armed = {
            let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut gates_here = gates.iter();
            let at =
                gates_here.position(|gate| gate.phase == phase && points.contains(&gate.point));
            at.map(|at| gates.remove(at))
        };
        let Some(Armed { arrived, resume, .. }) = armed else { return Resume::Pass };
        // A check that has ended waits for nothing.
        let _unheard = arrived.send(call.clone());
        resume.await.unwrap_or(Resume::Pass)
    }
}
