//! The library that is preloaded into the stock MXNet wheel.
