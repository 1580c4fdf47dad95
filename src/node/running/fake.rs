//! A running node for tests: it sends nothing, and keeps what it should have sent.

use super::*;
use crate::settings::{Lookup, ProgramSettings};
use pslite_core::wire::{Node, Role, SCHEDULER};

/// The settings of a node of a job of one worker and two servers. `more` are variables of the
/// environment.
pub(crate) fn settings(role: &str, more: &[(&str, &str)]) -> Settings {
    let mut variables = BTreeMap::from([
        ("DMLC_ROLE".to_owned(), role.to_owned()),
        ("DMLC_NUM_WORKER".to_owned(), "1".to_owned()),
        ("DMLC_NUM_SERVER".to_owned(), "2".to_owned()),
        ("DMLC_PS_ROOT_URI".to_owned(), "127.0.0.1".to_owned()),
        ("DMLC_PS_ROOT_PORT".to_owned(), "9091".to_owned()),
    ]);
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let lookup: Lookup = Arc::new(move |name| variables.get(name).cloned());
    Settings::read(&lookup, &ProgramSettings::default()).unwrap()
}

/// The scheduler of a job that nobody has joined yet.
pub(crate) fn scheduler() -> Node {
    Node {
        role: Role::Scheduler,
        id: SCHEDULER,
        customer_id: 0,
        hostname: "127.0.0.1".to_owned(),
        port: 9091,
        is_recovery: false,
        abilities: 0,
        incarnation: 1,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    }
}

/// See the module.
pub(crate) struct FakeNode {
    state: NodeState,
    training: Training,
    /// What customers sent.
    pub(crate) sent: Mutex<Vec<Message>>,
    /// Who is lost: nothing can be sent there.
    pub(crate) lost: Mutex<Vec<NodeId>>,
    /// Why the job is over, if it is.
    pub(crate) failure: Mutex<Option<NodeError>>,
    /// What the membership was told.
    pub(crate) events: Mutex<Vec<Event>>,
    /// What happens elsewhere while a message is sent, once.
    pub(crate) meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl FakeNode {
    pub(crate) fn new(role: &str, id: NodeId) -> Arc<Self> {
        Self::with(role, id, &[])
    }

    /// `more` are variables of the environment.
    pub(crate) fn with(role: &str, id: NodeId, more: &[(&str, &str)]) -> Arc<Self> {
        Arc::new(Self {
            state: NodeState::new(settings(role, more), id),
            training: Training::default(),
            sent: Mutex::default(),
            lost: Mutex::default(),
            failure: Mutex::default(),
            events: Mutex::default(),
            meanwhile: Mutex::default(),
        })
    }

    /// A slot with this node.
    pub(crate) fn slot(self: &Arc<Self>) -> NodeSlot {
        let node: NodeRef = Arc::clone(self) as _;
        Arc::new(RwLock::new(Some(node)))
    }

    /// What was sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<Message> {
        std::mem::take(&mut lock(&self.sent))
    }
}

impl RunningNode for FakeNode {
    fn state(&self) -> &NodeState {
        &self.state
    }

    fn send(&self, message: Message) -> Result<()> {
        let meanwhile = lock(&self.meanwhile).take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let to = message.meta.recver;
        if lock(&self.lost).contains(&to) {
            return Err(NodeError::PeerLost(format!("node {to} is lost")));
        }
        lock(&self.sent).push(message);
        Ok(())
    }

    fn event(&self, event: Event) {
        lock(&self.events).push(event);
    }

    /// It has no membership: who asks gets nothing.
    fn read_cluster(&self, _: &mut dyn FnMut(&Cluster, Duration)) {}

    fn failure(&self) -> Option<NodeError> {
        lock(&self.failure).clone()
    }

    fn native(&self) -> Option<&NativeTransport> {
        None
    }

    fn training(&self) -> &Training {
        &self.training
    }

    fn sort(&self, _: NativeIncoming) -> Option<AtOnce> {
        None
    }
}
