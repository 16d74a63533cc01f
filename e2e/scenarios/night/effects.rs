//! A worker dies between `begin` and `finish`.

use anyhow::ensure;
use serde_json::json;

use crate::Night;
use crate::rig::{Rig, Row};

pub(crate) async fn in_doubt(night: &Night) -> anyhow::Result<Vec<Row>> {
    let retry = json!({ "max_attempts": 20, "backoff_ms": 0, "max_backoff_ms": 0 });
    let settings = json!({ "lease_ms": 1_000, "retry_policy": retry });
    let rig = Rig::start(night, settings).await?;
    let section = rig.operator.section_before("Effects in doubt").await?;
    rig.produce(1).await?;
    let begin = async |owner: &str| -> anyhow::Result<u16> {
        let delivery = rig.receive(owner).await?;
        let begin = json!({ "lease_token": delivery["lease"]["token"], "on_doubt": "park" });
        Ok(rig.api.post("effects/begin", &begin).await?.status)
    };
    ensure!(begin("worker-1").await? == 200, "the effect begins");
    // The first worker is dead. Its message is delivered to another one.
    ensure!(begin("worker-2").await? == 409, "the effect is in doubt");
    let row = rig.operator.answer_alert(section, "lease_expired").await?;
    let resolve = "driftq effect resolve effect/orders/biller order-0 --fence 1 --as succeeded \
                   --result '{\"charge\":\"ch_1\"}' --by eva --reason 'provider lists ch_1' --yes";
    rig.operator.run(resolve).await?;
    Ok(vec![rig.operator.await_end(row).await?])
}
