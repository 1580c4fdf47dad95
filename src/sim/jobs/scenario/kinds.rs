//! The scenarios: what goes wrong in a job, and by which name the command line has it. What a seed
//! makes of each is next door.

/// What a job is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// Nothing happens.
    Calm,
    /// Pieces move.
    Moves,
    /// Lines have different rates, which change.
    Rates,
    /// Servers join.
    Joins,
    /// Servers are emptied.
    Drains,
    /// Processes pause, and connections break, too shortly for anybody to be taken for dead.
    Hiccups,
    /// Messages are lost, repeated and overtaken below the connections, which make it good, and
    /// late; servers join and die.
    Losses,
    /// Servers die at random moments.
    Deaths,
    /// A server dies exactly before or after a step.
    Steps,
    /// Servers are taken for dead, and are not.
    FalseDeaths,
    /// Servers die, and are started again.
    Restarts,
    /// The scheduler dies, and goes on with its journal.
    Scheduler,
    /// All data take the stock wire, and servers join and die.
    StockWire,
    /// More servers die than there are copies.
    TooManyDeaths,
    /// Workers die, are taken for dead, and are started again; servers do too.
    Workers,
    /// Everything at once.
    Storm,
    /// Rounds go along trees, which change; some of what goes along them is lost; and servers,
    /// workers and the scheduler die.
    Trees,
    /// Workers share batches, die, are taken for dead, and are started again.
    Sessions,
    /// All processes stand still, for longer than any silence that is suffered; each begins and
    /// ends a little earlier or later than others. Servers join, and the scheduler may come back.
    StandStill,
    /// Keys stay where they are; a node dies or leaves, all stand still, or messages are lost that
    /// the resender brings back.
    Stays,
    /// Workers exchange deltas, at different speeds and for different numbers of iterations; pieces
    /// move, servers and the scheduler die, or rounds go along trees.
    Exchange,
    /// The same, and workers die, are taken for dead, and are started again.
    ExchangeLives,
    /// Keys are placed by what nodes measure, over cards whose rates change.
    Placement,
    /// Trees are planned by what nodes measure, over links between sites whose rates change.
    Sites,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Calm,
        Self::Moves,
        Self::Rates,
        Self::Joins,
        Self::Drains,
        Self::Hiccups,
        Self::Losses,
        Self::Deaths,
        Self::Steps,
        Self::FalseDeaths,
        Self::Restarts,
        Self::Scheduler,
        Self::StockWire,
        Self::TooManyDeaths,
        Self::Workers,
        Self::Storm,
        Self::Trees,
        Self::Sessions,
        Self::StandStill,
        Self::Stays,
        Self::Exchange,
        Self::ExchangeLives,
        Self::Placement,
        Self::Sites,
    ];

    /// Its name, as the command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Moves => "moves",
            Self::Rates => "rates",
            Self::Joins => "joins",
            Self::Drains => "drains",
            Self::Hiccups => "hiccups",
            Self::Losses => "losses",
            Self::Deaths => "deaths",
            Self::Steps => "steps",
            Self::FalseDeaths => "false-deaths",
            Self::Restarts => "restarts",
            Self::Scheduler => "scheduler",
            Self::StockWire => "stock-wire",
            Self::TooManyDeaths => "too-many-deaths",
            Self::Workers => "workers",
            Self::Storm => "storm",
            Self::Trees => "trees",
            Self::Sessions => "sessions",
            Self::StandStill => "stand-still",
            Self::Stays => "stays",
            Self::Exchange => "exchange",
            Self::ExchangeLives => "exchange-lives",
            Self::Placement => "placement",
            Self::Sites => "sites",
        }
    }

    /// That which a seed stands for if none is named: all in turn, but for the last five, without
    /// which a seed is the job that it was.
    #[must_use]
    pub const fn of_seed(seed: u64) -> Self {
        Self::ALL[(seed % (Self::ALL.len() as u64 - 5)) as usize]
    }
}
