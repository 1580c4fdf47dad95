//! Tests of the room as a whole; small ones are beside what they test.

mod graphs;
mod numbers;
mod properties;
mod rounds;
mod work;
