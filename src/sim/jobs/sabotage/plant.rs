//! The names of the mistakes that can be planted.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plant {
    /// A server counts a push that comes again as a new one.
    DuplicateCounted,
    /// A server takes what it sent to its replica for confirmed, and sends it late.
    AnswerBeforeReplica,
    /// A worker believes routes that it knew before.
    StaleRouteWins,
    /// A replica skips the sum of every fourth round.
    ReplicaSkipsRound,
    /// A piece that leaves takes pushes of the next round for counted.
    MoveShipsOpenRound,
    /// A request that has to wait for a policy is forgotten.
    ParkedRequestLost,
    /// A piece comes without marks.
    MarksNotMoved,
    /// A piece comes without the state of its optimizer.
    StateNotMoved,
    /// A replica does not note which pushes a round had.
    RoundWithoutMarks,
    /// Servers go on as if one that was declared dead still served, and take from it what comes.
    TakesFromTheDead,
    /// A server goes back to the policy before the newest.
    OldEpochAccepted,
    /// A server that joined serves before it has the commands.
    JoinerServesEarly,
    /// A server claims copies as if it were their owner.
    ReplicaClaimsToOwn,
    /// A server answers with claims of an earlier time.
    OldClaims,
    /// A former owner's copy is forgotten before the new owner is safe.
    ForgottenBeforeSafe,
    /// The scheduler does not note which epochs it gave out.
    EpochsNotNoted,
    /// The scheduler does not note who joined.
    JoinsNotNoted,
    /// A server counts the initial values of a worker that came back.
    InitCounted,
    /// A server takes what comes of a worker's former life for what its last one pushes.
    LivesMixed,
    /// A server does not hear which workers live.
    DeadAwaited,
    /// A pull gets values that came ahead of an earlier one.
    AheadOfAnEarlier,
    /// A relay leaves a push out of the names of its sum.
    NameForgotten,
    /// A relay names a push twice.
    NameTwice,
    /// A relay sends a sum once more, as one of the next round.
    SumAgain,
    /// A server does not hear the floor.
    FloorNotHeard,
    /// A relay takes what is for a round for one before.
    RoundsMerged,
    /// A relay answers its worker in the owner's place.
    RelayAnswers,
    /// A relay passes on the values of an earlier round.
    EarlierValues,
    /// A relay forgets what comes before its overlay.
    EarlyHopLost,
    /// An owner tells some workers another tree than others.
    TreeChanged,
    /// The scheduler does not note which overlays it gave out.
    OverlaysNotNoted,
    /// An owner tells some of those who ask another tree than others.
    AskersApart,
    /// An owner says of a push that has counted, when it is asked, that it has not.
    CountedPushedAgain,
    /// The keys of a worker's second customer are those of the first one.
    CustomersMixed,
    /// A server takes commands of a second customer for those of the first one.
    CommandsMixed,
    /// The lease waits for a worker that came back, as if it had been there from the beginning.
    LeaseAwaitsReturned,
    /// The lease waits for a dead worker.
    LeaseAwaitsDead,
    /// A worker goes on with the first share that it ever got.
    ShareKept,
    /// Each node takes its own pauses for the silence of others.
    PausesCounted,
    /// A worker sends its first delta with twice its values.
    FirstDeltaTwice,
    /// A worker leaves without its last stretch.
    LastStretchLost,
    /// A worker is never told another global value than the first one.
    SwapForgotten,
    /// A replica divides the mean of a round once more.
    DividedTwice,
    /// A server waits for workers that have left, in a job that exchanges deltas.
    LeftAwaited,
    /// Where all align, each is told to go on to as many rounds as none of them has sent.
    AlignsAtTheFirst,
    /// Where all align, workers that died are awaited.
    MeetingAwaitsTheDead,
    /// A worker sends its deltas in another order than that of rounds.
    TurnsMixed,
    /// A node does not see that its senders had more.
    BacklogNotSeen,
    /// The first server takes what comes for there at once.
    ArrivalsAtOnce,
    /// A node takes all that comes for sent by one of its peers.
    PeersMixed,
    /// The first server sees half of what comes.
    HalfSeen,
    /// The first server sees all that comes twice.
    TwiceSeen,
    /// Servers do not say what they measured.
    ServersSilent,
    /// A node says again and again what it measured first.
    ReportKept,
    /// A node takes the time for which nothing waited to be sent for that for which something did.
    WaitsSwapped,
    /// The scheduler hears the same bytes of each piece.
    BytesUnknown,
    /// The scheduler takes what two servers say for said by the other one.
    ReportsSwapped,
    /// The planners look only for a while.
    LooksEnd,
    /// The planners begin anew again and again.
    PlannersForget,
    /// All pieces that are to move go to the first server.
    OrdersToOne,
    /// Half of the moves of a plan are not ordered.
    OrdersLost,
    /// The moves of a plan go to the servers of its other moves.
    OrdersTurned,
    /// Trees that were worked out are lost.
    AnswersLost,
    /// The scheduler hears nothing of what links carry.
    LinksUnheard,
    /// The scheduler takes what two workers say for said by the other one.
    LinksSwapped,
    /// All trees get as much.
    WeightsEven,
    /// What goes up a tree takes the way of what goes down, and the other way round.
    WaysSwapped,
    /// Half of the trees of each server are not given out.
    TreesForgotten,
    /// A node does not see that one message followed another.
    TrainsNotSeen,
    /// The first worker sees all that comes twice.
    HopsTwice,
    /// A node sends no probe.
    ProbesForgotten,
    /// Nothing that goes along a tree overtakes what comes later in the round.
    ClassesForgotten,
    /// Resenders deliver repetitions.
    RepetitionsDelivered,
    /// A server adds nothing of every third push.
    PushesForgotten,
    /// No node notices a broken connection.
    BreaksNotSeen,
    /// The others' batches do not wait for who replaces a dead worker, though their rounds do.
    PlacesFreed,
    /// A node answers a lost one at once, which it cannot, if that is its successor.
    LostAnswered,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 77] = [
        Self::DuplicateCounted,
        Self::AnswerBeforeReplica,
        Self::StaleRouteWins,
        Self::ReplicaSkipsRound,
        Self::MoveShipsOpenRound,
        Self::ParkedRequestLost,
        Self::MarksNotMoved,
        Self::StateNotMoved,
        Self::RoundWithoutMarks,
        Self::TakesFromTheDead,
        Self::OldEpochAccepted,
        Self::JoinerServesEarly,
        Self::ReplicaClaimsToOwn,
        Self::OldClaims,
        Self::ForgottenBeforeSafe,
        Self::EpochsNotNoted,
        Self::JoinsNotNoted,
        Self::InitCounted,
        Self::LivesMixed,
        Self::DeadAwaited,
        Self::AheadOfAnEarlier,
        Self::NameForgotten,
        Self::NameTwice,
        Self::SumAgain,
        Self::FloorNotHeard,
        Self::RoundsMerged,
        Self::RelayAnswers,
        Self::EarlierValues,
        Self::EarlyHopLost,
        Self::TreeChanged,
        Self::OverlaysNotNoted,
        Self::AskersApart,
        Self::CountedPushedAgain,
        Self::CustomersMixed,
        Self::CommandsMixed,
        Self::LeaseAwaitsReturned,
        Self::LeaseAwaitsDead,
        Self::ShareKept,
        Self::PausesCounted,
        Self::FirstDeltaTwice,
        Self::LastStretchLost,
        Self::SwapForgotten,
        Self::DividedTwice,
        Self::LeftAwaited,
        Self::AlignsAtTheFirst,
        Self::MeetingAwaitsTheDead,
        Self::TurnsMixed,
        Self::BacklogNotSeen,
        Self::ArrivalsAtOnce,
        Self::PeersMixed,
        Self::HalfSeen,
        Self::TwiceSeen,
        Self::ServersSilent,
        Self::ReportKept,
        Self::WaitsSwapped,
        Self::BytesUnknown,
        Self::ReportsSwapped,
        Self::LooksEnd,
        Self::PlannersForget,
        Self::OrdersToOne,
        Self::OrdersLost,
        Self::OrdersTurned,
        Self::AnswersLost,
        Self::LinksUnheard,
        Self::LinksSwapped,
        Self::WeightsEven,
        Self::WaysSwapped,
        Self::TreesForgotten,
        Self::TrainsNotSeen,
        Self::HopsTwice,
        Self::ProbesForgotten,
        Self::ClassesForgotten,
        Self::RepetitionsDelivered,
        Self::PushesForgotten,
        Self::BreaksNotSeen,
        Self::PlacesFreed,
        Self::LostAnswered,
    ];
}
