//! What the server can do.

use crate::error::Error;
use crate::http::Client;
use crate::retry::Call;

impl Client {
    /// Whether the server has a feature, by its name in `GET /v1/version`.
    pub(crate) async fn supports(&self, feature: &str) -> Result<bool, Error> {
        let ask = async || {
            let timeout = self.timeout();
            let call = Call { path: "version", body: None, is_repeatable: true, timeout };
            let body = call.send(self).await?;
            let features = body["features"].as_array().into_iter().flatten();
            Ok(features.filter_map(|feature| Some(feature.as_str()?.to_owned())).collect())
        };
        let features: &Vec<String> = self.features.get_or_try_init(ask).await?;
        Ok(features.iter().any(|of| of == feature))
    }
}
