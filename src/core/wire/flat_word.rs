//! Words as they are in bytes: a protobuf message with the fields of all kinds, which is made from
//! a [`Word`] and becomes one, and is seen by nobody else. Which fields a kind has is said by the
//! two conversions.

use bytes::Bytes;

use super::chronicle::ChronicleQuestion;
use super::elastic::{Claim, CopyPlace, KeyRoute, LiveWorker, Order, StalledRound};
use super::exchange::ExchangeSpec;
use super::ids::{EMPTY, Key, NodeId};
use super::topic::{ProbeRequest, Topic};
use super::trees::Overlay;
use super::word::{AnswerWay, ClaimWord, Difference, OperatorAnswer, Policy, RoutedPolicy, Word};

/// Kinds of words from here on are topics of later versions.
const LATER: i32 = 64;

/// The `number` of an operator's word: it reads the answer from the connection by which it asks.
const OWN_CONNECTION: u64 = 1;

/// What a word says: [`Word`] has the meanings. New ones have numbers below [`LATER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum WordKind {
    Unknown = 0,
    Policy = 1,
    Collect = 2,
    Claims = 3,
    Orders = 4,
    Leave = 5,
    Drain = 6,
    Status = 7,
    Told = 8,
    /// Of the topic `Measure` if there is a `report`.
    Report = 9,
    Probe = 10,
    Stop = 11,
    /// The topic `Batches`.
    Balance = 12,
    Routes = 13,
    Overlay = 14,
    Exchange = 15,
    /// The topic `Counters`.
    Counters = 16,
    /// The topic `Stall`.
    Stalled = 20,
    GivesUp = 40,
    Save = 41,
}

/// Extension 102 of `PBControl`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct FlatWord {
    #[prost(enumeration = "WordKind", tag = "1")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(super) epoch: u64,
    #[prost(int32, repeated, tag = "3")]
    pub(super) servers: Vec<NodeId>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) homes: Vec<NodeId>,
    #[prost(message, repeated, tag = "5")]
    pub(super) routes: Vec<KeyRoute>,
    #[prost(int32, repeated, tag = "6")]
    pub(super) lost: Vec<NodeId>,
    #[prost(message, repeated, tag = "7")]
    pub(super) claims: Vec<Claim>,
    #[prost(message, repeated, tag = "8")]
    pub(super) moves: Vec<Order>,
    /// `Drain`: the server. `Probe`: who measures the link. `Told`: 0, or it is refused.
    #[prost(int32, tag = "9")]
    pub(super) node: NodeId,
    /// `Claims`: why they do not move. `Drain` and `Status`: where the operator listens.
    #[prost(string, tag = "10")]
    pub(super) text: String,
    #[prost(bytes = "bytes", tag = "11")]
    pub(super) report: Bytes,
    #[prost(uint32, tag = "12")]
    pub(super) replicas: u32,
    #[prost(int32, repeated, tag = "13")]
    pub(super) draining: Vec<NodeId>,
    #[prost(uint32, tag = "14")]
    pub(super) workers: u32,
    #[prost(int32, repeated, tag = "15")]
    pub(super) released: Vec<NodeId>,
    #[prost(message, repeated, tag = "16")]
    pub(super) copies: Vec<CopyPlace>,
    #[prost(message, repeated, tag = "17")]
    pub(super) live: Vec<LiveWorker>,
    #[prost(bool, tag = "18")]
    pub(super) opaque: bool,
    /// `Claims`: which one. `Drain`, `Status` and `Save`: [`OWN_CONNECTION`], or another number.
    /// `GivesUp`: the incarnation.
    #[prost(uint64, tag = "19")]
    pub(super) number: u64,
    #[prost(uint64, tag = "20")]
    pub(super) since: u64,
    #[prost(uint64, repeated, tag = "21")]
    pub(super) gone: Vec<Key>,
    #[prost(message, optional, tag = "30")]
    pub(super) stalled: Option<StalledRound>,
    /// Of a topic that has no field of its own, and of `Save` and its answer.
    #[prost(bytes = "bytes", tag = "31")]
    pub(super) told: Bytes,
    #[prost(message, optional, tag = "32")]
    pub(super) overlay: Option<Overlay>,
    #[prost(message, optional, tag = "33")]
    pub(super) exchange: Option<ExchangeSpec>,
    /// Of `Status`.
    #[prost(message, optional, tag = "34")]
    pub(super) chronicle: Option<ChronicleQuestion>,
}

