//! What a command of MXNet's workers asks for (kvstore_dist_server.h:45), by its number.

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// `kController`: the optimizer, as a pickle.
    Controller,
    /// `kSetMultiPrecision`.
    MultiPrecision,
    /// `kStopServer`.
    Stop,
    /// `kSyncMode`: this is `dist_sync`.
    SyncMode,
    /// `kSetGradientCompression`.
    Compression,
    /// `kSetProfilerParams`.
    Profiler,
    /// Ours: what this worker makes, which all workers have to say alike (`store::agreement`).
    Agree,
    /// Another number: MXNet answers it and does nothing.
    Other(i32),
}

impl From<i32> for Head {
    fn from(number: i32) -> Self {
        match number {
            0 => Self::Controller,
            1 => Self::MultiPrecision,
            2 => Self::Stop,
            3 => Self::SyncMode,
            4 => Self::Compression,
            5 => Self::Profiler,
            100 => Self::Agree,
            other => Self::Other(other),
        }
    }
}

impl Head {
    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Controller => 0,
            Self::MultiPrecision => 1,
            Self::Stop => 2,
            Self::SyncMode => 3,
            Self::Compression => 4,
            Self::Profiler => 5,
            Self::Agree => 100,
            Self::Other(other) => other,
        }
    }

    /// True if it is in force until another one of its kind comes: servers that come later obey it
    /// too.
    #[must_use]
    pub const fn stays(self) -> bool {
        match self {
            Self::Controller | Self::MultiPrecision | Self::SyncMode | Self::Compression => true,
            Self::Stop | Self::Profiler | Self::Agree | Self::Other(_) => false,
        }
    }
}
