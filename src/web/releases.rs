//! What people ask to have released: from the proxy's page into the node's queue.

use std::path::Path;
use std::sync::Arc;

use gauntlet_gateway::Node;
use gauntlet_proxy::releases::Releases;
use gauntlet_store::web_releases::AskOutcome;
use gauntlet_store::{StoreError, WebReleases};
use gauntlet_web::WebRecord;
use gauntlet_web::release::{ReleaseRequest, WebExceptions};

/// The queue of a node.
pub(super) struct NodeReleases {
    store: Arc<WebReleases>,
    node: Arc<Node>,
}

impl NodeReleases {
    /// Opens the queue in this folder.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(folder: &Path, node: Arc<Node>) -> Result<Self, StoreError> {
        Ok(NodeReleases { store: Arc::new(WebReleases::open(folder)?), node })
    }

    /// What the console shows and decides.
    pub(super) fn store(&self) -> Arc<WebReleases> {
        Arc::clone(&self.store)
    }
}

impl Releases for NodeReleases {
    fn exceptions(&self) -> Arc<WebExceptions> {
        self.store.exceptions()
    }

    fn ask(&self, request: ReleaseRequest) -> bool {
        let request = masked(request, &self.node);
        let (reference, rule) = (&request.reference, &request.rule);
        match self.store.ask(&request) {
            Ok(AskOutcome::New(number)) => {
                tracing::info!(number, reference, rule, "release of a web page is asked for");
                true
            }
            Ok(AskOutcome::Known(_)) => true,
            Ok(AskOutcome::Full) => {
                tracing::warn!(reference, "a request for release was refused: too many wait");
                false
            }
            Err(error) => {
                tracing::error!(%error, reference, "a request for release is lost");
                false
            }
        }
    }
}

/// Without what the web log would not keep, either.
fn masked(request: ReleaseRequest, node: &Node) -> ReleaseRequest {
    let ReleaseRequest { client, user, url, .. } = request.clone();
    let mut record = WebRecord { client, user, url, ..WebRecord::default() };
    node.config().web.mask(&mut record);
    ReleaseRequest { client: record.client, user: record.user, url: record.url, ..request }
}