impl From<FlatWord> for Word {
    /// Fields that the kind does not have are left out.
    fn from(flat: FlatWord) -> Self {
        let FlatWord { epoch, node, text, told, .. } = flat;
        let way = |number: u64, listens_at: String| AnswerWay {
            own_connection: number == OWN_CONNECTION,
            listens_at,
        };
        match WordKind::try_from(flat.kind) {
            Ok(WordKind::Unknown) => Self::Unknown,
            Ok(WordKind::Policy) => {
                let policy = Policy {
                    epoch,
                    servers: flat.servers,
                    draining: flat.draining,
                    homes: flat.homes,
                    lost: flat.lost,
                    released: flat.released,
                    replicas: flat.replicas,
                    workers: flat.workers,
                    copies: flat.copies,
                    live: flat.live,
                    exchange: flat.exchange,
                };
                Self::Policy { policy: RoutedPolicy { policy, routes: flat.routes }, text }
            }
            Ok(WordKind::Collect) => Self::Collect { epoch, lost: flat.lost, text },
            Ok(WordKind::Claims) => {
                let FlatWord { claims, number, since, gone, opaque, .. } = flat;
                let difference = Difference { number, since, gone };
                let fixed = (!text.is_empty()).then_some(text);
                Self::Claims(ClaimWord { epoch, claims, difference, fixed, opaque })
            }
            Ok(WordKind::Orders) => Self::Orders { epoch, moves: flat.moves },
            Ok(WordKind::Leave) => Self::Leave { epoch },
            Ok(WordKind::Drain) => Self::Drain { server: node, way: way(flat.number, text) },
            Ok(WordKind::Status) => {
                Self::Status { way: way(flat.number, text), chronicle: flat.chronicle }
            }
            Ok(WordKind::Told) if node == 0 => Self::Told(Ok(OperatorAnswer { text, told })),
            Ok(WordKind::Told) => Self::Told(Err(text)),
            Ok(WordKind::Report) => Self::of_topic(Topic::Measure, flat.report, epoch),
            Ok(WordKind::Probe) => {
                Self::of_topic(Topic::Probe, ProbeRequest { to: node }.bytes(), epoch)
            }
            Ok(WordKind::Stop) => Self::Stop { epoch },
            Ok(WordKind::Balance) => Self::of_topic(Topic::Batches, told, 0),
            Ok(WordKind::Routes) => Self::Routes { epoch, routes: flat.routes },
            Ok(WordKind::Overlay) => {
                flat.overlay.map_or(Self::Unknown, |overlay| Self::Overlay { epoch, overlay })
            }
            Ok(WordKind::Exchange) => Self::of_topic(Topic::Exchange, told, 0),
            Ok(WordKind::Counters) => Self::of_topic(Topic::Counters, told, 0),
            Ok(WordKind::Stalled) => {
                let bytes = flat.stalled.map_or_else(Bytes::new, |stalled| stalled.bytes());
                Self::of_topic(Topic::Stall, bytes, 0)
            }
            Ok(WordKind::GivesUp) => Self::GivesUp { text, incarnation: flat.number },
            Ok(WordKind::Save) => Self::Save(told),
            Err(_) => {
                let number = flat.kind.checked_sub(LATER).and_then(|from| u8::try_from(from).ok());
                number.map_or(Self::Unknown, |number| Self::of_topic(Topic::Later(number), told, 0))
            }
        }
    }
}

impl From<&Word> for FlatWord {
    fn from(word: &Word) -> Self {
        let of = |kind: WordKind| Self { kind: kind as i32, ..Self::default() };
        let under = |epoch: u64, kind: WordKind| Self { epoch, ..of(kind) };
        match word.clone() {
            Word::Unknown => Self::default(),
            Word::Policy { policy: RoutedPolicy { policy, routes }, text } => Self {
                servers: policy.servers,
                draining: policy.draining,
                homes: policy.homes,
                lost: policy.lost,
                released: policy.released,
                replicas: policy.replicas,
                workers: policy.workers,
                copies: policy.copies,
                live: policy.live,
                exchange: policy.exchange,
                routes,
                text,
                ..under(policy.epoch, WordKind::Policy)
            },
            Word::Collect { epoch, lost, text } => {
                Self { lost, text, ..under(epoch, WordKind::Collect) }
            }
            Word::Claims(ClaimWord { epoch, claims, difference, fixed, opaque }) => {
                let Difference { number, since, gone } = difference;
                let text = fixed.unwrap_or_default();
                let flat = under(epoch, WordKind::Claims);
                Self { claims, number, since, gone, text, opaque, ..flat }
            }
            Word::Orders { epoch, moves } => Self { moves, ..under(epoch, WordKind::Orders) },
            Word::Leave { epoch } => under(epoch, WordKind::Leave),
            Word::Stop { epoch } => under(epoch, WordKind::Stop),
            Word::Routes { epoch, routes } => Self { routes, ..under(epoch, WordKind::Routes) },
            Word::Overlay { epoch, overlay } => {
                Self { overlay: Some(overlay), ..under(epoch, WordKind::Overlay) }
            }
            Word::Report { epoch } => under(epoch, WordKind::Report),
            Word::Topic { topic, bytes, epoch } => about(topic, bytes, epoch),
            Word::Status { way, chronicle } => {
                asked(way, Self { chronicle, ..of(WordKind::Status) })
            }
            Word::Drain { server, way } => asked(way, Self { node: server, ..of(WordKind::Drain) }),
            Word::Save(told) => Self { told, number: OWN_CONNECTION, ..of(WordKind::Save) },
            Word::Told(Ok(OperatorAnswer { text, told })) => {
                Self { text, told, ..of(WordKind::Told) }
            }
            Word::Told(Err(text)) => Self { text, node: EMPTY, ..of(WordKind::Told) },
            Word::GivesUp { text, incarnation } => {
                Self { text, number: incarnation, ..of(WordKind::GivesUp) }
            }
        }
    }
}

/// Some topics have fields of their own: their words are older than topics are.
fn about(topic: Topic, bytes: Bytes, epoch: u64) -> FlatWord {
    let of = |kind: WordKind| FlatWord { kind: kind as i32, ..FlatWord::default() };
    match topic {
        Topic::Batches => FlatWord { told: bytes, ..of(WordKind::Balance) },
        Topic::Exchange => FlatWord { told: bytes, ..of(WordKind::Exchange) },
        Topic::Counters => FlatWord { told: bytes, ..of(WordKind::Counters) },
        Topic::Measure => FlatWord { report: bytes, epoch, ..of(WordKind::Report) },
        Topic::Probe => {
            let node = ProbeRequest::read(&bytes).unwrap_or_default().to;
            FlatWord { node, epoch, ..of(WordKind::Probe) }
        }
        Topic::Stall => {
            let stalled = StalledRound::read(&bytes).filter(|_| !bytes.is_empty());
            FlatWord { stalled, ..of(WordKind::Stalled) }
        }
        Topic::Later(number) => {
            FlatWord { kind: LATER + i32::from(number), told: bytes, ..FlatWord::default() }
        }
    }
}

fn asked(AnswerWay { own_connection, listens_at }: AnswerWay, flat: FlatWord) -> FlatWord {
    FlatWord { number: own_connection.into(), text: listens_at, ..flat }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::elastic::Route;

    const EPOCH: u64 = 7;
    const BYTES: Bytes = Bytes::from_static(b"more");

    fn of(kind: WordKind) -> FlatWord {
        FlatWord { kind: kind as i32, ..FlatWord::default() }
    }

    fn under(kind: WordKind) -> FlatWord {
        FlatWord { epoch: EPOCH, ..of(kind) }
    }

    fn routes() -> Vec<KeyRoute> {
        vec![KeyRoute { key: 3, route: Route { from: 0, to: 8, term: 1, owner: 10 } }]
    }

    fn stalled() -> StalledRound {
        StalledRound { key: 3, round: 1, pushed: vec![9], ..Default::default() }
    }

    /// All fields say something.
    fn full(kind: i32) -> FlatWord {
        FlatWord {
            kind,
            epoch: EPOCH,
            servers: vec![8, 10],
            homes: vec![8, 8],
            routes: routes(),
            lost: vec![12],
            claims: vec![Claim { key: 3, ..Claim::default() }],
            moves: vec![Order { key: 3, from: 0, to: 8, owner: 10 }],
            node: 8,
            text: "text".to_owned(),
            report: BYTES,
            replicas: 1,
            draining: vec![10],
            workers: 2,
            released: vec![14],
            copies: vec![CopyPlace { owner: 8, holder: 10 }],
            live: vec![LiveWorker { node: 9, ..LiveWorker::default() }],
            opaque: true,
            number: 1,
            since: 4,
            gone: vec![5],
            stalled: Some(stalled()),
            told: BYTES,
            overlay: Some(Overlay { number: 2, ..Overlay::default() }),
            exchange: Some(ExchangeSpec::default()),
            chronicle: Some(ChronicleQuestion { after_event: 7, after_point: 1500 }),
        }
    }

    fn told_by(word: &Word) -> (Word, FlatWord) {
        (word.clone(), FlatWord::from(word))
    }

    #[test]
    fn each_word_has_the_fields_of_its_kind() {
        let all = full(0);
        let policy = FlatWord {
            servers: all.servers.clone(),
            homes: all.homes.clone(),
            routes: routes(),
            lost: all.lost.clone(),
            text: all.text.clone(),
            replicas: 1,
            draining: all.draining.clone(),
            workers: 2,
            released: all.released.clone(),
            copies: all.copies.clone(),
            live: all.live.clone(),
            exchange: all.exchange,
            ..under(WordKind::Policy)
        };
        let claims = FlatWord {
            claims: all.claims.clone(),
            text: all.text.clone(),
            opaque: true,
            number: 1,
            since: 4,
            gone: all.gone.clone(),
            ..under(WordKind::Claims)
        };
        let text = all.text.clone();
        let asked = |kind| FlatWord { text: text.clone(), number: 1, ..of(kind) };
        let fields = [
            of(WordKind::Unknown),
            policy,
            FlatWord { lost: vec![12], text: text.clone(), ..under(WordKind::Collect) },
            claims,
            FlatWord { moves: all.moves.clone(), ..under(WordKind::Orders) },
            under(WordKind::Leave),
            FlatWord { node: 8, ..asked(WordKind::Drain) },
            FlatWord { chronicle: all.chronicle, ..asked(WordKind::Status) },
            FlatWord { node: EMPTY, text: text.clone(), ..of(WordKind::Told) },
            FlatWord { report: BYTES, ..under(WordKind::Report) },
            FlatWord { node: 8, ..under(WordKind::Probe) },
            under(WordKind::Stop),
            FlatWord { told: BYTES, ..of(WordKind::Balance) },
            FlatWord { routes: routes(), ..under(WordKind::Routes) },
            FlatWord { overlay: all.overlay, ..under(WordKind::Overlay) },
            FlatWord { told: BYTES, ..of(WordKind::Exchange) },
            FlatWord { told: BYTES, ..of(WordKind::Counters) },
            FlatWord { stalled: Some(stalled()), ..of(WordKind::Stalled) },
            asked(WordKind::GivesUp),
            FlatWord { told: BYTES, number: 1, ..of(WordKind::Save) },
            FlatWord { kind: 69, told: BYTES, ..FlatWord::default() },
        ];
        for flat in fields {
            let word = Word::from(full(flat.kind));
            assert_eq!(FlatWord::from(&word), flat);
            assert_eq!(Word::from(flat), word, "nothing of it was lost");
        }
    }

    #[test]
    fn an_answer_that_refuses_nothing_names_no_node() {
        let answer = OperatorAnswer { text: "text".to_owned(), told: BYTES };
        let (word, flat) = told_by(&Word::Told(Ok(answer)));
        assert_eq!((flat.node, flat.text.as_str(), &flat.told), (0, "text", &BYTES));
        assert_eq!(Word::from(flat), word);
    }

    /// What is told comes back, in the fields that its word had before there were topics.
    #[test]
    fn each_topic_travels_in_the_fields_of_its_word() {
        let probe = ProbeRequest { to: 8 }.bytes();
        let cases = [
            (Topic::Batches, BYTES, FlatWord { told: BYTES, ..of(WordKind::Balance) }),
            (Topic::Exchange, BYTES, FlatWord { told: BYTES, ..of(WordKind::Exchange) }),
            (Topic::Counters, BYTES, FlatWord { told: BYTES, ..of(WordKind::Counters) }),
            (Topic::Measure, BYTES, FlatWord { report: BYTES, ..under(WordKind::Report) }),
            (Topic::Probe, probe, FlatWord { node: 8, ..under(WordKind::Probe) }),
            (
                Topic::Stall,
                stalled().bytes(),
                FlatWord { stalled: Some(stalled()), ..of(WordKind::Stalled) },
            ),
            (Topic::Stall, Bytes::new(), of(WordKind::Stalled)),
            (Topic::Later(5), BYTES, FlatWord { kind: 69, told: BYTES, ..FlatWord::default() }),
        ];
        for (topic, bytes, flat) in cases {
            let (word, same) = told_by(&Word::of_topic(topic, bytes.clone(), EPOCH));
            assert_eq!(same, flat);
            assert!(matches!(word, Word::Topic { topic: of, bytes: told, .. }
                if (of, &told) == (topic, &bytes)));
            let Word::Topic { topic: back, bytes: told, .. } = Word::from(flat) else {
                panic!("{topic:?} is none");
            };
            assert_eq!((back, told), (topic, bytes));
        }
        let nothing = Word::of_topic(Topic::Measure, Bytes::new(), EPOCH);
        assert_eq!(told_by(&nothing), (Word::Report { epoch: EPOCH }, under(WordKind::Report)));
    }

    #[test]
    fn no_other_word_is_of_a_topic() {
        for kind in (i32::MIN..=i32::MIN + 9).chain(-9..LATER).chain(LATER + 256..LATER + 300) {
            let word = Word::from(FlatWord { kind, ..FlatWord::default() });
            let known = WordKind::try_from(kind);
            let of_topic = matches!(
                known,
                Ok(WordKind::Balance
                    | WordKind::Exchange
                    | WordKind::Counters
                    | WordKind::Probe
                    | WordKind::Stalled)
            );
            assert_eq!(matches!(word, Word::Topic { .. }), of_topic, "{known:?}");
            assert!(known.is_ok() || word == Word::Unknown, "{kind}");
        }
    }
}
